"""Permissions of users, by whole components of topics; see docs/policy.md for the language."""
