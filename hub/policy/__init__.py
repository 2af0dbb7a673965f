"""Policy: which user may do what, by whole components of topics. No I/O; see docs/policy.md for the language.

| file | |
|---|---|
| `path` | what a grant speaks of: components, of which one may be the user's own name |
| `grants` | the grants of one action, compiled: what is decided for this topic, at the cost of its depth |
| `policy` | roles and users, those that every policy has among them, and the rights that follow for one user |
| `certificate_name` | what a certificate says of whose it is |
| `limits` | how much users may hold, and how fast they may publish, as it is written there |
| `verdict` | what a policy says of one user and one topic, which rule decides, and what limits him |
| `refusal` | what is said to whoever may not do something |
| `language` | a policy as people write it, in TOML, and every way in which it can be wrong |
"""
