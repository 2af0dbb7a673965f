"""`WebSocketConversation`: a client's side of `hub.v1.msgpack` (docs/websocket.md), for `ws://`. No I/O.

A MESSAGES frame becomes one `publish`, and a `messages` one frame, without decoding values: a BATCH body is a count and
values, which behind one byte is a msgpack array. A frame with CONFIRM has a request of its own; the hub's answers may
come in any order, and are reported in that of the frames, as over TCP. `ClientProtocol` of the websockets library does
the handshake, the masking and the framing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from http import HTTPStatus
from struct import Struct
from typing import Any, Literal

import msgspec
from websockets.client import ClientProtocol
from websockets.exceptions import InvalidStatus
from websockets.frames import Frame as WebSocketFrame
from websockets.frames import Opcode
from websockets.http11 import Response
from websockets.protocol import State
from websockets.typing import Subprotocol
from websockets.uri import parse_uri

from hub.errors import CloseCode, InvalidNameError, InvalidTopicError, ProtocolError, UsageError
from hub.labels.envelope import Envelope, key_of
from hub.labels.rules import Rule
from hub.messages.frame import (
    BATCH_COUNT,
    BATCH_LIMIT_MESSAGES,
    FLAG_BATCH,
    FLAG_CONFIRM,
    FLAG_TAGGED,
    HEADER,
    KIND_MESSAGES,
    Frame,
    encode_frame,
    iterate_frames,
)
from hub.messages.request_frame import FLAG_NAMED, TRANSACTIONS, Reply, Request, Status
from hub.messages.stretch import Run
from hub.topics import TOPIC_LIMIT_BYTES
from peers.client.conversation import Event, Introduction, Refusal, Verb
from peers.client.routes import LocalRoutes, Route
from peers.transport.fragments import Fragments, end_of
from peers.wire.control import NameClaim, NameRelease, Notice, Renewal, RuleChange, cut_text, reason_of
from peers.wire.events import Closing, ServiceChange, SubscriptionChange
from peers.wire.hello import FRAME_LIMIT_BYTES, ID_BYTES, PROTOCOL, Hello, QueueWish
from peers.wire.records import Fetch, Records

ENVELOPE_BYTES = 2048
"""More than a topic (1024) and the names of the fields: so much smaller than a WebSocket message is its body."""

_ARRAY_16 = Struct(">H")


class HubMessage(msgspec.Struct):
    """Any message of a hub; fields that a type does not have stay empty."""

    type: str
    topic: str = ""
    labels: tuple[str, ...] = ()
    sender: str = ""
    to: str = ""
    service: str = ""
    value: msgspec.Raw = msgspec.Raw(b"")
    values: msgspec.Raw = msgspec.Raw(b"")
    request: int = 0
    count: int = 0
    status: int = 0
    timeout_ms: int = 0
    code: int = 0
    text: str = ""
    about: str = ""
    hub: str = ""
    name: str = ""
    standing: Literal["", "owned", "queued", "lost"] = ""
    software: str = ""
    queue: QueueWish | None = None
    frame: int = FRAME_LIMIT_BYTES
    journal: str = ""
    offset: int | None = None
    until: float | None = None
    start: int = 0
    next: int = 0
    first: int = 0
    head: int = 0
    epoch: int = 0
    blocks: list[bytes] = []


_decode = msgspec.msgpack.Decoder(HubMessage).decode
_encode = msgspec.msgpack.Encoder().encode


_TYPE, _REQUEST, _TOPIC, _VALUE = _encode("type"), _encode("request"), _encode("topic"), _encode("value")
_VALUES_ARRAY_32 = _encode("values") + b"\xdd"
_PUBLISH = b"\x83" + _TYPE + _encode("publish") + _TOPIC
_PUBLISH_CONFIRM = b"\x85" + _TYPE + _encode("publish") + _encode("confirm") + _encode(True) + _REQUEST
_ASK = b"\x85" + _TYPE + _encode("request") + _REQUEST
_ANSWER = b"\x83" + _TYPE + _encode("reply") + _REQUEST


def of_publication(frame: Frame, request: int) -> bytes:
    """Return `publish` for a MESSAGES frame; with a request, one that is to be confirmed."""
    values = _packed_values(frame.flags, frame.body)
    if frame.flags & FLAG_TAGGED:
        return b"".join((_publication_head(Envelope.decode(frame.key), request), *values))
    topic = _encode(frame.key.decode())
    if not request:
        return b"".join((_PUBLISH, topic, *values))
    return b"".join((_PUBLISH_CONFIRM, _encode(request), _TOPIC, topic, *values))


def _publication_head(envelope: Envelope, request: int) -> bytes:
    topic, labels, sender, destination = envelope
    fields: dict[str, Any] = {"type": "publish", "topic": topic}
    fields |= {"labels": labels, "sender": sender, "to": destination}
    if request:
        fields |= {"confirm": True, "request": request}
    packed = _encode(fields)
    return bytes((packed[0] + 1,)) + packed[1:]  # one field more, which follows


def of_verb(verb: Verb) -> bytes:
    """Return the message of a command.

    Raises:
        UsageError: This protocol has no word for it.
    """
    message: dict[str, Any]
    match verb:
        case SubscriptionChange():
            message = {"type": "subscribe" if verb.subscribe else "unsubscribe", "prefixes": verb.prefixes}
        case RuleChange():
            rules = [Rule(*rule)._asdict() for rule in verb.rules]
            message = {"type": "rule" if verb.subscribe else "unrule", "rules": rules}
        case ServiceChange():
            message = {"type": "serve" if verb.serve else "unserve", "prefixes": verb.prefixes}
        case NameClaim():
            name, labels, queue = verb.wish
            message = {"type": "claim", "name": name, "labels": list(labels), "queue": queue}
        case NameRelease():
            message = {"type": "release", "name": verb.name}
        case Renewal():
            message = {"type": "token", "token": verb.token}
        case Fetch():
            message = _of_fetch(verb)
        case _:
            raise UsageError("batches are committed over tcp:// or unix:// only")
    return _encode(message | {"request": verb.request})


def _of_fetch(fetch: Fetch) -> dict[str, Any]:
    message: dict[str, Any] = {"type": "fetch", "prefixes": fetch.prefixes}
    message |= {"bytes": fetch.bytes, "wait_ms": fetch.wait_ms}
    message |= {"start": fetch.start} if fetch.time is None else {"time_ms": fetch.time / 1000}
    if fetch.end is not None:
        message["end"] = fetch.end
    if fetch.hub:
        message["hub"] = fetch.hub
    if fetch.journal is not None:
        message["journal"] = fetch.journal.hex()
    if fetch.columns is not None:
        message["columns"] = fetch.columns
    if fetch.epoch:
        message["epoch"] = fetch.epoch
    return message


def of_request(request: Request) -> bytes:
    field = _encode("service") if request.flags & FLAG_NAMED else _TOPIC
    head = (_ASK, _encode(request.first), _encode("timeout_ms"), _encode(request.timeout_ms))
    return b"".join((*head, field, _encode(request.target.decode()), *_packed_values(request.flags, request.values)))


def of_reply(reply: Reply) -> bytes:
    if reply.status:
        message = {"type": "reply", "request": reply.first, "status": int(reply.status), "count": reply.requests}
        return _encode(message | {"text": reason_of(reply)})
    return b"".join((_ANSWER, _encode(reply.first), *_packed_values(reply.flags, reply.values)))


def of_hello(introduction: Introduction) -> bytes:
    hello: dict[str, Any] = {"type": "hello", "name": introduction.name}
    if introduction.queue is not None:
        hello["queue"] = introduction.queue
    if introduction.token:
        hello["token"] = introduction.token
    if introduction.narrow:
        hello["narrow"] = True
    return _encode(hello)


def to_message(raw: bytes) -> HubMessage:
    try:
        return _decode(raw)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise ProtocolError(CloseCode.BAD_DATA, f"a message of the hub: {error}") from error


def to_hello(message: HubMessage) -> Hello:
    try:
        hub_id, journal_id = bytes.fromhex(message.hub), bytes.fromhex(message.journal)
    except ValueError:
        hub_id = journal_id = b""
    if len(hub_id) != ID_BYTES or message.frame <= 2 * ENVELOPE_BYTES:
        raise ProtocolError(CloseCode.BAD_DATA, "welcome: the hub's id or its frame limit makes no sense")
    return Hello(
        protocol=PROTOCOL,
        role="hub",
        id=hub_id,
        name=message.name,
        software=message.software,
        queue=message.queue,
        frame=message.frame - ENVELOPE_BYTES,
        journal=journal_id,
        until=message.until,
    )


def to_frame(message: HubMessage) -> tuple[bytes, bytes, int]:
    """Return routing key, MESSAGES frame and number of values."""
    count, values = _batch(bytes(message.values))
    key = message.topic.encode()
    if not count or len(key) > TOPIC_LIMIT_BYTES:
        raise ProtocolError(CloseCode.BAD_DATA, "messages: no values, or a topic that is too long")
    flags = FLAG_BATCH
    if message.labels or message.sender or message.to:
        key, flags = _key(message), FLAG_BATCH | FLAG_TAGGED
    frame = encode_frame(KIND_MESSAGES, values, key=key, flags=flags)
    return frame[4 : HEADER.size + len(key)], frame, count


def _key(message: HubMessage) -> bytes:
    try:
        return key_of(message.topic, message.labels, message.sender, message.to)[0]
    except (InvalidTopicError, InvalidNameError) as error:
        raise ProtocolError(CloseCode.BAD_DATA, f"messages: {error}") from error


def _batch(array: bytes) -> tuple[int, bytes]:
    """Return how many items a msgpack array has, and the body of a BATCH; 0 if it is none."""
    first = array[0] if array else 0
    if first & 0xF0 == 0x90:
        count, start = first & 0x0F, 1
    elif first == 0xDC:
        count, start = _ARRAY_16.unpack_from(array, 1)[0], 3
    elif first == 0xDD:
        count, start = BATCH_COUNT.unpack_from(array, 1)[0], 5
    else:
        count = start = 0
    return count, BATCH_COUNT.pack(count) + array[start:]


def _packed_values(flags: int, values: bytes) -> tuple[bytes, bytes]:
    return (_VALUES_ARRAY_32 if flags & FLAG_BATCH else _VALUE), values


def _values(message: HubMessage) -> tuple[int, bytes]:
    if not 0 <= message.request < TRANSACTIONS:
        raise ProtocolError(CloseCode.BAD_DATA, f"{message.type}: request {message.request}")
    value = bytes(message.value)
    if value:
        return 0, value
    count, values = _batch(bytes(message.values))
    if not count:
        raise ProtocolError(CloseCode.BAD_DATA, f"{message.type}: no values")
    return FLAG_BATCH, values


def to_records(message: HubMessage) -> Records:
    try:
        journal = bytes.fromhex(message.journal)
    except ValueError as error:
        raise ProtocolError(CloseCode.BAD_DATA, f"records: journal {message.journal[:40]!r}") from error
    first = message.first
    head, blocks = message.head, message.blocks
    return Records(message.request, message.start, message.next, first, head, blocks, journal, message.epoch)


def to_request(message: HubMessage) -> Request:
    flags, values = _values(message)
    target = message.service or message.topic
    named = FLAG_NAMED if message.service else 0
    return Request(target.encode(), message.request, message.timeout_ms, values, flags | named)


def _failed(message: HubMessage) -> Reply:
    reason = _encode(message.text)
    if message.count == 1:
        return Reply(message.request, message.status, reason)
    return Reply(message.request, message.status, BATCH_COUNT.pack(message.count) + reason, FLAG_BATCH)


def to_reply(message: HubMessage) -> Reply:
    if message.status:
        if not 0 < message.count <= BATCH_LIMIT_MESSAGES:
            raise ProtocolError(CloseCode.BAD_DATA, f"reply: to {message.count} requests")
        return _failed(message)
    flags, values = _values(message)
    return Reply(message.request, Status.OK, values, flags)


PATH = "/v1/hub"  # The path at which a hub speaks this protocol
SUBPROTOCOL = Subprotocol("hub.v1.msgpack")

_FRAME_LIMIT_BYTES = FRAME_LIMIT_BYTES + 64 * 1024
"""Room for the largest message that a hub takes by default, and for the other fields of `records`."""

_FIRST_CONFIRMATION = 1 << 32  # Smaller numbers are requests of the client's
_SERVER_ERRORS = 500


class WebSocketConversation:
    """The state of the protocol over one WebSocket."""

    def __init__(
        self, url: str, introduction: Introduction, routes: LocalRoutes, frame_limit_bytes: int = _FRAME_LIMIT_BYTES
    ) -> None:
        self.half_close = False
        self._introduction = introduction
        self._routes = routes
        self._protocol = ClientProtocol(
            parse_uri(url), subprotocols=[SUBPROTOCOL], max_size=frame_limit_bytes + ENVELOPE_BYTES
        )
        self._confirmations = _Confirmations()
        self._fragments = Fragments()
        self._welcomed = False
        self._reported = False
        self._left = False

    @property
    def closed(self) -> bool:
        return self._reported or self._protocol.state not in {State.CONNECTING, State.OPEN}

    def open(self) -> None:
        self._protocol.send_request(self._protocol.connect())

    def receive(self, data: bytes) -> Iterator[Event]:
        """Yield the hub's events; messages with the same route are joined."""
        if self._reported:
            return
        protocol = self._protocol
        protocol.receive_data(data)
        route: Route | None = None
        frames: list[bytes] = []
        messages = 0
        try:
            for message in self._messages():
                if message.type == "messages":
                    key, frame, count = to_frame(message)
                    found = self._routes.find(key)
                    if found is not route and route is not None:
                        yield Run(route, b"".join(frames), messages)
                        frames, messages = [], 0
                    route = found
                    frames.append(frame)
                    messages += count
                    continue
                if route is not None:
                    yield Run(route, b"".join(frames), messages)
                    route, frames, messages = None, [], 0
                yield from self._events(message)
        except ProtocolError as error:
            self._fail(error.code, error.text)
        if route is not None:
            yield Run(route, b"".join(frames), messages)
        closing = self._closing()
        if closing is not None:
            self._reported = True
            yield closing

    def publish(self, frames: list[bytes]) -> None:
        for frames_of_one_topic in frames:
            for frame in iterate_frames(frames_of_one_topic):
                if self._protocol.state is State.OPEN:
                    self._protocol.send_binary(self._publication(frame))

    def send(self, item: Request | Reply) -> None:
        self._send_packed(of_request(item) if isinstance(item, Request) else of_reply(item))

    def _publication(self, frame: Frame) -> bytes:
        return of_publication(frame, self._confirmations.expect(frame.messages) if frame.flags & FLAG_CONFIRM else 0)

    def say(self, verb: Verb) -> None:
        self._send_packed(of_verb(verb))

    def ping(self) -> None:
        if self._protocol.state is State.OPEN:
            self._protocol.send_ping(b"")

    def pong(self) -> None:
        if self._protocol.state is State.OPEN:
            self._protocol.send_pong(b"")

    def close(self, code: int, text: str) -> None:
        """Send a close frame. Later messages of the hub are passed over, up to its own close frame."""
        self._left = True
        self._fail(code, text)

    def _fail(self, code: int, text: str) -> None:
        if self._protocol.state is State.OPEN:
            self._protocol.send_close(code, cut_text(text).decode())

    def take_outgoing(self) -> bytes:
        return b"".join(self._protocol.data_to_send())

    def _messages(self) -> Iterator[HubMessage]:
        for event in self._protocol.events_received():
            if isinstance(event, Response):
                self._check_subprotocol()
            elif isinstance(event, WebSocketFrame) and event.opcode in {Opcode.TEXT, Opcode.BINARY, Opcode.CONT}:
                if event.opcode is Opcode.TEXT:
                    raise ProtocolError(CloseCode.WRONG_KIND, f"a text message, {SUBPROTOCOL} is binary")
                whole = self._fragments.take(event)
                if whole is not None:
                    yield to_message(whole.payload)

    def _check_subprotocol(self) -> None:
        if self._protocol.handshake_exc is None and self._protocol.subprotocol != SUBPROTOCOL:
            raise ProtocolError(CloseCode.PROTOCOL_ERROR, f"the other side does not speak {SUBPROTOCOL}: is it a hub?")

    def _events(self, message: HubMessage) -> Iterator[Event]:
        match message.type:
            case "welcome":
                hello = self._welcome(message)
                if hello is not None:
                    yield hello
            case "request":
                yield to_request(message)
            case "reply":
                yield to_reply(message)
            case "error" if message.about == "request":
                yield Refusal(message.request, message.text)
            case "records":
                yield to_records(message)
            case _:
                yield from self._notices(message)

    def _notices(self, message: HubMessage) -> Iterator[Notice]:
        request = message.request
        match message.type:
            case "confirmed":
                yield Notice(
                    "confirmed", request=request, offset=message.offset, text=message.text, until=message.until
                )
            case "name" if message.standing:
                yield Notice(message.standing, name=message.name, text=message.text)
            case "dropped":
                yield Notice("dropped", count=message.count)
            case "recorded":
                recorded = Notice("recorded", count=message.count, offset=message.offset)
                yield from self._confirmations.answer(request, recorded)
            case "error" if request >= _FIRST_CONFIRMATION:
                unrecorded = Notice("unrecorded", code=message.code, text=message.text)
                yield from self._confirmations.answer(request, unrecorded)
            case "error":
                yield Notice("error", request=request, code=message.code, text=message.text, offset=message.offset)
            case _:
                pass  # of a later version

    def _welcome(self, message: HubMessage) -> Hello | None:
        """Answer the first `welcome` by `hello`; return the rights that the second one grants."""
        if not self._welcomed:
            self._welcomed = True
            self._send_packed(of_hello(self._introduction))
            return None
        return to_hello(message)

    def _send_packed(self, message: bytes) -> None:
        if self._protocol.state is State.OPEN:
            self._protocol.send_binary(message)

    def _closing(self) -> Closing | None:
        protocol = self._protocol
        if protocol.handshake_exc is not None:
            return _refusal(protocol.handshake_exc)
        end = end_of(protocol)
        return None if end is None or (self._left and not end.by_far_side) else Closing(*end)


