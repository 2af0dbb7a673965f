"""`Channel`: a connection while it is being set up; `Dialect`: how one protocol spells what is sent and must come.

The engine knows topics as components and interests as topics or prefixes; a dialect makes of them what people who use
that broker would write. It talks only while connections are set up (blocking); then the engine takes the socket.
"""

from __future__ import annotations

import base64
import os
import socket
from collections.abc import Sequence
from struct import Struct
from typing import Literal, NamedTuple, Protocol

DATA = frozenset({0, 1, 2})
"""The opcodes of continuation, text and binary."""

CLOSE = 8
_FINAL = 0x80
_MASKED = 0x80
_NO_MASK = bytes(4)
_U16 = Struct(">H")
_U64 = Struct(">Q")
_MEDIUM_MARK = 126
_LONG_MARK = 127


class Head(NamedTuple):
    opcode: int
    head_bytes: int
    payload_bytes: int


def frame_head(data: bytes | bytearray | memoryview, position: int = 0) -> Head | None:
    left = len(data) - position
    if left < 2:
        return None
    opcode, length = data[position] & 0x0F, data[position + 1]
    if length < _MEDIUM_MARK:
        return Head(opcode, 2, length)
    if length == _MEDIUM_MARK:
        return Head(opcode, 4, _U16.unpack_from(data, position + 2)[0]) if left >= 4 else None
    if length == _LONG_MARK:
        return Head(opcode, 10, _U64.unpack_from(data, position + 2)[0]) if left >= 10 else None
    raise ConnectionError("a server's frame is masked")


def take_frame(data: bytearray) -> bytes | None:
    """Cut the first whole data frame off and return its payload; None if there is none."""
    while (head := frame_head(data)) is not None and len(data) >= head.head_bytes + head.payload_bytes:
        payload = bytes(data[head.head_bytes : head.head_bytes + head.payload_bytes])
        del data[: head.head_bytes + head.payload_bytes]
        if head.opcode in DATA:
            return payload
        if head.opcode == CLOSE:
            raise ConnectionError(f"the broker closed: {payload!r}")
    return None


def encode_frame(opcode: int, payload: bytes) -> bytes:
    size = len(payload)
    if size < _MEDIUM_MARK:
        head = bytes((_FINAL | opcode, _MASKED | size))
    elif size <= 0xFFFF:
        head = bytes((_FINAL | opcode, _MASKED | _MEDIUM_MARK)) + _U16.pack(size)
    else:
        head = bytes((_FINAL | opcode, _MASKED | _LONG_MARK)) + _U64.pack(size)
    return head + _NO_MASK + payload


SETUP_LIMIT_S = 20.0
"""A broker that is silent for so long during set-up is taken for broken."""

_STEP_BYTES = 64 * 1024


class Channel:
    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=SETUP_LIMIT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._unread = bytearray()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def _fill(self) -> None:
        data = self.socket.recv(_STEP_BYTES)
        if not data:
            raise ConnectionError(f"the broker closed the connection; unread: {bytes(self._unread[:200])!r}")
        self._unread += data

    def receive(self, size_bytes: int) -> bytes:
        while len(self._unread) < size_bytes:
            self._fill()
        data = bytes(self._unread[:size_bytes])
        del self._unread[:size_bytes]
        return data

    def receive_to(self, end: bytes) -> bytes:
        while (place := self._unread.find(end)) < 0:
            self._fill()
        return self.receive(place + len(end))

    def release(self, *, listening: bool) -> socket.socket:
        if self._unread and listening:
            raise ConnectionError(f"not expected before the first message: {bytes(self._unread[:200])!r}")
        self.socket.setblocking(False)
        return self.socket


class WebSocketChannel(Channel):
    """One WebSocket connection; what is sent and received is the content of frames."""

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
        self.socket.sendall(encode_frame(self._opcode, data))

    def receive_message(self) -> bytes:
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
        self._unread += self._raw
        return super().release(listening=listening)


Role = Literal["publisher", "subscriber"]
Topic = tuple[str, ...]
"""The components of a topic."""


class Interest(NamedTuple):
    topic: Topic
    below: bool = False
    """Whether it is all topics with further components below this one, not this one itself."""


class Dialect(Protocol):
    unit_messages: int
    """How many messages one frame has; more than 1 only for a protocol that has batches."""

    def connect(self, role: Role) -> Channel:
        """Open a connection and shake hands."""

    def subscribe(self, channel: Channel, interests: Sequence[Interest]) -> None:
        """Subscribe, and return when the broker has done so."""

    def publication(self, topic: Topic, payloads: Sequence[bytes]) -> bytes:
        """Return what a publisher sends; `payloads` are `unit_messages` many."""

    def delivery(self, topic: Topic, payloads: Sequence[bytes], interest: Interest, place: int) -> bytes:
        """Return what a subscriber then gets (through a WebSocket: of message content, see `content`)."""

    def control_bytes(self, data: bytes) -> int:
        """Say what stands at the start of `data`, which is not the message that must come."""

    def content(self, message: memoryview) -> memoryview | bytes:
        """Return of one WebSocket message what `delivery` wrote for the messages in it."""
