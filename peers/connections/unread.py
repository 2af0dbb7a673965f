"""`unread_bytes`: how much of what was written has not arrived, as far as this side's system tells."""

from __future__ import annotations

import asyncio
import fcntl
import sys
import termios

__all__ = ["unread_bytes"]

_SIZE = 4
"""Of the integer that the system fills in, bytes."""


def unread_bytes(transport: asyncio.Transport) -> int:
    """Return what waits in the transport and in the socket's send buffer, bytes.

    For TCP that is what the far side's system has not taken yet, for a Unix socket what the far side has not read.
    """
    if transport.is_closing():
        return 0
    waiting = transport.get_write_buffer_size()
    socket = transport.get_extra_info("socket")
    if socket is None:
        return waiting
    try:
        unsent = fcntl.ioctl(socket.fileno(), termios.TIOCOUTQ, bytes(_SIZE))
    except OSError:  # a system that does not tell
        return waiting
    return waiting + int.from_bytes(unsent, sys.byteorder)
