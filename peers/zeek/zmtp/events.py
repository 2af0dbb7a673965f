"""The messages in which Zeek's ZeroMQ backend sends an event, read in runs and written.

```
topic │ sender's node id │ serializer (JSON, BINARY) │ payload        four parts of one ZMTP message
```

All but the payload is a head, which is looked up as a whole. Payloads in Broker's binary format are carried as they
are, those in JSON are converted. Events with known heads that stand together become runs (`_zmtp.pyx`).
Cost of an event of 100 bytes: 0.03 µs while the head repeats, 0.2 µs when heads alternate, 15 µs for a head that is
new, or where `_zmtp.pyx` was not built, 20 µs for an event in JSON.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any, Final, Generic, NamedTuple, TypeVar

from hub.errors import CloseCode, HubError, RejectedError
from hub.labels.envelope import Envelope, tagged
from hub.messages.batch import Batch
from hub.messages.frame import BROKER_FLAGS, FLAG_TAGGED, HEADER, HEADER_BYTES, KIND_MESSAGES, Encoding, Frame, topic_of
from hub.messages.stretch import Run, Stretch
from hub.names.claim import LABEL_LIMIT_BYTES
from peers.values import InvalidDataError, InvalidInputError, check, decode_message, encode_json, from_msgpack
from peers.values.binary import Tag, read_length
from peers.wire.scanner import NEED_DATA, RouteTable
from peers.zeek.broker.envelopes import UNREAD_BYTES, bodies_of
from peers.zeek.zmtp.frames import (
    LONG,
    LONG_HEADER,
    MORE,
    SHORT_LIMIT,
    Command,
    Message,
    encode_frame,
)
from peers.zeek.zmtp.session import NULL, Mechanism, Session, SocketType


def from_json(payload: bytes) -> bytes:
    """Return a payload in Broker's binary format; raises `InvalidInputError`."""
    return decode_message(payload)[1]


def to_json(payload: bytes) -> bytes:
    """Return a payload as JSON; raises `InvalidDataError` if it is none, or too long to be converted."""
    return b"{" + encode_json(payload) + b"}"


BINARY: Final = b"broker-bin-v1"
JSON: Final = b"broker-json-v1"
SERIALIZERS: Final = (BINARY, JSON)  # Every node of a cluster uses the same one
EVENT_BEGINNING: Final = bytes.fromhex("0e03 020000000000000001 020000000000000001 0e")
"""Beginning of every event: a vector of format 1, kind 1, and the vector of the event."""

NODE_LABEL: Final = "zeek-node="  # Beginning of the label with the id of the node that has sent a message
_NODE_LABELS: Final = (NODE_LABEL, "zeek-node-2=", "zeek-node-3=")  # Ids of ZeroMQ have up to 255 bytes, a label 128
HUB_ID: Final = b"topichub_"  # the node ids of hubs begin so
_SERIALIZER: Final = "zeek-serializer="
_FLAGS: Final = Encoding.BROKER << 1