class _Confirmations:
    """Publications that the hub has not confirmed, oldest first, and answers that have come too early."""

    def __init__(self) -> None:
        # Requests that were sent, each with how many messages it confirms, the oldest first.
        self._awaited: deque[tuple[int, int]] = deque()
        # Answers that came before those of older requests; each goes when it is its turn.
        self._answers: dict[int, Notice] = {}
        self._last = _FIRST_CONFIRMATION - 1

    def expect(self, messages: int) -> int:
        self._last += 1
        self._awaited.append((self._last, messages))
        return self._last

    def answer(self, request: int, notice: Notice) -> Iterator[Notice]:
        """Take an answer; yield those whose turn it is."""
        if self._awaited and self._awaited[0][0] <= request <= self._last:
            self._answers[request] = notice
        while self._awaited and (ready := self._answers.pop(self._awaited[0][0], None)) is not None:
            _, messages = self._awaited.popleft()
            yield msgspec.structs.replace(ready, count=messages)


def _refusal(error: Exception) -> Closing:
    if not isinstance(error, InvalidStatus):
        text = f"the other side does not speak WebSocket ({error}): is it a hub's WebSocket port?"
        return Closing(CloseCode.PROTOCOL_ERROR, text, by_far_side=True)
    status = error.response.status_code
    body = bytes(error.response.body or b"").decode("utf-8", "replace").strip().partition("\n")[0][:200]
    if status == HTTPStatus.UNAUTHORIZED:
        code = CloseCode.NOT_RECOGNISED
    else:
        code = CloseCode.TRY_AGAIN_LATER if status >= _SERVER_ERRORS else CloseCode.NOT_ALLOWED
    return Closing(code, f"refused with HTTP {status}{': ' if body else ''}{body}", by_far_side=True)
