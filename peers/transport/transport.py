"""Helpers for asyncio: transports, over differences between versions and kinds; the end of tasks."""

from __future__ import annotations

import asyncio
import fcntl
import socket
import sys
import termios
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from peers.transport.endpoints import url_host

UNSENT_BYTES = 64 * 1024  # Unsent bytes of a link in the kernel; by default about 3 MB, which news cannot overtake


class _NoTransport(asyncio.Transport):
    """The transport before `connection_made` and after the end."""

    def is_closing(self) -> bool:
        return True

    def pause_reading(self) -> None:
        pass

    def abort(self) -> None:
        pass


NO_TRANSPORT = _NoTransport()


def far_address(transport: asyncio.BaseTransport) -> str:
    """Return the far side's address for people: `127.0.0.1:50000`, `[::1]:50000`, or `unix:` and a path.

    Of a TCP client that is gone already, the text gives the local address.
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
    """Write several pieces with one call, and pause the protocol if needed.

    `writelines` of asyncio never pauses the protocol in CPython 3.12.0 to 3.12.8, 3.13.0 and 3.13.1 (CVE-2024-12254);
    setting the limits makes every transport compare. The same versions watch the descriptor of an aborted transport
    that is written to, which may be another connection's by then: a closing transport is not written to.
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
    """Pause the protocol whenever the transport holds anything.

    The high limit does not pause by itself, but with TLS it does: 0 would pause with each write and never resume.
    """
    transport.set_write_buffer_limits(high=1 if transport.get_extra_info("sslcontext") is not None else 0)


def keep_little_unsent(transport: asyncio.Transport) -> None:
    """Keep little in transport and kernel: messages wait in the hub's queue."""
    transport.set_write_buffer_limits(high=UNSENT_BYTES // 2)
    sock = transport.get_extra_info("socket")
    option = getattr(socket, "TCP_NOTSENT_LOWAT", None)
    if sock is not None and option is not None and sock.family in {socket.AF_INET, socket.AF_INET6}:
        with suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, option, UNSENT_BYTES)


def end_writing(transport: asyncio.Transport) -> bool:
    """Close this direction; return False if the transport cannot. A far side that is gone is not an error."""
    if not transport.can_write_eof():  # a transport with TLS cannot
        return False
    with suppress(OSError):
        transport.write_eof()
    return True


def unread_bytes(transport: asyncio.Transport) -> int:
    """Return the bytes in transport and send buffer: for TCP not acknowledged, for Unix sockets not read."""
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


async def end_all(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks, and wait until each has ended."""
    ending = list(tasks)
    for task in ending:
        task.cancel()
    await asyncio.gather(*ending, return_exceptions=True)
