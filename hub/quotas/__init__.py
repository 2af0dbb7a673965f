"""Everybody's share: what each user holds of the hub, over all his connections, and how much that may be.

`quotas` is the whole: it makes a `share` for each user, which has a `usage` of each `resource`. `limits` are what the
policy sets for users and roles, with how fast they may publish. Nothing here does I/O or knows a clock.
"""
