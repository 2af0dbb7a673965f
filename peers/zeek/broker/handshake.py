"""`Handshake`: a table of what each side may say before two endpoints are peers. No I/O, no clock.

```
                               Probe  Hello  VersionSelect  DropConn  OriginatorSyn  ResponderSynAck  OriginatorAck
CONNECTOR: hello said            ✓      ✓         ✓            ✓
ACCEPTOR: probe said             ✓      ✓                      ✓
AWAIT_VERSION_SELECT             ✓                ✓            ✓
AWAIT_ORIGINATOR_SYN                                                        ✓
AWAIT_RESPONDER_SYN_ACK                                                                     ✓
AWAIT_ORIGINATOR_ACK                                                                                        ✓
```

As in Broker, a missing entry ends the connection without an answer, and an invalid frame is answered with `drop_conn`.

The endpoint with the smaller id is the originator, whichever of the two has dialled:

```
acceptor smaller:  ◀ probe    hello ▶    ◀ version_select ◀ originator_syn    responder_syn_ack ▶    ◀ originator_ack
connector smaller: ◀ probe    hello ▶    ◀ hello    version_select ▶ originator_syn ▶    ◀ responder_syn_ack    ack ▶
```

Before the originator selects the version, and when the responder hears of it, the handshake stops in `DECIDING`: the
owner of all connections decides whether this one is wanted, see `PeerKnown`.

Owner: one session. Not here: framing and its limits (`peers.zeek.broker.reading`), how long a handshake may take.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Literal, NamedTuple

from hub.errors import ProtocolError
from peers.zeek.broker.messages import (
    NIL_ID,
    BrokerCode,
    DropConn,
    Filter,
    HandshakeMessage,
    Hello,
    OriginatorAck,
    OriginatorSyn,
    Probe,
    ResponderSynAck,
    VersionSelect,
    decode_message,
    encode_drop_conn,
    encode_hello,
    encode_originator_ack,
    encode_originator_syn,
    encode_probe,
    encode_responder_syn_ack,
    encode_version_select,
)

Role = Literal["acceptor", "connector"]


class State(Enum):
    """Where a handshake stands."""

    CONNECTOR = "after the connector's hello"
    ACCEPTOR = "before the first hello"
    AWAIT_VERSION_SELECT = "before version_select"
    DECIDING = "before it is decided whether the connection is wanted"
    AWAIT_ORIGINATOR_SYN = "before originator_syn"
    AWAIT_RESPONDER_SYN_ACK = "before responder_syn_ack"
    AWAIT_ORIGINATOR_ACK = "before originator_ack"
    DONE = "after the handshake"


class PeerKnown(NamedTuple):
    """The far side has said who it is; the handshake waits for `proceed` or `refuse_redundant`.

    The originator decides: it proceeds; or it refuses, if it is connected to that id; or it waits, while another
    connection to that id is in its handshake. A responder refuses a second connection, as the far side should have.
    """

    peer_id: bytes
    """The id that the far side has told."""
    is_originator: bool
    """Whether this side is the originator."""


class Ended(NamedTuple):
    """The conversation is over: write what is outgoing, then close the transport."""

    code: BrokerCode
    """Why it is over; `BrokerCode.NONE` after a goodbye of either side."""

    text: str
    """The same in words, for a log."""

    by_far_side: bool
    """Whether the far side has ended it."""


class Handshake:
    """One side of a handshake.

    Args:
        own_id: The id of this hub.
        role: Which side of the TCP connection this is, "acceptor" or "connector".
        prefixes: What this hub subscribes to, without prefixes that others cover.
        limit_prefixes: Most prefixes in the filter of the far side.
        send: Called with each frame that is to be sent.
    """

    __slots__ = (
        "_limit_prefixes",
        "_own_id",
        "_send",
        "is_originator",
        "peer_filter",
        "peer_id",
        "prefixes",
        "sent_prefixes",
        "state",
    )

    state: State
    """What is expected next; only a message of the far side, or `proceed`, changes it."""

    peer_id: bytes
    """The id that the far side has told; nil until it has."""

    peer_filter: Filter
    """What the far side subscribes to; empty until it has told, which it has when the state is `DONE`."""

    prefixes: tuple[str, ...]
    """What this hub subscribes to now; the session changes it."""

    sent_prefixes: tuple[str, ...] | None
    """What the far side was told last that this hub subscribes to; None until it was told."""

    is_originator: bool
    """Whether this side is the originator; decided together with `PeerKnown`, False until then."""

    def __init__(
        self,
        own_id: bytes,
        role: Role,
        prefixes: tuple[str, ...],
        limit_prefixes: int,
        send: Callable[[bytes], None],
    ) -> None:
        self.state = State.ACCEPTOR if role == "acceptor" else State.CONNECTOR
        self.peer_id = NIL_ID
        self.peer_filter = Filter(())
        self.prefixes = prefixes
        self.sent_prefixes = None
        self.is_originator = False
        self._own_id = own_id
        self._limit_prefixes = limit_prefixes
        self._send = send
        send(encode_probe() if role == "acceptor" else encode_hello(own_id))

    def receive(self, payload: bytes) -> PeerKnown | Ended | None:
        """Take one frame without its length.

        Returns:
            An event for the owner, or None.

        Raises:
            ProtocolError: The connection must end. Where Broker sends a `drop_conn`, one was sent.
        """
        if not payload:
            raise ProtocolError(BrokerCode.INVALID_MESSAGE, f"empty frame {self.state.value}")
        try:
            message = decode_message(payload, self._limit_prefixes)
        except ProtocolError as error:
            self.send_drop_conn(error.code, error.text)
            raise
        rule = _RULES[self.state].get(type(message))
        if rule is None:
            raise ProtocolError(
                BrokerCode.UNEXPECTED_HANDSHAKE_MESSAGE,
                f"{type(message).__name__} is not expected {self.state.value}{self._of_oneself()}",
            )
        return rule(self, message)

    def proceed(self) -> None:
        """Go on after `PeerKnown`."""
        if self.is_originator:
            self._send(encode_version_select(self._own_id))
            self._send(encode_originator_syn(self._told()))
            self.state = State.AWAIT_RESPONDER_SYN_ACK
        else:
            self.state = State.AWAIT_ORIGINATOR_SYN

    def send_drop_conn(self, code: int, text: str) -> None:
        """Tell the far side why the connection ends."""
        self._send(encode_drop_conn(self._own_id, code, text))

    def _told(self) -> tuple[str, ...]:
        self.sent_prefixes = self.prefixes
        return self.prefixes

    def _of_oneself(self) -> str:
        return "; the far side is this hub itself" if self.peer_id == self._own_id else ""

    # The rules: what each message means.

    def _probe(self, _: Probe) -> None:
        """Do nothing: a probe only shows that an endpoint listens."""

    def _hello(self, hello: Hello) -> PeerKnown | None:
        if hello.sender == NIL_ID:
            self.send_drop_conn(BrokerCode.PEER_INVALID, "hello without an endpoint id")
            raise ProtocolError(BrokerCode.PEER_INVALID, "hello without an endpoint id")
        self.peer_id = hello.sender
        if self._own_id < hello.sender:
            return self._known(hello.sender, is_originator=True)
        # An endpoint that has dialled itself gets here, too, as in Broker: both sides wait, and a second hello ends it.
        self._send(encode_hello(self._own_id))
        self.state = State.AWAIT_VERSION_SELECT
        return None

    def _version_select(self, selected: VersionSelect) -> PeerKnown:
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
        self.is_originator = is_originator
        self.state = State.DECIDING
        return PeerKnown(peer_id, is_originator)

    def _drop_conn(self, dropped: DropConn) -> Ended:
        if self.peer_id == NIL_ID:
            self.peer_id = dropped.sender
        return Ended(dropped.code, dropped.text, by_far_side=True)

    def _originator_syn(self, syn: OriginatorSyn) -> None:
        self.peer_filter = syn.filter
        self._send(encode_responder_syn_ack(self._told()))
        self.state = State.AWAIT_ORIGINATOR_ACK

    def _responder_syn_ack(self, syn_ack: ResponderSynAck) -> None:
        self.peer_filter = syn_ack.filter
        self._send(encode_originator_ack())
        self.state = State.DONE

    def _originator_ack(self, _: OriginatorAck) -> None:
        self.state = State.DONE


_Rule = Callable[[Handshake, Any], PeerKnown | Ended | None]

_PROBE: dict[type[HandshakeMessage], _Rule] = {Probe: Handshake._probe}  # noqa: SLF001 -- the table belongs to the class
_HELLO: dict[type[HandshakeMessage], _Rule] = {Hello: Handshake._hello}  # noqa: SLF001
_SELECT: dict[type[HandshakeMessage], _Rule] = {VersionSelect: Handshake._version_select}  # noqa: SLF001
_DROP: dict[type[HandshakeMessage], _Rule] = {DropConn: Handshake._drop_conn}  # noqa: SLF001
_RULES: dict[State, dict[type[HandshakeMessage], _Rule]] = {
    State.CONNECTOR: _PROBE | _HELLO | _SELECT | _DROP,
    State.ACCEPTOR: _PROBE | _HELLO | _DROP,
    State.AWAIT_VERSION_SELECT: _PROBE | _SELECT | _DROP,
    State.DECIDING: {},
    State.AWAIT_ORIGINATOR_SYN: {OriginatorSyn: Handshake._originator_syn},  # noqa: SLF001
    State.AWAIT_RESPONDER_SYN_ACK: {ResponderSynAck: Handshake._responder_syn_ack},  # noqa: SLF001
    State.AWAIT_ORIGINATOR_ACK: {OriginatorAck: Handshake._originator_ack},  # noqa: SLF001
    State.DONE: {},
}
