"""One connection of a load generator (`Line`, a blocking socket), its messages, and the account of them (`Tally`).

A value is msgpack bin: publisher u32, sequence u32, intended time u64, filler; topics are `/bench/<run>/<5 digits>`, so
that all frames are equally long. Message `i` of a publisher goes to topic `i / batch % topics`. Numbers are written and
compared a column of bytes at a time, four slices for a whole block, and a WebSocket frame is searched for its `values`
instead of being decoded: the load generator should cost less than the hub, so it has no event loop and no client.
"""

from __future__ import annotations

import base64
import secrets
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from struct import Struct
from typing import Any, NamedTuple

import msgspec
from websockets.frames import Frame, Opcode

from hub.errors import ProtocolError
from hub.messages.frame import BATCH_COUNT, FLAG_BATCH, HEADER, HEADER_BYTES, KIND_MESSAGES, encode_frame
from peers.bench.measurement import Histogram
from peers.bench.processes import BenchError
from peers.transport.endpoints import Endpoint, Scheme
from peers.wire.control import decode_close, decode_notice, encode_subscription
from peers.wire.hello import PROTOCOL, Hello, QueueWish
from peers.wire.kinds import Kind

STAMP = Struct(">IIQ")
"""The head of a value: publisher, sequence number, intended time in ns."""

SEQUENCE_OFFSET, TIME_OFFSET = 4, 8

SIZE_LEAST_BYTES = STAMP.size
SEQUENCE_LIMIT = 1 << 32
PUBLISHERS_LIMIT = 256
"""The lowest byte of the publisher's number is checked in strides, the others are 0."""

TOPIC_DIGITS = 5
TOPICS_LIMIT = 10**TOPIC_DIGITS


class Layout(msgspec.Struct, frozen=True, dict=True):
    """Sizes and offsets of one benchmark's messages, bytes."""

    prefix: str
    topics: int
    size_bytes: int
    batch: int

    @cached_property
    def prefix_bytes(self) -> bytes:
        return self.prefix.encode()

    @cached_property
    def value_head(self) -> bytes:
        return msgspec.msgpack.encode(bytes(self.size_bytes))[: -self.size_bytes]

    @cached_property
    def value_bytes(self) -> int:
        return len(self.value_head) + self.size_bytes

    @cached_property
    def first_value(self) -> int:
        key_bytes = len(self.prefix_bytes) + TOPIC_DIGITS
        return HEADER_BYTES + key_bytes + (BATCH_COUNT.size if self.batch > 1 else 0)

    @cached_property
    def frame_bytes(self) -> int:
        return self.first_value + self.batch * self.value_bytes

    def topic(self, number: int) -> str:
        return f"{self.prefix}{number:0{TOPIC_DIGITS}}"

    def topic_of(self, sequence: int) -> int:
        return sequence // self.batch % self.topics

    def frame(self, topic: int, publisher: int) -> bytes:
        """Return a frame with sequence numbers and times 0."""
        content = STAMP.pack(publisher, 0, 0).ljust(self.size_bytes, b".")
        body = (self.value_head + content) * self.batch
        key = self.topic(topic).encode()
        if self.batch == 1:
            return encode_frame(KIND_MESSAGES, body, key=key)
        return encode_frame(KIND_MESSAGES, BATCH_COUNT.pack(self.batch) + body, key=key, flags=FLAG_BATCH)


MESSAGES_LIMIT = 65_536
"""Most messages in one grid, so that their numbers carry into the upper half at most once."""

_COLUMNS = 4
_PATTERNS = (
    bytes(range(256)) * 512,
    b"".join(bytes([high]) * 256 for high in range(256)) * 2,
)
"""The two lower bytes of 0, 1, 2 ... 131071."""


