"""Policy: which user may do what, by whole components of topics; see docs/policy.md for the language."""
