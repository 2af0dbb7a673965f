"""`Session`: one side of a peering, from the first byte to the last. It takes bytes and returns events.

A connection feeds what it has read, acts on each `next_event()` until that is `NEED_DATA`, and then writes
`take_outgoing()`, in which the session's own answers are (the handshake, pongs).

```
PeerKnown ── proceed() ──▶ Peered ──▶ Run, Stretch, FilterChanged, StoreCommand, Skipped ... ──▶ Ended
   └─ refuse_redundant()                       say_goodbye() ──▶ Drained
```

A side that leaves sends a ping that says BYE; the pong proves that everything before it was read. Owner: one
connection, which limits the time for the handshake and for that pong. After `Ended` nothing more is read; at most one
incomplete frame is held, and while a decision about the far side is awaited, no more than the handshake limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, NamedTuple, TypeVar

from hub.errors import ProtocolError
from hub.stretch import Run, Stretch
from peers.wire.scanner import NEED_DATA, NeedData, RouteTable
from peers.zeek.broker.handshake import Ended, Handshake, PeerKnown, Role, State
from peers.zeek.broker.messages import (
    FILTER_LIMIT_BYTES,
    FILTER_LIMIT_PREFIXES,
    ID_BYTES,
    NIL_ID,
    BrokerCode,
    Envelope,
    EnvelopeType,
    decode_filter,
    encode_ping,
    encode_pong,
    encode_routing_update,
    minimal_prefixes,
)
from peers.zeek.broker.reading import Incoming, Reader, Skipped

FRAME_LIMIT_BYTES = 16 * 1024 * 1024
"""Default of the longest frame of a peer, bytes. Broker itself stops at 2 GiB."""

HANDSHAKE_LIMIT_BYTES = 64 * 1024
"""Default of the longest frame of a stranger, bytes. Apart from `drop_conn`, none of them has more than 23."""

PING_LIMIT_BYTES = 64 * 1024
"""Longest payload of a ping that is answered. Those of Broker have 11 bytes at a goodbye, and a few at a handover."""

GOODBYE_BYTES = 8
"""How many bytes a goodbye has behind BYE; whoever says it chooses them."""

_BYE = b"BYE"

R = TypeVar("R")


class Peered(NamedTuple):
    """The handshake is done: both sides may send messages."""

    peer_id: bytes
    """The id of the far side."""
    filter: tuple[str, ...]
    """The prefixes that it subscribes to."""


class StoreCommand(NamedTuple):
    """The far side has sent a command for a data store, which is not taken apart."""

    envelope: Envelope


class FilterChanged(NamedTuple):
    """The far side subscribes to these prefixes now, and to nothing else."""

    filter: tuple[str, ...]


class Drained(NamedTuple):
    """The far side has read all that was sent before `say_goodbye`."""


Event = PeerKnown | Peered | StoreCommand | FilterChanged | Drained | Ended | Skipped


class Session(Generic[R]):
    """One side of a peering.

    Args:
        own_id: The id of this hub, 16 bytes, not nil.
        role: Which side of the TCP connection this is, "acceptor" or "connector".
        routes: Where the routes of the far side's messages are looked up.
        filter: Prefixes that this hub subscribes to.
        frame_limit_bytes: Longest frame of a peer.
        handshake_limit_bytes: Longest frame before the version is selected.
        filter_limit_bytes: Longest frame with a filter in the handshake.
        filter_limit_prefixes: Most prefixes in a filter of the far side.

    Raises:
        ValueError: `own_id` is no id.
    """

    __slots__ = (
        "_filter_limit_bytes",
        "_filter_limit_prefixes",
        "_frame_limit_bytes",
        "_goodbye",
        "_handshake",
        "_handshake_limit_bytes",
        "_has_eof",
        "_incoming",
        "_outgoing",
        "_own_id",
        "_peer_filter",
        "_reader",
        "_routes",
        "_said_goodbye",
        "closed",
        "far_said_goodbye",
        "left_out_prefixes",
        "rejected_messages",
    )

    closed: bool
    """Becomes True when the session is over, by either side, and stays so."""

    rejected_messages: int
    """How many data envelopes and unreadable frames were not taken so far."""

    left_out_prefixes: int
    """How many prefixes in filters of the far side this hub could not take so far."""

    far_said_goodbye: bool
    """Becomes True when the far side says goodbye, and stays so."""

    def __init__(  # noqa: PLR0913 -- four of them are limits
        self,
        own_id: bytes,
        role: Role,
        routes: RouteTable[R],
        filter: Iterable[str] = (),  # noqa: A002 -- it is the word of the field
        *,
        frame_limit_bytes: int = FRAME_LIMIT_BYTES,
        handshake_limit_bytes: int = HANDSHAKE_LIMIT_BYTES,
        filter_limit_bytes: int = FILTER_LIMIT_BYTES,
        filter_limit_prefixes: int = FILTER_LIMIT_PREFIXES,
    ) -> None:
        if len(own_id) != ID_BYTES or own_id == NIL_ID:
            raise ValueError(f"endpoint id {own_id.hex()!r} is not 16 bytes, or nil")
        self.closed = False
        self.rejected_messages = self.left_out_prefixes = 0
        self.far_said_goodbye = False
        self._own_id = own_id
        self._routes = routes
        self._frame_limit_bytes = frame_limit_bytes
        self._handshake_limit_bytes = handshake_limit_bytes
        self._filter_limit_bytes = filter_limit_bytes
        self._filter_limit_prefixes = filter_limit_prefixes
        self._incoming = Incoming(handshake_limit_bytes)
        self._outgoing: list[bytes] = []
        self._handshake = Handshake(
            own_id, role, minimal_prefixes(filter), filter_limit_prefixes, self._outgoing.append
        )
        self._reader: Reader[R] | None = None
        """None during the handshake; set when that is done, which is when `Peered` is returned."""
        self._peer_filter: tuple[str, ...] = ()
        """The filter that the far side has told last, so that one that changes nothing is not passed on."""
        self._goodbye = b""
        """The payload of the pong that answers this side's goodbye; empty while no such pong is awaited."""
        self._said_goodbye = False
        """Becomes True with `say_goodbye`, and stays so."""
        self._has_eof = False
        """Becomes True when the far side has ended the stream, and stays so."""

    @property
    def peer_id(self) -> bytes:
        """The id that the far side has told; nil until it has."""
        return self._handshake.peer_id

    @property
    def is_peered(self) -> bool:
        """Whether messages may be sent."""
        return self._reader is not None and not self.closed

    @property
    def has_outgoing(self) -> bool:
        """Whether something waits to be written."""
        return bool(self._outgoing)

    @property
    def has_more(self) -> bool:
        """Whether `next_event` may have something to say; behind the last of what was read it says `NEED_DATA`."""
        return self._has_eof or self._incoming.has_more

    @property
    def held_bytes(self) -> int:
        """How many bytes were read and not acted on."""
        return self._incoming.waiting_bytes

    @property
    def unfinished(self) -> int:
        """None: every envelope is one frame."""
        return 0

    def take_outgoing(self) -> bytes:
        """Return and forget what is to be written now."""
        if not self._outgoing:
            return b""
        outgoing = b"".join(self._outgoing)
        self._outgoing.clear()
        return outgoing

    def send(self, envelopes: bytes) -> None:
        """Put envelopes into what goes out next. This is allowed between `Peered` and the end only."""
        self._outgoing.append(envelopes)

    def feed(self, data: bytes) -> None:
        """Take what was read; ask `next_event` for what it says."""
        if not self.closed:
            self._incoming.feed(data)

    def feed_eof(self) -> None:
        """Take note that the far side has ended the stream: after all that was fed, `next_event` returns `Ended`."""
        self._has_eof = True

    def next_event(self) -> Run[R] | Stretch[R] | Event | NeedData | None:
        """Return what the far side says next. Bad input raises nothing: it becomes `Ended`.

        None stands for something that is dealt with already (a ping, a message of the handshake) and has cost time. A
        connection that is fair to others counts it.
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
            return self._end_of_stream()
        return event

    def proceed(self) -> None:
        """Go on with the handshake after `PeerKnown`. Nothing happens if the session is over by now."""
        if not self.closed and self._handshake.state is State.DECIDING:
            self._handshake.proceed()
            self._incoming.frame_limit_bytes = self._filter_limit_bytes

    def refuse_redundant(self) -> None:
        """End the session after `PeerKnown`, since there is another connection to the same endpoint."""
        if self._handshake.is_originator:
            self.drop(BrokerCode.REDUNDANT_CONNECTION, "redundant connection")
        else:
            self.drop(BrokerCode.LOGIC_ERROR, "detected redundant connection at the responder")

    def drop(self, code: BrokerCode, text: str) -> None:
        """End the session from this side. Only during the handshake does Broker's protocol have a way to say why."""
        if not self.closed:
            if self._reader is None:
                self._handshake.send_drop_conn(code, text)
            self._end()

    def announce(self, filter: Iterable[str]) -> None:  # noqa: A002 -- it is the word of the field
        """Tell the far side everything that this hub subscribes to now, unless that is what it was told last.

        Args:
            filter: Prefixes in any order; those that others cover are not sent.
        """
        self._handshake.prefixes = minimal_prefixes(filter)
        if self.is_peered:
            self._announce_changes()

    def say_goodbye(self, token: bytes) -> None:
        """Ask the far side to confirm that it has read everything that was sent; its answer becomes `Drained`.

        Args:
            token: 8 bytes that the answer repeats.

        Raises:
            ValueError: The token has another size.
        """
        if len(token) != GOODBYE_BYTES:
            raise ValueError(f"token of {len(token)} bytes, a goodbye has {GOODBYE_BYTES}")
        if self.is_peered:
            self._goodbye = _BYE + token
            self._said_goodbye = True
            self.send(encode_ping(self._own_id, self.peer_id, self._goodbye))

    def _end(self) -> None:
        self.closed = True
        self._incoming.forget()

    def _end_of_stream(self) -> Ended:
        if self._reader is None:
            return Ended(BrokerCode.PEER_DISCONNECT_DURING_HANDSHAKE, "stream ended in the handshake", by_far_side=True)
        if self.far_said_goodbye or self._said_goodbye:
            return Ended(BrokerCode.NONE, "stream ended after a goodbye", by_far_side=True)
        return Ended(BrokerCode.UNSPECIFIED, "stream ended without a goodbye", by_far_side=True)

    def _announce_changes(self) -> None:
        handshake = self._handshake
        if handshake.sent_prefixes != handshake.prefixes:
            handshake.sent_prefixes = handshake.prefixes
            self.send(encode_routing_update(self._own_id, self.peer_id, handshake.prefixes))

    def _next_in_handshake(self) -> Event | NeedData | None:
        handshake, incoming = self._handshake, self._incoming
        if handshake.state is State.DECIDING:
            if incoming.waiting_bytes > self._handshake_limit_bytes:
                raise ProtocolError(
                    BrokerCode.INVALID_HANDSHAKE_STATE,
                    f"{incoming.waiting_bytes} bytes came {handshake.state.value}, "
                    f"the limit is {self._handshake_limit_bytes} bytes",
                )
            return NEED_DATA
        size = incoming.next_size()
        if not size:
            return NEED_DATA
        event = handshake.receive(incoming.take_frame(size))
        if isinstance(event, Ended):
            self._end()
            return event
        if handshake.state is State.DONE:
            return self._begin_operation()
        return event

    def _begin_operation(self) -> Peered:
        self._reader = Reader(self._incoming, self._routes, self._own_id, self.peer_id)
        self._incoming.frame_limit_bytes = self._frame_limit_bytes
        self._announce_changes()
        prefixes, left_out = self._handshake.peer_filter
        self._peer_filter = prefixes
        self.left_out_prefixes += left_out
        return Peered(self.peer_id, prefixes)

    def _next_in_operation(self, reader: Reader[R]) -> Run[R] | Stretch[R] | Event | NeedData | None:
        item = reader.next_item()
        event = self._envelope(item) if isinstance(item, Envelope) else item
        if isinstance(event, Skipped):
            self.rejected_messages += event.messages
        return event

    def _envelope(self, envelope: Envelope) -> Event | None:
        name = envelope.type.name.lower()
        if envelope.sender != self.peer_id:
            return Skipped(f"{name} from {envelope.sender.hex()}, which is not the far side")
        if envelope.receiver not in (NIL_ID, self._own_id):
            return Skipped(f"{name} for another endpoint")
        if envelope.type is EnvelopeType.COMMAND:
            return StoreCommand(envelope)
        return _MEANINGS[envelope.type](self, envelope.payload)

    # What envelopes of the far side itself mean.

    def _routing_update(self, payload: bytes) -> Event | None:
        try:
            (prefixes, left_out), end = decode_filter(payload, 0, self._filter_limit_prefixes)
        except ValueError as error:
            return Skipped(f"routing_update: {error}")
        if end != len(payload):
            return Skipped(f"routing_update: {len(payload) - end} bytes follow the filter")
        self.left_out_prefixes += left_out
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

    def _pong(self, payload: bytes) -> Event | None:
        if payload != self._goodbye:  # no payload is empty, so none equals it while no answer is awaited
            return None
        self._goodbye = b""
        return Drained()


_MEANINGS: dict[EnvelopeType, Callable[[Session[Any], bytes], Event | None]] = {
    EnvelopeType.ROUTING_UPDATE: Session._routing_update,  # noqa: SLF001 -- the table belongs to the class
    EnvelopeType.PING: Session._ping,  # noqa: SLF001
    EnvelopeType.PONG: Session._pong,  # noqa: SLF001
}