class Grid(NamedTuple):
    """Where the sequence numbers stand: frames of equal size, values of equal size in each."""

    first: int
    frames: int
    frame_stride: int
    values: int
    value_stride: int

    def lines(self) -> Iterator[tuple[int, int, int, int, int]]:
        """Yield the grid as few straight lines: offset, stride, count, number at the start, step of the numbers."""
        first, frames, frame_stride, values, value_stride = self
        if frames >= values:
            for value in range(values):
                yield first + value * value_stride, frame_stride, frames, value, values
        else:
            for frame in range(frames):
                yield first + frame * frame_stride, value_stride, values, frame * values, 1


def write_sequence(buffer: bytearray, grid: Grid, start: int) -> None:
    """Write the numbers `start`, `start` + 1, ... into the places of the grid."""
    for offset, stride, count, delta, step in grid.lines():
        end = offset + (count - 1) * stride + _COLUMNS
        for column in range(_COLUMNS):
            place = offset + _COLUMNS - 1 - column
            buffer[place:end:stride] = _column(column, start + delta, step, count)


def is_sequence(buffer: bytearray, grid: Grid, start: int, publisher: int) -> bool:
    """Return whether the numbers in the places of the grid are `start`, `start` + 1, ..., all of that publisher."""
    for offset, stride, count, delta, step in grid.lines():
        end = offset + (count - 1) * stride + _COLUMNS
        for column in range(_COLUMNS):
            place = offset + _COLUMNS - 1 - column
            if buffer[place:end:stride] != _column(column, start + delta, step, count):
                return False
        if buffer[offset - 1 : end - _COLUMNS : stride] != bytes((publisher,)) * count:
            return False
    return True


