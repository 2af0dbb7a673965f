"""Who somebody is: what a far side shows, how it is recognised, and what the policy then lets it do.

| file | |
|---|---|
| `proof`, `identity` | what a far side shows of itself; who it is |
| `users` | everything by which somebody is recognised, read from files as a whole |
| `access` | the one place where a node asks who somebody is and what he may do |
"""
