"""One connection of a load generator (`Line`, a blocking socket), how its stream is cut, and what it brought (`Tally`).

There is no event loop and no client library: what is measured is the hub, and its clients should cost as little as they
can. A WebSocket frame is searched for its `values` instead of being decoded, which would cost more than the hub does.
"""

from __future__ import annotations

import base64
import secrets
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
from websockets.frames import Frame, Opcode

from hub.errors import ProtocolError
from hub.messages.frame import BATCH_COUNT, FLAG_BATCH, HEADER, HEADER_BYTES, KIND_MESSAGES, encode_frame
from peers.bench.measurement import Histogram
from peers.bench.messages import MESSAGES_LIMIT, SEQUENCE_OFFSET, STAMP, TOPIC_DIGITS, Grid, Layout, is_sequence
from peers.bench.worker import BenchError
from peers.transport.endpoints import Endpoint, Scheme
from peers.wire.control import decode_close, decode_notice, encode_subscription
from peers.wire.hello import PROTOCOL, Hello, QueueWish
from peers.wire.kinds import Kind


class Shape(NamedTuple):
    """A whole frame with messages."""

    size: int
    head: int
    """Bytes at its start that are the same in each frame of this shape."""
    first_value: int
    """Offset of the first value."""
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
    """What the hub expects to be sent back."""
    queue: QueueWish = QueueWish()
    """In "greeting": the queue that was granted."""


Framing = Callable[[Layout, bytearray, int, int], Shape | Control | None]
"""Cuts the frame at a position of a buffer that ends at `end`; returns None while the frame is not whole."""


def cut_tcp(layout: Layout, buffer: bytearray, position: int, end: int) -> Shape | Control | None:
    """Cut the hub's own protocol."""
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


_TIMEOUT_S = 30.0

_READ_BYTES = 64 * 1024
_HTTP_LIMIT_BYTES = 16 * 1024


class Line:
    """An open connection to the hub, in either protocol.

    Attributes:
        held: Bytes that were read and not yet used.
        granted: The queue that the hub has granted.
    """

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
        """Return the descriptor of the socket."""
        return self.socket.fileno()

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()

    def say(self, message: dict[str, object]) -> None:
        """Send a WebSocket message."""
        self.socket.sendall(websocket_frame(Opcode.BINARY, msgspec.msgpack.encode(message)))

    def subscribe(self, prefixes: list[str]) -> None:
        """Subscribe, and wait until the hub has confirmed it."""
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
            raise BenchError("messages came where there should be none")
        if frame.word in {"error", "close"}:
            raise BenchError(f"the hub says: {frame.text} ({frame.code})")
        if frame.answer:
            self.socket.sendall(frame.answer)
        return frame

    def upgrade(self, endpoint: Endpoint) -> None:
        """Do the HTTP part of a WebSocket's opening."""
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
            raise BenchError(f"the hub refuses the WebSocket: {head}")

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
            raise BenchError("the hub closed the connection without a word")
        return data


def dial(
    url: str,
    layout: Layout,
    name: str,
    *,
    wish: QueueWish | None = None,
    through: socket.socket | None = None,
) -> Line:
    """Connect and greet; raise `BenchError` if there is no hub, or it refuses.

    Args:
        url: tcp, unix or ws.
        layout: Of the messages that will come.
        name: Of the client.
        wish: The queue that the hub is asked for.
        through: A socket that is connected already.
    """
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
    """Why the hub closed the connection; empty while it is open."""


class Tally:
    """Accounts for every message of one subscriber. Frames of equal shape are one run while their numbers count up.

    Attributes:
        next: For each publisher, the sequence number that comes next.
        counted: Counters since the last `take`.
        latency: Where latencies are recorded, or None.
    """

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
        """Return and reset the counters. What the publishers have `sent` and has not come by now is lost."""
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