class EventHead(NamedTuple):
    """The first three parts of an event."""

    topic: bytes
    sender: bytes  # Id of the node that has published it
    serializer: bytes = BINARY

    def encode(self) -> bytes:
        return b"".join([encode_frame(part, MORE) for part in self])

    @property
    def routing_key(self) -> bytes:
        """Key in the route cache; raises `RejectedError` for a topic, sender or serializer that is none."""
        if self.serializer not in SERIALIZERS:
            shown = self.serializer[:40].decode("utf-8", "backslashreplace")
            raise RejectedError(CloseCode.BAD_DATA, f"the serializer is {shown!r}, not {BINARY.decode()} or JSON's")
        try:
            labels = node_labels(self.sender)
            if self.serializer != BINARY:
                labels.append(_SERIALIZER + self.serializer.decode())
            key = tagged(self.topic.decode(), labels).encode()
        except UnicodeDecodeError as error:
            raise RejectedError(CloseCode.BAD_DATA, f"a topic or sender is not UTF-8: {error.reason}") from error
        except HubError as error:
            raise RejectedError(CloseCode.BAD_DATA, str(error)) from error
        return HEADER.pack(0, KIND_MESSAGES, _FLAGS | FLAG_TAGGED, len(key))[4:] + key

    @classmethod
    def of(cls, routing_key: bytes, own: bytes) -> EventHead:
        """Return the head of a message of the hub; `own` is the sender of messages of the hub."""
        flags, key = routing_key[1], routing_key[HEADER_BYTES - 4 :]
        if not flags & FLAG_TAGGED:
            return cls(key, own)
        parts: dict[str, str] = {}
        serializer = BINARY
        for label in Envelope.decode(key).labels:
            name, equals, rest = label.partition("=")
            if name + equals in _NODE_LABELS:
                parts[name + equals] = rest
            elif label.startswith(_SERIALIZER) and label[len(_SERIALIZER) :].encode() in SERIALIZERS:
                serializer = label[len(_SERIALIZER) :].encode()
        sender = "".join([parts.get(name, "") for name in _NODE_LABELS]).encode() if NODE_LABEL in parts else own
        return cls(topic_of(flags, key), sender, serializer)


def node_labels(sender: bytes) -> list[str]:
    """Return the labels with the id of a node: one, more for a long id; raises `UnicodeDecodeError`."""
    left = sender.decode()
    labels = []
    for beginning in _NODE_LABELS[:-1]:
        room = LABEL_LIMIT_BYTES - len(beginning)
        part = left if len(left) * 4 <= room else left.encode()[:room].decode(errors="ignore")
        labels.append(beginning + part)
        left = left[len(part) :]
        if not left:
            return labels
    return [*labels, _NODE_LABELS[-1] + left]


def is_of_node(routing_key: bytes) -> bool:
    if not routing_key[1] & FLAG_TAGGED:
        return False
    return any(label.startswith(NODE_LABEL) for label in Envelope.decode(routing_key[HEADER_BYTES - 4 :]).labels)


_SHOWN_BYTES = 20
_LEAST_PARTS = 2


def check_event(payload: bytes) -> None:
    """Accept an event; raises `RejectedError` for another value, `InvalidDataError` for none."""
    if payload.startswith(EVENT_BEGINNING):
        check(payload)
        parts, position = read_length(payload, len(EVENT_BEGINNING))
        if parts >= _LEAST_PARTS and payload[position] == Tag.STRING:
            size, position = read_length(payload, position + 1)
            if payload[position + size] == Tag.VECTOR:
                return
    raise RejectedError(CloseCode.BAD_DATA, f"the payload is not an event: {payload[:_SHOWN_BYTES].hex()}")


def is_event(payload: bytes) -> bool:
    try:
        check_event(payload)
    except (RejectedError, InvalidDataError):
        return False
    return True


R = TypeVar("R")
HEAD_PARTS: Final = 3


def is_event_at_in_python(data: bytes, start: int, end: int, is_event: Callable[[bytes], bool]) -> bool:
    """Return whether an event stands in some bytes from `start` to `end`; `_zmtp.pyx` has a compiled twin."""
    return is_event(data[start:end])


try:
    from peers.zeek.zmtp._zmtp import find_events, is_event_at
except ImportError:  # not built: no compiler was there; so each event is taken by itself
    find_events, is_event_at = None, is_event_at_in_python  # type: ignore[assignment]


HEADS_LIMIT: Final = 4096  # of one node; then all are forgotten
_PARTS: Final = 4
_LENGTH = Struct(">I")
Keep = Callable[[Batch, bytes], object]


class NoEvent(NamedTuple):
    """A message was rejected; the session goes on."""

    reason: str


class Addressed(NamedTuple, Generic[R]):
    """An event that was published to the reader itself."""

    run: Run[R]
    payload: bytes
    topic: bytes


