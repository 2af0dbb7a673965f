"""Stores without I/O: named sets of entries that one master keeps and replicas copy.

Keys and values are msgpack, as the hub carries it (docs/data-model.md); this room does not decode them.
"""
