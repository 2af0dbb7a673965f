"""`Channel`: a connection while it is being set up: blocking, with a time limit, and reading ahead.

`Channel` is a plain TCP connection, `WebSocketChannel` the inside of WebSocket frames (RFC 6455), with the handshake.
When a run begins, the engine takes the socket (`release`) and nothing may be left unread.
"""

from __future__ import annotations

import base64
import os
import socket

from generators.tls import secured
from generators.websocket import encode_frame, take_frame

__all__ = ["Channel", "WebSocketChannel"]

SETUP_LIMIT_S = 20.0
"""A broker that is silent for so long during set-up is taken for broken."""

_STEP_BYTES = 64 * 1024


class Channel:
    """One connection to 127.0.0.1."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=SETUP_LIMIT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._unread = bytearray()

    def secure(self, ca: str) -> None:
        """Go on with TLS, where there is an authority that vouches for the broker (a PEM file)."""
        if ca:
            self.socket = secured(self.socket, ca)

    def send(self, data: bytes) -> None:
        """Send all of it."""
        self.socket.sendall(data)

    def _fill(self) -> None:
        data = self.socket.recv(_STEP_BYTES)
        if not data:
            raise ConnectionError(f"the broker closed the connection; unread: {bytes(self._unread[:200])!r}")
        self._unread += data

    def receive(self, size_bytes: int) -> bytes:
        """Return exactly so many bytes."""
        while len(self._unread) < size_bytes:
            self._fill()
        data = bytes(self._unread[:size_bytes])
        del self._unread[:size_bytes]
        return data

    def receive_to(self, end: bytes) -> bytes:
        """Return everything up to `end`, with it."""
        while (place := self._unread.find(end)) < 0:
            self._fill()
        return self.receive(place + len(end))

    def release(self, *, listening: bool) -> socket.socket:
        """Hand the socket over to a run.

        Args:
            listening: What comes will be checked, so nothing may have come already.

        Raises:
            ConnectionError: The broker has sent something that nobody waits for.
        """
        if self._unread and listening:
            raise ConnectionError(f"not expected before the first message: {bytes(self._unread[:200])!r}")
        self.socket.setblocking(False)
        return self.socket


class WebSocketChannel(Channel):
    """One WebSocket connection; what is sent and received is the content of frames.

    Args:
        port: On 127.0.0.1.
        path: Of the request.
        subprotocol: To ask for, empty for none.
        opcode: Of what is sent: 1 text, 2 binary.
    """

    def __init__(self, port: int, path: str, subprotocol: str = "", opcode: int = 2) -> None:
        super().__init__(port)
        self._opcode = opcode
        self._raw = bytearray()
        key = base64.b64encode(os.urandom(16)).decode()
        lines = [
            f"GET {path} HTTP/1.1",
            f"Host: 127.0.0.1:{port}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Key: {key}",
            "Sec-WebSocket-Version: 13",
        ]
        if subprotocol:
            lines.append(f"Sec-WebSocket-Protocol: {subprotocol}")
        self.socket.sendall("\r\n".join([*lines, "", ""]).encode())
        while (end := self._raw.find(b"\r\n\r\n")) < 0:
            self._read_raw()
        if not self._raw.startswith(b"HTTP/1.1 101"):
            raise ConnectionError(f"no WebSocket: {bytes(self._raw[:200])!r}")
        del self._raw[: end + 4]

    def send(self, data: bytes) -> None:
        """Send it as one message."""
        self.socket.sendall(encode_frame(self._opcode, data))

    def receive_message(self) -> bytes:
        """Return the content of one frame."""
        while (frame := take_frame(self._raw)) is None:
            self._read_raw()
        return frame

    def _fill(self) -> None:
        self._unread += self.receive_message()

    def _read_raw(self) -> None:
        data = self.socket.recv(_STEP_BYTES)
        if not data:
            raise ConnectionError(f"the broker closed the connection; unread: {bytes(self._raw[:200])!r}")
        self._raw += data

    def release(self, *, listening: bool) -> socket.socket:
        """Hand the socket over to a run."""
        self._unread += self._raw
        return super().release(listening=listening)
