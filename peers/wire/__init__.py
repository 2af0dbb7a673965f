"""The hub's own wire protocol, without I/O: bytes in, events out. Every shell uses it: hub, links and clients."""
