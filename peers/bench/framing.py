"""How a stream from the hub is cut: into frames of the hub's own protocol, or into WebSocket frames with msgpack.

Both functions say of the next frame either that it holds messages of this benchmark, and where (`Shape`), or what else
it is (`Control`). Neither keeps a state or does any I/O; sizes are in bytes. Cost: about 1 µs for each frame that is
looked at, and `peers.bench.tally` looks at the first frame of a run only.

Not here: a general reader of either protocol. A WebSocket frame is searched for its `values` instead of being decoded,
because at 100,000 frames a second decoding would cost more than the hub does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
from websockets.frames import Frame, Opcode

from hub.errors import ProtocolError
from hub.frame import BATCH_COUNT, FLAG_BATCH, HEADER, HEADER_BYTES, KIND_MESSAGES, encode_frame
from peers.bench.errors import BenchError
from peers.bench.layout import TOPIC_DIGITS, Layout
from peers.wire.control import decode_close, decode_notice
from peers.wire.hello import Hello, QueueWish
from peers.wire.kinds import Kind

__all__ = ["Control", "Framing", "Shape", "cut_tcp", "cut_websocket", "websocket_frame"]


class Shape(NamedTuple):
    """A whole frame with messages."""

    size: int
    head: int
    """So many bytes at its start are the same in each frame of this shape."""
    first_value: int
    """Where the first value begins, from the start of the frame."""
    values: int
    topic: int
    """The number in its topic."""


class Control(NamedTuple):
    """A whole frame of another kind."""

    size: int
    word: str
    """What it is: "greeting", "confirmed", "dropped", "error", "ping", "close" or "other"."""
    request: int = 0
    lost: int = 0
    """In "dropped", how many messages."""
    code: int = 0
    text: str = ""
    answer: bytes = b""
    """What the hub expects to be sent back."""
    queue: QueueWish = QueueWish()
    """In "greeting", the queue that was granted, as far as it is told."""


Framing = Callable[[Layout, bytearray, int, int], Shape | Control | None]
"""It gets the layout of messages, a buffer, where a frame begins and where the buffer ends. It returns what the frame
is, or None while the frame is not whole, and raises `BenchError` for what a hub should not send here."""


def cut_tcp(layout: Layout, buffer: bytearray, position: int, end: int) -> Shape | Control | None:
    """Cut the hub's own protocol; see `Framing`."""
    if end - position < HEADER_BYTES:
        return None
    body_length, kind, flags, key_length = HEADER.unpack_from(buffer, position)
    body = HEADER_BYTES + key_length
    size = body + body_length
    if position + size > end:
        return None
    if kind != KIND_MESSAGES:
        return _control(kind, bytes(buffer[position + body : position + size]), size)
    values, first = 1, body
    if flags & FLAG_BATCH:
        values, first = BATCH_COUNT.unpack_from(buffer, position + body)[0], body + BATCH_COUNT.size
    ours = buffer.startswith(layout.prefix_bytes, position + HEADER_BYTES)
    if size - first != values * layout.value_bytes or not ours:
        raise _strange(buffer[position : position + size])
    return Shape(size, HEADER_BYTES, first, values, _number(buffer, position + body - TOPIC_DIGITS))


def _control(kind: int, body: bytes, size: int) -> Control:
    try:
        match kind:
            case Kind.HELLO:
                return Control(size, "greeting", queue=Hello.decode(body).queue or QueueWish())
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


_OPCODE_BITS, _FINAL = 0x0F, 0x80
_VALUES = b"\xa6values"
_ARRAY_SIZES = {0xDC: 2, 0xDD: 4}
"""By its first byte, how many bytes behind it hold the length of a msgpack array of 16 values or more."""


def cut_websocket(layout: Layout, buffer: bytearray, position: int, end: int) -> Shape | Control | None:
    """Cut WebSocket frames of a server with the messages of `hub.v1.msgpack`; see `Framing`."""
    if end - position < 2:
        return None
    length, head = buffer[position + 1], 2
    if length > 125:
        head = 4 if length == 126 else 10
        if end - position < head:
            return None
        length = int.from_bytes(buffer[position + 2 : position + head], "big")
    body, stop = position + head, position + head + length
    if stop > end:
        return None
    opcode = buffer[position] & _OPCODE_BITS
    if opcode == Opcode.BINARY and buffer[position] & _FINAL:
        marker = buffer.find(_VALUES, body, stop)
        if marker >= 0:
            shape = _websocket_shape(layout, buffer[position:stop], marker + len(_VALUES) - position)
            return shape._replace(head=head)
    return _websocket_control(opcode, bytes(buffer[body:stop]), stop - position)


def _websocket_shape(layout: Layout, frame: bytearray, array: int) -> Shape:
    """Read a frame whose array of values begins at `array`."""
    size = _ARRAY_SIZES.get(frame[array], 0)
    first = array + 1 + size
    values = int.from_bytes(frame[array + 1 : first], "big") if size else frame[array] & 0x0F
    prefix = frame.find(layout.prefix_bytes, 0, array)
    if not values or first + values * layout.value_bytes > len(frame) or prefix < 0:
        raise _strange(frame)
    return Shape(len(frame), 0, first, values, _number(frame, prefix + len(layout.prefix_bytes)))


def _websocket_control(opcode: int, body: bytes, size: int) -> Control:
    if opcode == Opcode.PING:
        return Control(size, "ping", answer=websocket_frame(Opcode.PONG, body))
    if opcode == Opcode.CLOSE:
        return Control(size, "close", code=int.from_bytes(body[:2], "big"), text=body[2:].decode("utf-8", "replace"))
    if opcode != Opcode.BINARY:
        return Control(size, "other")
    try:
        said = msgspec.msgpack.decode(body, type=dict[str, Any])
        queue = msgspec.convert(said.get("queue", {}), QueueWish)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise BenchError(f"the hub sent what it should not: {error}: {body[:80]!r}") from error
    word = str(said.get("type"))
    request, lost, code = (int(said.get(name, 0)) for name in ("request", "count", "code"))
    word = "greeting" if word == "welcome" else word
    return Control(size, word, request, lost, code, str(said.get("text", "")), queue=queue)


def websocket_frame(opcode: Opcode, body: bytes) -> bytes:
    """Return a frame of a WebSocket client."""
    return Frame(opcode, body).serialize(mask=True)


def _number(buffer: bytearray, start: int) -> int:
    digits = bytes(buffer[start : start + TOPIC_DIGITS])
    if not digits.isdigit():
        raise BenchError(f"a topic of this benchmark ends in a number, got {digits!r}")
    return int(digits)


def _strange(frame: bytearray) -> BenchError:
    return BenchError(f"a message that this benchmark did not send: {bytes(frame[:80])!r}")
