"""The messages in which Zeek's ZeroMQ backend sends an event, read in runs and written.

```
topic │ sender's node id │ serializer (JSON, BINARY) │ payload        four parts of one ZMTP message
```

All but the payload is a head, which is looked up as a whole. Payloads in Broker's binary format are carried as they
are, those in JSON are converted. A read may bring thousands of events: `event_scan`, or its compiled twin, finds how
far they go on with the same head, and they become one run.

Owner of a reader or writer: one connection. Cost: that of `event_scan`, 15 µs for a head that is new, 20 µs for an
event in JSON. No I/O.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any, Final, Generic, NamedTuple, TypeVar

from hub.batch import Batch
from hub.errors import CloseCode, HubError, RejectedError
from hub.frame import BROKER_FLAGS, FLAG_TAGGED, HEADER, HEADER_BYTES, KIND_MESSAGES, Encoding, Frame, topic_of
from hub.names.grammar import LABEL_LIMIT_BYTES
from hub.stretch import Run, Stretch
from hub.tags.envelope import Envelope, tagged
from peers.values import InvalidDataError, InvalidInputError, check, decode_message, encode_json, from_msgpack
from peers.values.layout import Tag, read_length
from peers.wire.scanner import NEED_DATA, RouteTable
from peers.zeek.broker.writing import UNREAD_BYTES, bodies_of
from peers.zeek.zmtp.event_scan import HEAD_PARTS
from peers.zeek.zmtp.frames import LONG, MORE, Command, Incoming, Message, encode_frame
from peers.zeek.zmtp.handshake import NULL, Mechanism
from peers.zeek.zmtp.session import Session, SocketType


def from_json(payload: bytes) -> bytes:
    """Return a payload in Broker's binary format.

    Raises:
        InvalidInputError: It is none.
    """
    return decode_message(payload)[1]


def to_json(payload: bytes) -> bytes:
    """Return a payload in Broker's binary format as JSON.

    Raises:
        InvalidDataError: It is none, or too long to be converted.
    """
    return b"{" + encode_json(payload) + b"}"


BINARY: Final = b"broker-bin-v1"
JSON: Final = b"broker-json-v1"
SERIALIZERS: Final = (BINARY, JSON)
"""What Zeek may be told to use; every node of a cluster uses the same."""

EVENT_BEGINNING: Final = bytes.fromhex("0e03 020000000000000001 020000000000000001 0e")
"""What every event begins with in Broker's binary format: a vector of format 1, kind 1, and the vector of the event."""

NODE_LABEL: Final = "zeek-node="
"""What the label begins with that says which node has sent a message."""

_NODE_LABELS: Final = (NODE_LABEL, "zeek-node-2=", "zeek-node-3=")
"""What those begin with that hold an id together: ids of ZeroMQ have up to 255 bytes, a label 128."""

HUB_ID: Final = b"topichub_"
"""What the node ids of hubs begin with."""

_SERIALIZER: Final = "zeek-serializer="

_FLAGS: Final = Encoding.BROKER << 1


class EventHead(NamedTuple):
    """The first three parts of an event."""

    topic: bytes
    sender: bytes
    """The id of the node that has published it; its own messages are no news to a node."""
    serializer: bytes = BINARY

    def encode(self) -> bytes:
        """Return the three parts as frames of ZMTP; the payload's follows."""
        return b"".join([encode_frame(part, MORE) for part in self])

    @property
    def routing_key(self) -> bytes:
        """Bytes by which the route cache knows the event.

        Raises:
            RejectedError: The topic, or the sender, is none that the hub takes, or nobody knows the serializer.
        """
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
        """Read what a message of the hub is sent with.

        Args:
            routing_key: Bytes 4 to 8 + K of its frame, which the hub has checked.
            own: The sender of what no node of a cluster has published.
        """
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
    """Return the labels that say which node has sent a message: one, for a long id more.

    Raises:
        UnicodeDecodeError: The id is not UTF-8.
    """
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
    """Return whether a node of a cluster has published a message of the hub; the argument is that of `EventHead.of`."""
    if not routing_key[1] & FLAG_TAGGED:
        return False
    return any(label.startswith(NODE_LABEL) for label in Envelope.decode(routing_key[HEADER_BYTES - 4 :]).labels)


