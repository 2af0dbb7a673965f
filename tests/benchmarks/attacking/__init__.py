"""Attacks on a hub, each a function that a process of its own runs, and the quiet pair beside them."""
