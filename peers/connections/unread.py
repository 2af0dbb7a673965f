"""How much is on its way, as far as this side's system tells: of what was written, and of what is to be read."""

from __future__ import annotations

import asyncio
import fcntl
import sys
import termios

__all__ = ["arrived_bytes", "unread_bytes"]

_SIZE = 4
"""Of the integer that the system fills in, bytes."""


def unread_bytes(transport: asyncio.Transport) -> int:
    """Return what waits in the transport and in the socket's send buffer, bytes.

    For TCP that is what the far side's system has not taken yet, for a Unix socket what the far side has not read.
    """
    if transport.is_closing():
        return 0
    return transport.get_write_buffer_size() + _told(transport, termios.TIOCOUTQ)


def arrived_bytes(transport: asyncio.Transport) -> int:
    """Return what has arrived from the far side, and waits in the socket to be read, bytes."""
    return 0 if transport.is_closing() else _told(transport, termios.FIONREAD)


def _told(transport: asyncio.Transport, request: int) -> int:
    """Return the number that the system gives for the socket; 0 if it does not tell."""
    socket = transport.get_extra_info("socket")
    if socket is None:
        return 0
    try:
        number = fcntl.ioctl(socket.fileno(), request, bytes(_SIZE))
    except OSError:
        return 0
    return int.from_bytes(number, sys.byteorder)
