"""Settings of a hub: each key with its unit, range and default.

`Settings` and its sections are frozen values; only `merge` checks them. The annotations of each key carry its
description, so that documentation, environment and command line are made from `KEYS`.
"""
