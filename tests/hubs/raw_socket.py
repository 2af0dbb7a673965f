"""What raw clients have in common: a socket, and nothing is read before a test asks for it."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import NamedTuple, Self

from peers.transport.endpoints import Endpoint, Scheme

__all__ = ["READ_BYTES", "Gap", "RawSocket"]
READ_BYTES = 256 * 1024


class Gap(NamedTuple):
    messages: int


class RawSocket:
    """One socket. Nothing is read until a method asks for it: a client that asks for nothing is stalled."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._loop = asyncio.get_running_loop()
        self._buffer = bytearray()

    @classmethod
    async def connect(cls, endpoint: Endpoint, *, receive_bytes: int | None = None) -> Self:
        """Connect, and say nothing."""
        is_unix = endpoint.scheme is Scheme.UNIX
        sock = socket.socket(socket.AF_UNIX if is_unix else socket.AF_INET)
        sock.setblocking(False)
        if receive_bytes is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        address = endpoint.path if is_unix else (endpoint.host, endpoint.port)
        await asyncio.get_running_loop().sock_connect(sock, address)
        return cls(sock)

    async def send(self, *data: bytes) -> None:
        await self._loop.sock_sendall(self._sock, b"".join(data))

    def send_nowait(self, data: bytes) -> int:
        try:
            return self._sock.send(data)
        except BlockingIOError:
            return 0

    async def read(self) -> None:
        """Read what there is, behind what was read and not asked for yet; waits if there is nothing."""
        data = await self._receive()
        if not data:
            raise EOFError(f"the stream ends behind {len(self._buffer)} bytes")
        self._buffer += data

    async def _receive(self) -> bytes:
        return await self._loop.sock_recv(self._sock, READ_BYTES)

    def finish(self) -> None:
        self._sock.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._sock.close()

    def close(self) -> None:
        self._sock.close()
