"""What every connection needs of an asyncio transport beyond its methods, and a stand-in for a transport.

The far side's address, writing several pieces, and the end of writing are each handled in one place, so that no
connection depends on how one version of Python or one kind of transport behaves. No state.
"""

from __future__ import annotations

import asyncio
import fcntl
import socket
import sys
import termios
from contextlib import suppress

from peers.transport.endpoints import url_host

__all__ = [
    "HIGH_WATER_BYTES",
    "NO_TRANSPORT",
    "UNSENT_BYTES",
    "end_writing",
    "far_address",
    "keep_little_unsent",
    "pause_while_unwritten",
    "unread_bytes",
    "write_pieces",
]

HIGH_WATER_BYTES = 64 * 1024
"""How much a transport holds before it pauses its protocol, bytes: the default of asyncio and of uvloop."""

UNSENT_BYTES = 64 * 1024
"""How much of what a link writes waits in the kernel to be sent; otherwise it is about 3 MB, which news cannot
overtake. The transport holds half as much."""


class _NoTransport(asyncio.Transport):
    """The transport before `connection_made`, and after the end. It is closing, so that nothing is written to it."""

    def is_closing(self) -> bool:
        return True

    def pause_reading(self) -> None:
        pass

    def abort(self) -> None:
        pass


NO_TRANSPORT = _NoTransport()


def far_address(transport: asyncio.BaseTransport) -> str:
    """Return the address of the far side, for people: `127.0.0.1:50000`, `[::1]:50000`, or the path of a Unix socket.

    The address of a TCP client that is gone already cannot be asked for; then the text tells where it had come in.
    """
    name = transport.get_extra_info("peername")
    if isinstance(name, tuple):
        return _of_tcp(name)
    here = transport.get_extra_info("sockname")
    if isinstance(here, tuple):
        return f"gone before it was known, at {_of_tcp(here)}"
    return f"unix:{here or ''}"


def _of_tcp(name: tuple[str, int]) -> str:
    return f"{url_host(name[0])}:{name[1]}"


def write_pieces(transport: asyncio.Transport, pieces: list[bytes]) -> None:
    """Write several pieces with one call, and have the protocol paused if the transport then holds too much.

    `writelines` of asyncio's own transports never pauses the protocol in CPython 3.12.0 to 3.12.8, 3.13.0 and 3.13.1
    (CVE-2024-12254). Setting the limits makes every transport compare them with what it holds.

    The same versions watch the descriptor of a transport that was aborted, if something is written to it then. The
    number of that descriptor soon is another connection's, which the event loop then fails to watch. So nothing is
    written to a transport that is closing.
    """
    if transport.is_closing():
        return
    transport.writelines(pieces)
    unwritten = transport.get_write_buffer_size()
    if unwritten and not transport.is_closing():
        low, high = transport.get_write_buffer_limits()
        if unwritten > high:
            transport.set_write_buffer_limits(high, low)


def pause_while_unwritten(transport: asyncio.Transport) -> None:
    """Have the protocol paused whenever the transport holds anything.

    The limit is the most that does not pause; to a transport with TLS it is the least that does, and at 0 it would
    pause the protocol with each write and never resume it.
    """
    transport.set_write_buffer_limits(high=1 if transport.get_extra_info("sslcontext") is not None else 0)


def keep_little_unsent(transport: asyncio.Transport) -> None:
    """Have the kernel, where it can do so, and the transport hold little: the hub's queue is where messages wait."""
    transport.set_write_buffer_limits(high=UNSENT_BYTES // 2)
    sock = transport.get_extra_info("socket")
    option = getattr(socket, "TCP_NOTSENT_LOWAT", None)
    if sock is not None and option is not None and sock.family in {socket.AF_INET, socket.AF_INET6}:
        with suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, option, UNSENT_BYTES)


def end_writing(transport: asyncio.Transport) -> bool:
    """Tell the far side that nothing more comes; return False if this kind of transport cannot.

    It is no error if the far side is gone and this side has not read that yet: it will read it in the next turn.
    """
    if not transport.can_write_eof():  # a transport with TLS cannot
        return False
    with suppress(OSError):
        transport.write_eof()
    return True


def unread_bytes(transport: asyncio.Transport) -> int:
    """Return what waits in the transport and in the socket's send buffer, bytes.

    For TCP that is what the far side's system has not taken yet, for a Unix socket what the far side has not read.
    """
    if transport.is_closing():
        return 0
    waiting, sock = transport.get_write_buffer_size(), transport.get_extra_info("socket")
    if sock is None:
        return waiting
    try:
        number = fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, bytes(4))
    except OSError:
        return waiting
    return waiting + int.from_bytes(number, sys.byteorder)
