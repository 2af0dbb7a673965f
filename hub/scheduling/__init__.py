"""Deferred work of a turn, and the memory budget."""
