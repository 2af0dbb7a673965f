"""Settings of a hub: each key with its unit, range and default. Sections are frozen; only `merge` checks them."""
