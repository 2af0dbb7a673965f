"""Structures over prefixes: the multimap of handlers, and the filter that peers receive."""