_SHOWN_BYTES = 20
_LEAST_PARTS = 2


def check_event(payload: bytes) -> None:
    """Accept a payload that is an event.

    Raises:
        RejectedError: It is another value.
        InvalidDataError: It is none.
    """
    if payload.startswith(EVENT_BEGINNING):
        check(payload)
        parts, position = read_length(payload, len(EVENT_BEGINNING))
        if parts >= _LEAST_PARTS and payload[position] == Tag.STRING:
            size, position = read_length(payload, position + 1)
            if payload[position + size] == Tag.VECTOR:
                return
    raise RejectedError(CloseCode.BAD_DATA, f"the payload is no event: {payload[:_SHOWN_BYTES].hex()}")


def is_event(payload: bytes) -> bool:
    """Return whether `check_event` accepts a payload."""
    try:
        check_event(payload)
    except (RejectedError, InvalidDataError):
        return False
    return True


def is_event_at_in_python(data: bytes, start: int, end: int, is_event: Callable[[bytes], bool]) -> bool:
    """Return whether an event stands in some bytes from `start` to `end`; `_zmtp.pyx` has a compiled twin."""
    return is_event(data[start:end])


try:
    from peers.zeek.zmtp._zmtp import find_events, is_event_at
except ImportError:  # not built: no compiler was there
    from peers.zeek.zmtp.event_scan import find_events

    is_event_at = is_event_at_in_python


HEADS_LIMIT: Final = 4096
"""How many heads are remembered of one node: with more topics than that all are forgotten, and made anew."""

_PARTS: Final = 4

_LENGTH = Struct(">I")

R = TypeVar("R")

Keep = Callable[[Batch, bytes], object]


class NoEvent(NamedTuple):
    """A message that was not taken; the session goes on."""

    reason: str
    """Why it was not taken, for a log."""


class Addressed(NamedTuple, Generic[R]):
    """An event that was published to the reader itself."""

    run: Run[R]
    """The event, for others."""
    payload: bytes
    """The event, in Broker's binary format."""
    topic: bytes


class EventReader(Generic[R]):
    """Cuts what a node publishes into stretches of messages.

    Args:
        incoming: The buffer of what was read.
        routes: Where the routes of messages are looked up.
        keep: Called with a run, and with the bytes that it was read from: other nodes are sent the same.
        own: The node id of the reader: what it has published itself, and a broker has sent back, is not taken.
        mailbox: What the topics begin with whose events are for the reader itself, too; empty for none.
        learn: Told the serializer of the first event that comes; not that of other hubs, which have to learn it, too.
    """

    __slots__ = ("_has_learnt", "_heads", "_incoming", "_keep", "_learn", "_mailbox", "_own", "_routes")

    def __init__(  # noqa: PLR0913 -- what it is told at once
        self,
        incoming: Incoming,
        routes: RouteTable[R],
        keep: Keep,
        own: bytes | None = None,
        *,
        mailbox: bytes = b"",
        learn: Callable[[bytes], object] = lambda _: None,
    ) -> None:
        self._mailbox = mailbox
        self._learn = learn
        self._has_learnt = False
        self._incoming = incoming
        self._routes = routes
        self._keep = keep
        self._own = own
        # The head of an event, as it stands on the wire → its routing key.
        self._heads: dict[bytes, bytes] = {}

    def next_stretch(self) -> Run[R] | Stretch[R] | None:
        """Return the events that stand next in what was read, as far as their heads are known; None for none."""
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

    def take(self, message: Message) -> Run[R] | Addressed[R] | NoEvent | None:
        """Take one message whose head is not known, or that must be looked at; None for an own one, 4 µs each."""
        try:
            return self._take(message)
        except (RejectedError, InvalidDataError, InvalidInputError) as error:
            return NoEvent(str(error))

    def _take(self, message: Message) -> Run[R] | Addressed[R] | None:
        if len(message.ends) != _PARTS:
            raise RejectedError(CloseCode.BAD_DATA, f"a message of {len(message.ends)} parts, an event has {_PARTS}")
        topic, sender, serializer, payload = message.parts
        if sender == self._own:
            return None
        head = EventHead(topic, sender, serializer)
        routing_key = head.routing_key
        is_addressed = bool(self._mailbox) and topic.startswith(self._mailbox)
        if serializer == BINARY and not is_addressed:
            self._remember(message.frames[: message.ends[HEAD_PARTS - 1]], routing_key)
        elif serializer != BINARY:
            payload = from_json(payload)
        check_event(payload)
        if not (self._has_learnt or sender.startswith(HUB_ID)):
            self._has_learnt = True
            self._learn(serializer)
        route = self._routes.table.get(routing_key)
        if route is None:
            route = self._routes.miss(routing_key)
        run = Run(route, _LENGTH.pack(len(payload)) + routing_key + payload, 1)
        return Addressed(run, payload, topic) if is_addressed else run

    def _remember(self, head: bytes, routing_key: bytes) -> None:
        if len(self._heads) >= HEADS_LIMIT:
            self._heads.clear()
        self._heads[head] = routing_key