def _column(column: int, start: int, step: int, count: int) -> bytes:
    """Return one byte (0 is the lowest) of each of the numbers `start`, `start` + `step`, ..."""
    low = start & 0xFFFF
    if column < len(_PATTERNS):
        return _PATTERNS[column][low : low + (count - 1) * step + 1 : step]
    before = min(count, -((low - 0x10000) // step))  # so many until the lower half overflows
    value = bytes((start >> 8 * column & 0xFF,)) * before
    if before == count:
        return value
    return value + bytes((start + 0x10000 >> 8 * column & 0xFF,)) * (count - before)


BLOCK_BYTES = 64 * 1024
"""Size of one write at full speed, as of a client library."""


class Template:
    """Frames of one publisher, at most `block_frames` at a time."""

    __slots__ = ("_buffer", "_frames", "_layout", "_publisher", "_view", "block_frames")

    def __init__(self, layout: Layout, publisher: int) -> None:
        self._layout = layout
        self._publisher = publisher
        block = max(1, min(BLOCK_BYTES // layout.frame_bytes, MESSAGES_LIMIT // layout.batch))
        rounds = max(1, block // layout.topics)
        self._buffer = bytearray(b"".join(layout.frame(topic, publisher) for topic in range(layout.topics)) * rounds)
        self._view = memoryview(self._buffer)
        self._frames = rounds * layout.topics
        self.block_frames = min(block, self._frames)

    def block(self, first: int, frames: int, time_ns: int = 0) -> memoryview:
        """Return at most so many frames from number `first` on, ready to be sent; they are valid until the next call.

        `time_ns` is their intended time; 0 only for templates that never had another.
        """
        layout = self._layout
        index = first % self._frames
        count = min(frames, self.block_frames, self._frames - index)
        start = index * layout.frame_bytes
        stop = start + count * layout.frame_bytes
        place = start + layout.first_value + len(layout.value_head)
        if count * layout.batch == 1:
            STAMP.pack_into(self._buffer, place, self._publisher, first, time_ns)
            return self._view[start:stop]
        grid = Grid(place + SEQUENCE_OFFSET, count, layout.frame_bytes, layout.batch, layout.value_bytes)
        write_sequence(self._buffer, grid, first * layout.batch)
        if time_ns:
            time = time_ns.to_bytes(8, "big")
            for frame in range(place + TIME_OFFSET, stop, layout.frame_bytes):
                for value in range(frame, frame + layout.batch * layout.value_bytes, layout.value_bytes):
                    self._buffer[value : value + 8] = time
        return self._view[start:stop]


class Shape(NamedTuple):
    """A whole frame with messages."""

    size: int
    head: int
    """Bytes at its start that are the same in each frame of this shape."""
    first_value: int
    values: int
    topic: int
    """The number in its topic."""


class Control(NamedTuple):
    """A whole frame of another kind."""

    size: int
    word: str
    """Its kind: "greeting", "confirmed", "dropped", "error", "ping", "close" or "other"."""
    request: int = 0
    lost: int = 0
    code: int = 0
    text: str = ""
    answer: bytes = b""
    queue: QueueWish = QueueWish()


Framing = Callable[[Layout, bytearray, int, int], Shape | Control | None]
"""Cuts the frame at a position of a buffer that ends at `end`; returns None while the frame is not whole."""


def cut_tcp(layout: Layout, buffer: bytearray, position: int, end: int) -> Shape | Control | None:
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
        raise BenchError(f"the hub sent an unexpected message: {error}") from error
    return Control(size, "other")


_OPCODE_BITS, _FINAL = 0x0F, 0x80
_VALUES = b"\xa6values"
_ARRAY_SIZES = {0xDC: 2, 0xDD: 4}
"""By the first byte of a msgpack array of 16 values or more: how many bytes behind it hold the length."""


def cut_websocket(layout: Layout, buffer: bytearray, position: int, end: int) -> Shape | Control | None:
    """Cut WebSocket frames of a server with the messages of `hub.v1.msgpack`."""
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
        raise BenchError(f"the hub sent an unexpected message: {error}: {body[:80]!r}") from error
    word = str(said.get("type"))
    request, lost, code = (int(said.get(name, 0)) for name in ("request", "count", "code"))
    word = "greeting" if word == "welcome" else word
    return Control(size, word, request, lost, code, str(said.get("text", "")), queue=queue)


def websocket_frame(opcode: Opcode, body: bytes) -> bytes:
    return Frame(opcode, body).serialize(mask=True)


def _number(buffer: bytearray, start: int) -> int:
    digits = bytes(buffer[start : start + TOPIC_DIGITS])
    if not digits.isdigit():
        raise BenchError(f"a topic of this benchmark ends in a number, got {digits!r}")
    return int(digits)


def _strange(frame: bytearray) -> BenchError:
    return BenchError(f"a message that this benchmark did not send: {bytes(frame[:80])!r}")


_TIMEOUT_S = 30.0

_READ_BYTES = 64 * 1024
_HTTP_LIMIT_BYTES = 16 * 1024


class Line:
    """An open connection to the hub, in either protocol; `held` are bytes that were read and not yet used."""

    __slots__ = ("_is_websocket", "_requests", "cut", "granted", "held", "layout", "socket")

    def __init__(self, to: socket.socket, layout: Layout, *, websocket: bool) -> None:
        self.socket = to
        self.layout = layout
        self.cut: Framing = cut_websocket if websocket else cut_tcp
        self.held = bytearray()
        self.granted = QueueWish()
        self._is_websocket = websocket
        self._requests = 0

    def fileno(self) -> int:
        return self.socket.fileno()

    def close(self) -> None:
        self.socket.close()

    def say(self, message: dict[str, object]) -> None:
        self.socket.sendall(websocket_frame(Opcode.BINARY, msgspec.msgpack.encode(message)))

    def subscribe(self, prefixes: list[str]) -> None:
        self._requests += 1
        request = self._requests
        if self._is_websocket:
            self.say({"type": "subscribe", "prefixes": prefixes, "request": request})
        else:
            self.socket.sendall(encode_subscription(Kind.SUBSCRIBE, prefixes, request))
        self.wait(lambda control: control.word == "confirmed" and control.request == request)

    def wait(self, found: Callable[[Control], bool]) -> Control:
        """Read until `found`; raise `BenchError` if the hub refuses, closes or is silent, or messages come."""
        while True:
            for control in iter(self.control, None):
                if found(control):
                    return control
            self.held += self._receive()

    def listen(self) -> list[Control]:
        """Return the frames that have come, without waiting; raise as `wait` does."""
        try:
            self.held += self._receive(socket.MSG_DONTWAIT)
        except BlockingIOError:
            return []
        return list(iter(self.control, None))

    def control(self) -> Control | None:
        """Cut off and answer the first held frame; return None while it is not whole. Raises as `wait` does."""
        frame = self.cut(self.layout, self.held, 0, len(self.held))
        if frame is None:
            return None
        del self.held[: frame.size]
        if not isinstance(frame, Control):
            raise BenchError("messages arrived unexpectedly")
        if frame.word in {"error", "close"}:
            raise BenchError(f"the hub says: {frame.text} ({frame.code})")
        if frame.answer:
            self.socket.sendall(frame.answer)
        return frame

    def upgrade(self, endpoint: Endpoint) -> None:
        key = base64.b64encode(secrets.token_bytes(16)).decode()
        self.socket.sendall(
            f"GET {endpoint.path or '/v1/hub'} HTTP/1.1\r\nHost: {endpoint.host}:{endpoint.port}\r\n"
            "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Protocol: hub.v1.msgpack\r\n\r\n".encode()
        )
        while (end := self.held.find(b"\r\n\r\n")) < 0:
            if len(self.held) > _HTTP_LIMIT_BYTES:
                raise BenchError("the WebSocket's opening is answered without end")
            self.held += self._receive()
        head = self.held[:end].decode("latin-1").splitlines()[0]
        del self.held[: end + 4]
        if not head.startswith("HTTP/1.1 101 "):
            raise BenchError(f"the hub rejects the WebSocket: {head}")

    def _receive(self, flags: int = 0) -> bytes:
        try:
            data = self.socket.recv(_READ_BYTES, flags)
        except TimeoutError:
            raise BenchError(f"the hub said nothing for {_TIMEOUT_S:g} s") from None
        except BlockingIOError:
            raise
        except OSError as error:
            raise BenchError(f"the connection to the hub broke: {error}") from error
        if not data:
            raise BenchError("the hub closed the connection without a reason")
        return data


def dial(
    url: str,
    layout: Layout,
    name: str,
    *,
    wish: QueueWish | None = None,
    through: socket.socket | None = None,
) -> Line:
    """Connect to a tcp, unix or ws URL, `through` a socket where one is given; raise `BenchError` if that fails."""
    endpoint = Endpoint.parse(url)
    line = Line(through or _connect(endpoint, url), layout, websocket=endpoint.scheme is Scheme.WS)
    try:
        if endpoint.scheme is Scheme.WS:
            line.upgrade(endpoint)
            line.wait(_is_greeting)
            line.say({"type": "hello", "name": name, "queue": msgspec.to_builtins(wish or QueueWish())})
        else:
            hello = Hello(PROTOCOL, "client", b"", name, "hub bench", queue=wish)
            line.socket.sendall(hello.encode())
        line.granted = line.wait(_is_greeting).queue
    except BaseException:
        line.close()
        raise
    return line


def _connect(endpoint: Endpoint, url: str) -> socket.socket:
    try:
        if endpoint.scheme is Scheme.UNIX:
            made = socket.socket(socket.AF_UNIX)
            made.settimeout(_TIMEOUT_S)
            made.connect(endpoint.path)
        else:
            made = socket.create_connection((endpoint.host, endpoint.port), _TIMEOUT_S)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError as error:
        raise BenchError(f"no connection to {url}: {error.strerror or error}; is a hub running there?") from error
    return made


def _is_greeting(control: Control) -> bool:
    return control.word == "greeting"


@dataclass(slots=True)
class Counted:
    """Counters of a subscriber since the last report.

    * lost: numbers that were passed over, and those still to come when the stream is over;
    * out of order: a number below the one expected. It was counted as lost where it should have stood, and stays so;
    * misrouted: the topic is not the one of the number (which is checked once a run of frames);
    * told: losses that the hub reported.
    """

    received: int = 0
    reads: int = 0
    lost: int = 0
    told: int = 0
    out_of_order: int = 0
    misrouted: int = 0
    closed: str = ""


class Tally:
    """Accounts for every message of one subscriber. Frames of equal shape are one run while their numbers count up."""

    __slots__ = ("_cut", "_layout", "_on_control", "counted", "latency", "next")

    def __init__(self, layout: Layout, publishers: int, cut: Framing, on_control: Callable[[Control], None]) -> None:
        self._layout = layout
        self._cut = cut
        self._on_control = on_control
        self.next = [0] * publishers
        self.counted = Counted()
        self.latency: Histogram | None = None

    def feed(self, buffer: bytearray, end: int, now_ns: int) -> int:
        """Account for all whole frames in `buffer` up to `end`; return where the first incomplete one begins."""
        position = 0
        while (frame := self._cut(self._layout, buffer, position, end)) is not None:
            if isinstance(frame, Shape):
                position += self._run(buffer, position, end, frame, now_ns)
                continue
            position += frame.size
            if frame.word == "dropped":
                self.counted.told += frame.lost
            else:
                self._on_control(frame)
        return position

    def take(self, sent: list[int]) -> Counted:
        """Return and reset the counters. Messages that were `sent` and have not arrived by now are lost."""
        for publisher, total in enumerate(sent):
            self.counted.lost += max(0, total - self.next[publisher])
            self.next[publisher] = max(total, self.next[publisher])
        counted, self.counted = self.counted, Counted(closed=self.counted.closed)
        return counted

    def _run(self, buffer: bytearray, position: int, end: int, shape: Shape, now_ns: int) -> int:
        """Account for frames that follow on each other; return their size."""
        layout = self._layout
        place = position + shape.first_value + len(layout.value_head)
        publisher, start, _ = STAMP.unpack_from(buffer, place)
        if publisher >= len(self.next):
            raise BenchError(f"a message of publisher {publisher}, there are {len(self.next)}")
        frames = self._frames_in_sequence(buffer, position, end, shape)
        if frames:
            self._count(publisher, start, frames * shape.values)
        else:  # the values of the first frame do not count up
            frames = 1
            for value in range(shape.values):
                each, sequence, _ = STAMP.unpack_from(buffer, place + value * layout.value_bytes)
                self._count(each, sequence, 1)
        if layout.topic_of(start) != shape.topic:
            self.counted.misrouted += 1
        if self.latency is not None:
            for frame in range(place, place + frames * shape.size, shape.size):
                for value in range(frame, frame + shape.values * layout.value_bytes, layout.value_bytes):
                    intended_ns = STAMP.unpack_from(buffer, value)[2]
                    if intended_ns:
                        self.latency.record(now_ns - intended_ns)
        return frames * shape.size

    def _frames_in_sequence(self, buffer: bytearray, position: int, end: int, shape: Shape) -> int:
        """Return how many frames from here have this shape and count up; 0 if not even one frame's values do.

        These are not always the most there are: a run that is not whole is halved until it is.
        """
        layout = self._layout
        place = position + shape.first_value + len(layout.value_head)
        publisher, start, _ = STAMP.unpack_from(buffer, place)
        head = buffer[position : position + shape.head]
        frames = max(1, min((end - position) // shape.size, MESSAGES_LIMIT // shape.values))
        while frames * shape.values > 1:
            last = position + (frames - 1) * shape.size
            grid = Grid(place + SEQUENCE_OFFSET, frames, shape.size, shape.values, layout.value_bytes)
            if buffer[last : last + shape.head] == head and is_sequence(buffer, grid, start, publisher):
                return frames
            frames //= 2
        return frames

    def _count(self, publisher: int, start: int, messages: int) -> None:
        expected = self.next[publisher]
        self.counted.received += messages
        if start < expected:
            self.counted.out_of_order += min(messages, expected - start)
        else:
            self.counted.lost += start - expected
        self.next[publisher] = max(expected, start + messages)
