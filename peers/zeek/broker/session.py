"""`Session`: one side of a peering, from the first byte to the last. It takes bytes and returns events.

A connection feeds its input, acts on each `next_event()` until that is `NEED_DATA`, and then writes
`take_outgoing()`.

```
PeerKnown ── proceed() ──▶ Peered ──▶ Run, Stretch, FilterChanged, Envelope, Skipped ... ──▶ Ended
   └─ refuse_redundant()                       say_goodbye() ──▶ Drained

acceptor smaller:  ◀ probe    hello ▶    ◀ version_select ◀ originator_syn    responder_syn_ack ▶    ◀ originator_ack
connector smaller: ◀ probe    hello ▶    ◀ hello    version_select ▶ originator_syn ▶    ◀ responder_syn_ack    ack ▶
```

The endpoint with the smaller id is the originator, whichever has dialled. The handshake stops in `DECIDING` until the
owner of all connections has decided whether this one is wanted. As in Broker, an unexpected message ends the connection
without an answer, an invalid frame is answered with a drop_conn. A side that leaves sends a ping that says BYE; the
pong proves that everything before it was read.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Generic, Literal, NamedTuple, TypeVar

from hub.errors import ProtocolError
from hub.messages.stretch import Run, Stretch
from peers.wire.scanner import NEED_DATA, NeedData, RouteTable
from peers.zeek.broker.envelopes import Incoming, Reader, Skipped
from peers.zeek.broker.messages import (
    FILTER_LIMIT_PREFIXES,
    NIL_ID,
    BrokerCode,
    Envelope,
    EnvelopeType,
    Message,
    Tag,
    decode_filter,
    decode_message,
    encode_drop_conn,
    encode_hello,
    encode_originator_ack,
    encode_originator_syn,
    encode_ping,
    encode_pong,
    encode_probe,
    encode_responder_syn_ack,
    encode_routing_update,
    encode_version_select,
    minimal_prefixes,
)

FRAME_LIMIT_BYTES = 16 * 1024 * 1024  # Default of the longest frame of a peer. Broker itself stops at 2 GiB.
HANDSHAKE_LIMIT_BYTES = 64 * 1024
"""Default of the longest frame of a stranger. Apart from drop_conn, none of them has more than 23 bytes."""

PING_LIMIT_BYTES = 64 * 1024  # Longest payload of a ping that is answered. Those of Broker have 11 bytes at a goodbye.
GOODBYE_BYTES = 8  # a goodbye has these behind BYE, chosen by the side that leaves
_BYE = b"BYE"
Role = Literal["acceptor", "connector"]
R = TypeVar("R")


class State(Enum):
    """State of the handshake."""

    CONNECTOR = "after the connector's hello"
    ACCEPTOR = "before the first hello"
    AWAIT_VERSION_SELECT = "before version_select"
    DECIDING = "before it is decided whether the connection is wanted"
    AWAIT_ORIGINATOR_SYN = "before originator_syn"
    AWAIT_RESPONDER_SYN_ACK = "before responder_syn_ack"
    AWAIT_ORIGINATOR_ACK = "before originator_ack"
    DONE = "after the handshake"


class PeerKnown(NamedTuple):
    """The far side has sent its id; the handshake waits for `proceed` or `refuse_redundant`.

    An originator that is connected to that id refuses; it waits while another connection to that id is in its
    handshake. A responder refuses a second connection, as the far side should have.
    """

    peer_id: bytes
    is_originator: bool


class Peered(NamedTuple):
    """The handshake is done: both sides may send messages."""

    peer_id: bytes
    filter: tuple[str, ...]


class FilterChanged(NamedTuple):
    """The far side has replaced its subscriptions."""

    filter: tuple[str, ...]


class Drained(NamedTuple):
    """The far side has read all that was sent before `say_goodbye`."""


class Ended(NamedTuple):
    """The session is over: write outgoing bytes, then close the transport."""

    code: BrokerCode  # `BrokerCode.NONE` after a goodbye of either side
    text: str
    by_far_side: bool


Event = PeerKnown | Peered | Envelope | FilterChanged | Drained | Ended | Skipped
"""An `Envelope` is a command for a data store."""


class Session(Generic[R]):
    """One side of a peering.

    Args:
        own_id: Endpoint id of this hub.
        role: Side of the TCP connection.
        routes: Where the routes of the far side's messages are looked up.
        filter: Prefixes that this hub subscribes to.
        frame_limit_bytes: Longest frame of a peer, and with a filter in the handshake.
        handshake_limit_bytes: Longest frame before the version is selected.
        filter_limit_prefixes: Most prefixes in a filter of the far side.
    """

    unfinished = 0  # Every envelope is one frame

    def __init__(  # noqa: PLR0913 -- three of them are limits
        self,
        own_id: bytes,
        role: Role,
        routes: RouteTable[R],
        filter: Iterable[str] = (),  # noqa: A002 -- it is the word of the field
        *,
        frame_limit_bytes: int = FRAME_LIMIT_BYTES,
        handshake_limit_bytes: int = HANDSHAKE_LIMIT_BYTES,
        filter_limit_prefixes: int = FILTER_LIMIT_PREFIXES,
    ) -> None:
        self.closed = False
        self.rejected_messages = 0  # Data envelopes and unreadable frames that were skipped
        self.far_said_goodbye = False
        self.peer_id = NIL_ID  # Endpoint id of the far side, nil until it has said it
        self.state = State.ACCEPTOR if role == "acceptor" else State.CONNECTOR
        self._own_id = own_id
        self._routes = routes
        self._frame_limit_bytes = frame_limit_bytes
        self._handshake_limit_bytes = handshake_limit_bytes
        self._filter_limit_prefixes = filter_limit_prefixes
        self._incoming = Incoming(handshake_limit_bytes)
        self._outgoing = [encode_probe() if role == "acceptor" else encode_hello(own_id)]
        self._is_originator = False
        self._prefixes = minimal_prefixes(filter)
        self._sent_prefixes: tuple[str, ...] | None = None
        self._peer_filter: tuple[str, ...] = ()
        self._reader: Reader[R] | None = None  # None during the handshake
        self._goodbye = b""  # Payload of the pong that answers this side's goodbye; empty while none is awaited
        self._said_goodbye = False
        self._has_eof = False

    @property
    def is_peered(self) -> bool:
        return self._reader is not None and not self.closed

    @property
    def has_outgoing(self) -> bool:
        return bool(self._outgoing)

    @property
    def has_more(self) -> bool:
        return self._has_eof or self._incoming.has_more

    @property
    def held_bytes(self) -> int:
        return self._incoming.waiting_bytes

    def take_outgoing(self) -> bytes:
        outgoing = b"".join(self._outgoing)
        self._outgoing.clear()
        return outgoing

    def send(self, envelopes: bytes) -> None:
        """Put envelopes into the output; between `Peered` and the end only."""
        self._outgoing.append(envelopes)

    def feed(self, data: bytes) -> None:
        if not self.closed:
            self._incoming.feed(data)

    def feed_eof(self) -> None:
        """The far side has ended the stream: after all that was fed, `next_event` returns `Ended`."""
        self._has_eof = True

    def next_event(self) -> Run[R] | Stretch[R] | Event | NeedData | None:
        """Return the next event; bad input becomes `Ended`.

        None stands for a ping or a message of the handshake, which the session has dealt with itself.
        """
        if self.closed:
            return NEED_DATA
        try:
            event = self._next_in_handshake() if self._reader is None else self._next_in_operation(self._reader)
        except ProtocolError as error:
            self._end()
            return Ended(BrokerCode(error.code), error.text, by_far_side=False)
        if event is NEED_DATA and self._has_eof:
            self._end()
            code, text = BrokerCode.UNSPECIFIED, "stream ended without a goodbye"
            if self._reader is None:
                code, text = BrokerCode.PEER_DISCONNECT_DURING_HANDSHAKE, "stream ended in the handshake"
            elif self.far_said_goodbye or self._said_goodbye:
                code, text = BrokerCode.NONE, "stream ended after a goodbye"
            return Ended(code, text, by_far_side=True)
        return event

    def proceed(self) -> None:
        """Go on with the handshake after `PeerKnown`, unless the session is over by now."""
        if self.closed or self.state is not State.DECIDING:
            return
        self._incoming.frame_limit_bytes = self._frame_limit_bytes
        if self._is_originator:
            self.send(encode_version_select(self._own_id))
            self.send(encode_originator_syn(self._announced()))
            self.state = State.AWAIT_RESPONDER_SYN_ACK
        else:
            self.state = State.AWAIT_ORIGINATOR_SYN

    def refuse_redundant(self) -> None:
        """End the session after `PeerKnown`, since there is another connection to the same endpoint."""
        if self._is_originator:
            self.drop(BrokerCode.REDUNDANT_CONNECTION, "redundant connection")
        else:
            self.drop(BrokerCode.LOGIC_ERROR, "detected redundant connection at the responder")

    def drop(self, code: BrokerCode, text: str) -> None:
        """End the session from this side. Only in the handshake does Broker have a message that says why."""
        if not self.closed:
            if self._reader is None:
                self.send(encode_drop_conn(self._own_id, code, text))
            self._end()

    def announce(self, filter: Iterable[str]) -> None:  # noqa: A002 -- it is the word of the field
        """Send everything that this hub subscribes to now, unless the far side knows it."""
        self._prefixes = minimal_prefixes(filter)
        if self.is_peered:
            self._announce_changes()

    def say_goodbye(self, token: bytes) -> None:
        """Ask the far side to confirm that it has read everything; its answer repeats the token, and is `Drained`."""
        if self.is_peered:
            self._goodbye = _BYE + token
            self._said_goodbye = True
            self.send(encode_ping(self._own_id, self.peer_id, self._goodbye))

    def _end(self) -> None:
        self.closed = True
        self._incoming.forget()

    def _announced(self) -> tuple[str, ...]:
        self._sent_prefixes = self._prefixes
        return self._prefixes

    def _announce_changes(self) -> None:
        if self._sent_prefixes != self._prefixes:
            self.send(encode_routing_update(self._own_id, self.peer_id, self._announced()))

    # The handshake.

    def _next_in_handshake(self) -> Event | NeedData | None:
        incoming = self._incoming
        if self.state is State.DECIDING:
            if incoming.waiting_bytes > self._handshake_limit_bytes:
                raise ProtocolError(
                    BrokerCode.INVALID_HANDSHAKE_STATE,
                    f"{incoming.waiting_bytes} bytes came {self.state.value}, "
                    f"the limit is {self._handshake_limit_bytes} bytes",
                )
            return NEED_DATA
        size = incoming.next_size()
        if not size:
            return NEED_DATA
        event = self._receive(incoming.take_frame(size))
        if isinstance(event, Ended):
            self._end()
        if self.state is not State.DONE:
            return event
        self._reader = Reader(incoming, self._routes, self._own_id, self.peer_id)
        self._announce_changes()
        return Peered(self.peer_id, self._peer_filter)

    def _receive(self, payload: bytes) -> PeerKnown | Ended | None:
        if not payload:
            raise ProtocolError(BrokerCode.INVALID_MESSAGE, f"empty frame {self.state.value}")
        try:
            message = decode_message(payload, self._filter_limit_prefixes)
        except ProtocolError as error:
            self.send(encode_drop_conn(self._own_id, error.code, error.text))
            raise
        if message.tag not in _ALLOWED[self.state]:
            oneself = "; the other side is this hub" if self.peer_id == self._own_id else ""
            text = f"{message.tag.name.lower()} is not expected {self.state.value}{oneself}"
            raise ProtocolError(BrokerCode.UNEXPECTED_HANDSHAKE_MESSAGE, text)
        return self._take_message(message)

    def _take_message(self, message: Message) -> PeerKnown | Ended | None:
        match message.tag:
            case Tag.HELLO:
                return self._hello(message)
            case Tag.VERSION_SELECT:
                return self._version_select(message)
            case Tag.DROP_CONN:
                if self.peer_id == NIL_ID:
                    self.peer_id = message.sender
                return Ended(message.code, message.text, by_far_side=True)
            case Tag.ORIGINATOR_SYN:
                self._peer_filter = message.filter
                self.send(encode_responder_syn_ack(self._announced()))
                self.state = State.AWAIT_ORIGINATOR_ACK
            case Tag.RESPONDER_SYN_ACK:
                self._peer_filter = message.filter
                self.send(encode_originator_ack())
                self.state = State.DONE
            case Tag.ORIGINATOR_ACK:
                self.state = State.DONE
        return None  # a probe only shows that an endpoint listens

    def _hello(self, hello: Message) -> PeerKnown | None:
        if hello.sender == NIL_ID:
            self.send(encode_drop_conn(self._own_id, BrokerCode.PEER_INVALID, "hello without an endpoint id"))
            raise ProtocolError(BrokerCode.PEER_INVALID, "hello without an endpoint id")
        if self._own_id < hello.sender:
            return self._known(hello.sender, is_originator=True)
        # An endpoint that has dialled itself gets here, too, as in Broker: both sides wait, and a second hello ends it.
        self.peer_id = hello.sender
        self.send(encode_hello(self._own_id))
        self.state = State.AWAIT_VERSION_SELECT
        return None

    def _version_select(self, selected: Message) -> PeerKnown:
        if self.peer_id not in (NIL_ID, selected.sender):
            raise ProtocolError(
                BrokerCode.PEER_INVALID,
                f"hello came from {self.peer_id.hex()}, version_select from {selected.sender.hex()}",
            )
        if selected.sender in (NIL_ID, self._own_id):
            raise ProtocolError(BrokerCode.PEER_INVALID, "version_select without an endpoint id other than this hub's")
        return self._known(selected.sender, is_originator=False)

    def _known(self, peer_id: bytes, *, is_originator: bool) -> PeerKnown:
        self.peer_id = peer_id
        self._is_originator = is_originator
        self.state = State.DECIDING
        return PeerKnown(peer_id, is_originator)

    # Envelopes.

    def _next_in_operation(self, reader: Reader[R]) -> Run[R] | Stretch[R] | Event | NeedData | None:
        item = reader.next_item()
        event = self._envelope(item) if isinstance(item, Envelope) else item
        if isinstance(event, Skipped):
            self.rejected_messages += event.messages
        return event

    def _envelope(self, envelope: Envelope) -> Event | None:
        name = envelope.type.name.lower()
        if envelope.sender != self.peer_id:
            return Skipped(f"{name} from {envelope.sender.hex()}, which is not the other side")
        if envelope.receiver not in (NIL_ID, self._own_id):
            return Skipped(f"{name} for another endpoint")
        match envelope.type:
            case EnvelopeType.ROUTING_UPDATE:
                return self._routing_update(envelope.payload)
            case EnvelopeType.PING:
                return self._ping(envelope.payload)
            case EnvelopeType.PONG if envelope.payload == self._goodbye:  # no payload is empty
                self._goodbye = b""
                return Drained()
        return envelope if envelope.type is EnvelopeType.COMMAND else None

    def _routing_update(self, payload: bytes) -> Event | None:
        try:
            prefixes, end = decode_filter(payload, 0, self._filter_limit_prefixes)
        except ValueError as error:
            return Skipped(f"routing_update: {error}")
        if end != len(payload):
            return Skipped(f"routing_update: {len(payload) - end} bytes follow the filter")
        if prefixes == self._peer_filter:
            return None
        self._peer_filter = prefixes
        return FilterChanged(prefixes)

    def _ping(self, payload: bytes) -> Event | None:
        if len(payload) > PING_LIMIT_BYTES:
            return Skipped(f"ping of {len(payload)} bytes, the limit is {PING_LIMIT_BYTES} bytes")
        if payload.startswith(_BYE) and len(payload) == len(_BYE) + GOODBYE_BYTES:
            self.far_said_goodbye = True
        self.send(encode_pong(self._own_id, self.peer_id, payload))
        return None


_EARLY = {Tag.PROBE, Tag.DROP_CONN}
# Messages that each state allows
_ALLOWED: dict[State, set[Tag]] = {
    State.CONNECTOR: {*_EARLY, Tag.HELLO, Tag.VERSION_SELECT},
    State.ACCEPTOR: {*_EARLY, Tag.HELLO},
    State.AWAIT_VERSION_SELECT: {*_EARLY, Tag.VERSION_SELECT},
    State.DECIDING: set(),
    State.AWAIT_ORIGINATOR_SYN: {Tag.ORIGINATOR_SYN},
    State.AWAIT_RESPONDER_SYN_ACK: {Tag.RESPONDER_SYN_ACK},
    State.AWAIT_ORIGINATOR_ACK: {Tag.ORIGINATOR_ACK},
    State.DONE: set(),
}