WRITTEN_HEADS_LIMIT: Final = 16_384
"""How many heads are remembered for all nodes: with more topics than that all are forgotten, and made anew."""


_KEY_LENGTH = Struct(">H")
_LONG_HEADER = Struct(">BQ")
_KEY_LENGTH_AT: Final = 6
_SHORT_LIMIT: Final = 255
_BROKER_KINDS: Final = (BROKER_FLAGS, BROKER_FLAGS | FLAG_TAGGED)


class EventWriter:
    """Writes events for the nodes of a cluster.

    Args:
        own: The sender of what no node has published.
        passes_on: Whether what a node has published is written, too; otherwise it is left out, and is no loss.
    """

    __slots__ = ("_heads", "_own", "_passes_on", "_serializer")

    def __init__(self, own: bytes, *, passes_on: bool = True) -> None:
        self._own = own
        # Empty while it is not known.
        self._serializer = b""
        self._passes_on = passes_on
        # Routing key → the head as it stands on the wire, empty for what is left out, and whether the payload is JSON.
        self._heads: dict[bytes, tuple[bytes, bool]] = {}

    @property
    def serializer(self) -> bytes:
        """In which form events are written; empty for that in which they came. It may be set between batches."""
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
    """Put those frames from `position` on that repeat one routing key, and can be copied, into `parts`.

    Returns:
        Where the last of these frames ends; `position` if there is none.
    """
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
            start = head + (_LONG_HEADER.pack(LONG, length) if length > _SHORT_LIMIT else bytes((0, length)))
            start_length = length
        behind = body + length
        if not starts_with(EVENT_BEGINNING, body, behind) or not is_event_at(frames, body, behind, is_event):
            break
        add(start)
        add(frames[body:behind])
        position = behind
    return position


class EventSession(Session, Generic[R]):
    """One side of a connection.

    Args:
        limit_bytes: The longest message of a far side that is ready, all its parts together.
        routes: Where the routes of messages are looked up.
        keep: Called with a run of events, and with the bytes that it was read from.
        own: This side's node id, whose events are not taken; None for none.
        hub: The id of this hub; see `Session`.
        mechanism: See `Session`.
        waits: See `Session`.
        mailbox: What the topics begin with whose events come as `Addressed`; empty for none.
        learn: Told the serializer of the first event.
    """

    __slots__ = ("_reader",)

    def __init__(  # noqa: PLR0913 -- what a side is told at once
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
        self._reader = EventReader(self._incoming, routes, keep, own, mailbox=mailbox, learn=learn)

    def next_event(self) -> Any:
        """Return what the far side says next, as `Session.next_event`.

        Its messages come as a `Run` or a `Stretch` of events, as `Addressed`, or as `NoEvent`.
        """
        if not self.is_open:
            return super().next_event()
        found = self._reader.next_stretch()
        return super().next_event() if found is None else found

    def _next(self) -> Any:
        if not self.is_open:
            return super()._next()
        found = self._incoming.next_message()
        if found is None:
            return NEED_DATA
        if isinstance(found, Command):
            return self._obey(found)
        event = self._reader.take(found)
        if isinstance(event, NoEvent):
            self.rejected_messages += 1
        return event
