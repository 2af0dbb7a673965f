"""Shared memory between a hub and its clients on one machine, over Unix sockets. See docs/shared-memory.md."""
