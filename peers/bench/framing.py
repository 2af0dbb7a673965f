"""How a stream from the hub is cut: frames of the hub's own protocol, or WebSocket frames with msgpack in them.

Both say of the next frame either that it holds messages of this benchmark, and where (`Shape`), or what else it is
(`Control`). No I/O; sizes in bytes.

Not here: a general reader of either protocol. A WebSocket frame is searched for its `values` instead of being decoded,
because at 100,000 frames a second decoding would cost more than the hub does.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import msgspec

from hub.errors import ProtocolError
from hub.frame import BATCH_COUNT, FLAG_BATCH, HEADER, HEADER_BYTES, KIND_MESSAGES, encode_frame
from peers.bench.errors import BenchError
from peers.bench.layout import TOPIC_DIGITS, Layout
from peers.wire.control import decode_close, decode_notice
from peers.wire.hello import Hello
from peers.wire.kinds import Kind

__all__ = ["Control", "Framing", "Shape", "TcpFraming", "WebSocketFraming", "websocket_frame"]


class Shape(NamedTuple):
    """A whole frame with messages."""

    size: int
    head: int
    """So many bytes at its start are the same in each frame of this shape."""
    first_value: int
    values: int
    topic: int
    """The number in its topic."""


class Control(NamedTuple):
    """A whole frame of another kind."""

    size: int
    word: str
    """"greeting", "confirmed", "dropped", "error", "ping", "close", "other"."""
    request: int = 0
    lost: int = 0
    """With "dropped": how many messages."""
    code: int = 0
    text: str = ""
    answer: bytes = b""
    """What the hub expects to be sent back."""
    queue_messages: int = 0
    """With "greeting": what was granted, 0 if it is not told."""
    queue_bytes: int = 0


class Framing(Protocol):
    """A way to cut a stream."""

    def at(self, buffer: bytearray, position: int, end: int) -> Shape | Control | None:
        """Say what begins at `position`; None if it is not whole before `end`.

        Raises:
            BenchError: Nothing that a hub should send here.
        """


class TcpFraming:
    """The hub's own frames."""

    __slots__ = ("_layout", "_prefix")

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._prefix = layout.prefix.encode()

    def at(self, buffer: bytearray, position: int, end: int) -> Shape | Control | None:
        """See `Framing`."""
        if end - position < HEADER_BYTES:
            return None
        body_length, kind, flags, key_length = HEADER.unpack_from(buffer, position)
        body = HEADER_BYTES + key_length
        size = body + body_length
        if position + size > end:
            return None
        if kind != KIND_MESSAGES:
            return _control(kind, bytes(buffer[position + body : position + size]), size)
        key = position + HEADER_BYTES
        values, first = 1, body
        if flags & FLAG_BATCH:
            values, first = BATCH_COUNT.unpack_from(buffer, position + body)[0], body + BATCH_COUNT.size
        if size - first != values * self._layout.value_bytes or not buffer.startswith(self._prefix, key):
            raise BenchError(f"a message that this benchmark did not send: {bytes(buffer[position : position + 80])!r}")
        return Shape(size, HEADER_BYTES, first, values, _number(buffer, position + body - TOPIC_DIGITS))


def _control(kind: int, body: bytes, size: int) -> Control:
    try:
        match kind:
            case Kind.HELLO:
                queue = Hello.decode(body).queue
                if queue is None:
                    return Control(size, "greeting")
                return Control(size, "greeting", queue_messages=queue.messages or 0, queue_bytes=queue.bytes or 0)
            case Kind.NOTICE:
                notice = decode_notice(body)
                return Control(size, notice.kind, notice.request, notice.count, notice.code, notice.text)
            case Kind.PING:
                return Control(size, "ping", answer=encode_frame(Kind.PONG, body))
            case Kind.CLOSE:
                code, text = decode_close(body)
                return Control(size, "close", code=code, text=text)
    except ProtocolError as error:
        raise BenchError(f"the hub sent what it should not: {error}") from error
    return Control(size, "other")


_CONTINUATION, _BINARY, _CLOSE, _PING = 0, 2, 8, 9
_FIN = 0x80
_VALUES = b"\xa6values"


class WebSocketFraming:
    """WebSocket frames from a server, with the messages of `hub.v1.msgpack`."""

    __slots__ = ("_layout", "_prefix")

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._prefix = layout.prefix.encode()

    def at(self, buffer: bytearray, position: int, end: int) -> Shape | Control | None:
        """See `Framing`."""
        if end - position < 2:
            return None
        length, head = buffer[position + 1], 2
        if length > 125:
            head = 4 if length == 126 else 10
            if end - position < head:
                return None
            length = int.from_bytes(buffer[position + 2 : position + head], "big")
        size = head + length
        if position + size > end:
            return None
        body, stop = position + head, position + size
        opcode = buffer[position] & 0xF
        if opcode == _BINARY and buffer[position] & _FIN:
            marker = buffer.find(_VALUES, body, stop)
            if marker >= 0:
                return self._messages(buffer, position, marker + len(_VALUES), stop, head)
        return _websocket_control(opcode, bytes(buffer[body:stop]), size)

    def _messages(self, buffer: bytearray, position: int, array: int, stop: int, head: int) -> Shape:
        values = buffer[array]
        first = array + 1
        if values == 0xDC:
            values, first = int.from_bytes(buffer[array + 1 : array + 3], "big"), array + 3
        elif values == 0xDD:
            values, first = int.from_bytes(buffer[array + 1 : array + 5], "big"), array + 5
        else:
            values &= 0x0F
        prefix = buffer.find(self._prefix, position, array)
        if not values or first + values * self._layout.value_bytes > stop or prefix < 0:
            raise BenchError(f"a message that this benchmark did not send: {bytes(buffer[position:first])!r}")
        topic = _number(buffer, prefix + len(self._prefix))
        return Shape(stop - position, head, first - position, values, topic)


def _websocket_control(opcode: int, body: bytes, size: int) -> Control:
    if opcode == _PING:
        return Control(size, "ping", answer=websocket_frame(0xA, body))
    if opcode == _CLOSE:
        code = int.from_bytes(body[:2], "big")
        return Control(size, "close", code=code, text=body[2:].decode("utf-8", "replace"))
    if opcode != _BINARY:
        return Control(size, "other")
    try:
        said: dict[str, Any] = msgspec.msgpack.decode(body, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise BenchError(f"the hub sent what it should not: {error}: {body[:80]!r}") from error
    word = str(said.get("type"))
    request, lost, code = (int(said.get(name, 0)) for name in ("request", "count", "code"))
    queue = said.get("queue", {})
    return Control(
        size,
        "greeting" if word == "welcome" else word,
        request,
        lost,
        code,
        str(said.get("text", "")),
        queue_messages=int(queue.get("messages", 0)),
        queue_bytes=int(queue.get("bytes", 0)),
    )


def websocket_frame(opcode: int, body: bytes) -> bytes:
    """Return a frame of a WebSocket client, masked with zeros: as valid as any mask, and free."""
    length = len(body)
    if length <= 125:
        size = bytes((0x80 | length,))
    elif length < 1 << 16:
        size = b"\xfe" + length.to_bytes(2, "big")
    else:
        size = b"\xff" + length.to_bytes(8, "big")
    return bytes((_FIN | opcode,)) + size + bytes(4) + body


def _number(buffer: bytearray, start: int) -> int:
    digits = bytes(buffer[start : start + TOPIC_DIGITS])
    if not digits.isdigit():
        raise BenchError(f"a topic of this benchmark ends in a number, got {digits!r}")
    return int(digits)
