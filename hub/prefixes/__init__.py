"""Structures over prefixes: the multimap of handlers, and the filter of what peers are asked for."""