class EventSession(Session, Generic[R]):
    """One side of a connection to a node that publishes.

    Args:
        limit_bytes: Longest message of a far side that is ready, all its parts together.
        routes: Where the routes of messages are looked up.
        keep: Called with a run of events and the bytes that it was read from, which other nodes are sent.
        own: This side's node id: its own events, which a broker sends back, are not taken; None for none.
        hub: Id of this hub; see `Session`.
        mechanism: See `Session`.
        waits: See `Session`.
        mailbox: Beginning of topics whose events come as `Addressed`; empty for none.
        learn: Called with the serializer of the first event that no hub has sent.
    """

    def __init__(  # noqa: PLR0913 -- as `Session`
        self,
        limit_bytes: int,
        routes: RouteTable[R],
        keep: Keep,
        own: bytes | None = None,
        hub: bytes = b"",
        *,
        mechanism: Mechanism = NULL,
        waits: bool = False,
        mailbox: bytes = b"",
        learn: Callable[[bytes], object] = lambda _: None,
    ) -> None:
        super().__init__(SocketType.XSUB, limit_bytes, hub, mechanism, waits=waits)
        self._routes = routes
        self._keep = keep
        self._own_id = own
        self._mailbox = mailbox
        self._learn = learn
        self._has_learnt = False
        self._heads: dict[bytes, bytes] = {}  # Head of an event, as it stands on the wire → its routing key

    def next_event(self) -> Any:
        """Return the next event, as `Session.next_event`; messages as a `Run`, `Stretch`, `Addressed` or `NoEvent`."""
        found = self._next_stretch() if self.is_open else None
        return super().next_event() if found is None else found

    def _next_stretch(self) -> Run[R] | Stretch[R] | None:
        if find_events is None:
            return None
        incoming = self._incoming
        start = incoming.start
        frames, runs, end = find_events(
            incoming.held, start, self._heads, self._routes.table, incoming.limit_bytes, EVENT_BEGINNING, is_event
        )
        if not frames:
            return None
        routes, _, messages = runs
        if len(routes) > 1:
            incoming.go_to(end)
            return Stretch(frames, 0, runs)
        run = Run(routes[0], frames, messages[0])
        self._keep(run, bytes(memoryview(incoming.held)[start:end]))
        incoming.go_to(end)
        return run

    def _next(self) -> Any:
        if not self.is_open:
            return super()._next()
        found = self._incoming.next_message()
        if found is None:
            return NEED_DATA
        if isinstance(found, Command):
            return self._obey(found)
        try:
            return self._take(found)
        except (RejectedError, InvalidDataError, InvalidInputError) as error:
            self.rejected_messages += 1
            return NoEvent(str(error))

    def _take(self, message: Message) -> Run[R] | Addressed[R] | None:
        """Take a message whose head is not known, or that must be looked at; None for an own one."""
        if len(message.ends) != _PARTS:
            raise RejectedError(CloseCode.BAD_DATA, f"a message of {len(message.ends)} parts, an event has {_PARTS}")
        topic, sender, serializer, payload = message.parts
        if sender == self._own_id:
            return None
        routing_key = EventHead(topic, sender, serializer).routing_key
        is_addressed = bool(self._mailbox) and topic.startswith(self._mailbox)
        if serializer != BINARY:
            payload = from_json(payload)
        elif not is_addressed:
            if len(self._heads) >= HEADS_LIMIT:
                self._heads.clear()
            self._heads[message.frames[: message.ends[HEAD_PARTS - 1]]] = routing_key
        check_event(payload)
        if not (self._has_learnt or sender.startswith(HUB_ID)):
            self._has_learnt = True
            self._learn(serializer)
        route = self._routes.table.get(routing_key)
        if route is None:
            route = self._routes.miss(routing_key)
        run = Run(route, _LENGTH.pack(len(payload)) + routing_key + payload, 1)
        return Addressed(run, payload, topic) if is_addressed else run


WRITTEN_HEADS_LIMIT: Final = 16_384  # for all nodes; then all are forgotten
_KEY_LENGTH = Struct(">H")
_KEY_LENGTH_AT: Final = 6
_BROKER_KINDS: Final = (BROKER_FLAGS, BROKER_FLAGS | FLAG_TAGGED)


