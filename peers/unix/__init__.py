"""Unix sockets of the hub: connections to clients that may share memory with it."""

from peers.unix.connection import UnixConnection

__all__ = ["UnixConnection"]