class EventWriter:
    """Writes events for the nodes of a cluster.

    Args:
        own: Sender of messages that no node has published.
        passes_on: Whether events of nodes are written, too; leaving them out is no loss.
    """

    def __init__(self, own: bytes, *, passes_on: bool = True) -> None:
        self._own = own
        self._serializer = b""
        self._passes_on = passes_on
        self._heads: dict[bytes, tuple[bytes, bool]] = {}
        """Routing key → head on the wire, empty for a message that is left out, and whether the payload is JSON."""

    @property
    def serializer(self) -> bytes:
        """Form in which events are written; empty for that in which they came. It may be set between batches."""
        return self._serializer

    @serializer.setter
    def serializer(self, serializer: bytes) -> None:
        self._serializer = serializer
        self._heads.clear()

    def write(self, batch: Batch) -> tuple[bytes, int]:
        """Return the messages of a batch as events, in order, and how many messages are none."""
        frames = batch.frames
        parts: list[bytes] = []
        position = lost = 0
        while position < len(frames):
            key_end = position + HEADER_BYTES + _KEY_LENGTH.unpack_from(frames, position + _KEY_LENGTH_AT)[0]
            routing_key = frames[position + 4 : key_end]
            head, is_json = self._head(routing_key)
            if not head:
                position = key_end + _LENGTH.unpack_from(frames, position)[0]
                continue
            behind = position if is_json else _copy_one_key(frames, position, routing_key, head, parts)
            if behind > position:
                position = behind
                continue
            body_length, kind, flags, _ = HEADER.unpack_from(frames, position)
            position = key_end + body_length
            frame = Frame(kind, flags, routing_key[HEADER_BYTES - 4 :], frames[key_end:position])
            payloads, lost_here = bodies_of(frame, from_msgpack)
            lost += lost_here
            for payload in payloads:
                written = _written(payload, is_json=is_json)
                if written:
                    parts += (head, written)
                else:
                    lost += 1
        return b"".join(parts), lost

    def _head(self, routing_key: bytes) -> tuple[bytes, bool]:
        found = self._heads.get(routing_key)
        if found is None:
            if len(self._heads) >= WRITTEN_HEADS_LIMIT:
                self._heads.clear()
            if not self._passes_on and is_of_node(routing_key):
                found = b"", False
            else:
                head = EventHead.of(routing_key, self._own)
                if self._serializer:
                    head = head._replace(serializer=self._serializer)
                found = head.encode(), head.serializer != BINARY
            self._heads[routing_key] = found
        return found


def _written(payload: bytes, *, is_json: bool) -> bytes:
    """Return a payload as the last part of an event; empty where it is no event, or has no such form."""
    if not is_event_at(payload, 0, len(payload), is_event):
        return b""
    if not is_json:
        return encode_frame(payload)
    try:
        return encode_frame(to_json(payload))
    except InvalidDataError:  # it is too long to be converted
        return b""


def _copy_one_key(frames: bytes, position: int, routing_key: bytes, head: bytes, parts: list[bytes]) -> int:
    """Add the frames from `position` on that repeat a routing key and can be copied; return where they end."""
    if routing_key[1] not in _BROKER_KINDS:
        return position
    # Local names, and no calls that can be spared: this is paid for every message.
    unpack_length, starts_with, add = _LENGTH.unpack_from, frames.startswith, parts.append
    overhead = 4 + len(routing_key)
    start, start_length = b"", -1
    while starts_with(routing_key, position + 4):
        (length,) = unpack_length(frames, position)
        body = position + overhead
        if length != start_length:
            if length > UNREAD_BYTES:
                break
            start = head + (LONG_HEADER.pack(LONG, length) if length > SHORT_LIMIT else bytes((0, length)))
            start_length = length
        behind = body + length
        if not starts_with(EVENT_BEGINNING, body, behind) or not is_event_at(frames, body, behind, is_event):
            break
        add(start)
        add(frames[body:behind])
        position = behind
    return position
