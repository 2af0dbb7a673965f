"""Dialogues: they carry out what a client's messages ask of the hub, once the WebSocket is open.

```
path            codec                        dialogue
/v1/hub         hub.v1.json, hub.v1.msgpack   HubDialogue (here)
another path    its own                       one of the same shape, such as that of `peers.websocket.zeek`
```

Owner: one `peers.connections.websocket.WebSocketConversation`, which makes it when it has accepted the handshake and
brings it every message of the client. All of it is synchronous. Invariant: a client becomes a handler with its first
message. Before that it can receive nothing; and as `hello` comes first, its name is known when it is announced.

Not here: frames (`peers.websocket.session`), the socket and its ends (`peers.connections.websocket`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, Protocol

import msgspec
from msgspec import UNSET
from websockets.frames import Opcode

from hub.batch import value_ends
from hub.errors import RejectedError
from hub.frame import BATCH_COUNT, BROKER_FLAGS, FLAG_BATCH, HEADER, HEADER_BYTES, KIND_MESSAGES, Frame
from hub.handler import Handler
from hub.names.claim import Change
from hub.outlet import Poster as HandlerPoster
from hub.overflow import QueueLimits
from hub.request_frame import FLAG_NAMED, TRANSACTIONS, Item, Reply, Request, Status, failure
from peers.node.node import Node
from peers.values.conversion import CONVERTED_LIMIT_BYTES, json_of, json_of_broker, msgpack_of_broker
from peers.values.msgpack import array_header
from peers.verbs.verbs import Verbs
from peers.websocket.framing import encode_message
from peers.websocket.messages import (
    ClientMessage,
    Confirmed,
    Error,
    Hello,
    NameStanding,
    Ping,
    Recorded,
    RefusedError,
    Welcome,
)
from peers.websocket.session import Session
from peers.wire.control import decode_notice
from peers.wire.hello import grant
from peers.wire.kinds import Kind
from peers.wire.reasons import reason_of
from peers.wire.token import Renewal

__all__ = [
    "Carrier",
    "Dialogue",
    "HubDialogue",
    "Poster",
    "Shell",
    "WebSocketFarSide",
    "json_item",
    "msgpack_item",
    "singly",
]


_TOKEN_EVENTS = 10
"""What a fresh token costs of a turn's share, beyond reading it: a signature may have to be checked, 100 µs."""


class Carrier(Protocol):
    """The connection, as far as a conversation needs it."""

    @property
    def proof_left_s(self) -> float:
        """How many seconds are left before what the client has shown for who it is ends; inf for never."""

    @property
    def user(self) -> str:
        """Who the client is; empty before that is known, and where nobody is asked."""

    def let_in(self, token: str) -> bool:
        """Return whether the client may come in, by this token or what it has shown before; else it is turned away."""

    def renew(self, token: str) -> None:
        """Take a fresh token; raises `RejectedError` if it is not known, or another user's."""

    def join(self, name: str, limits: QueueLimits, poster: HandlerPoster | None = None) -> Handler:
        """Make the client a handler of the core, with that name and queue; a poster lets it send requests and serve."""

    def write(self, frames: list[bytes]) -> None:
        """Write ready frames, after what the session has to say."""

    def owe(self) -> None:
        """Take note that the client is owed answers: nothing is read from it while it does not read."""

    def write_later(self) -> None:
        """Write soon what the session has to say, as it was given an answer outside of a read."""

    def when_writable(self, act: Callable[[], None]) -> None:
        """Call `act` whenever the client reads again."""

    def when_gone(self, act: Callable[[], None]) -> None:
        """Call `act` when nobody is there to be answered any more."""

    def end(self, code: int, text: str) -> None:
        """Close the connection, with a code and a text that says why."""


class Dialogue(Protocol):
    """What differs, apart from the codec, between the protocols that are spoken over a WebSocket."""

    def begin(self) -> None:
        """Begin, as the handshake is over."""

    def act(self, message: ClientMessage) -> int:
        """Do what the client asks for, and answer it; return how much work that was, beyond reading it."""

    def end(self, code: int, text: str) -> tuple[int, str]:
        """Translate the code and the text with which the hub ends the connection into those of the Close."""


class HubDialogue:
    """The dialogue in the hub's own protocol.

    Args:
        node: The hub.
        session: The session by which the client is answered.
        queue: The queue of the client if it has no wish.
        carrier: The connection.
    """

    __slots__ = ("_carrier", "_node", "_queue", "_session", "_verbs")

    _verbs: Verbs | None
    """None until the first message of the client, which makes it a handler."""

    def __init__(self, node: Node, session: Session, queue: QueueLimits, carrier: Carrier) -> None:
        self._node = node
        self._session = session
        self._queue = queue
        self._carrier = carrier
        self._verbs = None

    def begin(self) -> None:
        """Welcome the client."""
        self._welcome(self._queue)

    def act(self, message: ClientMessage) -> int:
        """Do what the client asks for."""
        match message:
            case Hello():
                self._greet(message)
            case Ping():
                pass  # the session has answered it
            case Renewal():
                self._renew(message)
                return _TOKEN_EVENTS
            case _:
                verbs = self._verbs
                if verbs is None:
                    if not self._carrier.let_in(""):
                        return 0
                    verbs = self._take_in("", self._queue)
                return verbs.act(message)
        return 0

    def end(self, code: int, text: str) -> tuple[int, str]:
        """Return both as they are: this protocol has the hub's own codes."""
        return code, text

    def _greet(self, hello: Hello) -> None:
        """Take the name and the wish of the client, and welcome it again with what it is granted."""
        if not self._carrier.let_in(hello.token):
            return
        most = self._node.settings.queue_max
        limits = grant(hello.queue, self._queue, most.messages, most.bytes)
        self._take_in(hello.name, limits, narrow=hello.narrow)
        self._welcome(limits)

    def _renew(self, renewal: Renewal) -> None:
        """Take a fresh token of a client that was let in."""
        if self._verbs is None and not self._carrier.let_in(""):
            return
        try:
            self._carrier.renew(renewal.token)
        except RejectedError as error:
            self._session.reject(RefusedError(error.code, error.text, renewal.request))
            return
        if renewal.request:
            left_s = self._carrier.proof_left_s
            self._session.send(Confirmed(renewal.request, until=None if left_s == math.inf else max(0.0, left_s)))

    def _take_in(self, name: str, limits: QueueLimits, *, narrow: bool = False) -> Verbs:
        """Make the client a handler, as it asks for something or has said its name."""
        node = self._node
        poster = Poster(node, self._session, self._carrier)
        handler = poster.handler = self._carrier.join(name, limits, poster)
        handler.narrows = narrow
        far = WebSocketFarSide(self._session, self._carrier, node.settings.limits.frame_bytes)
        verbs = self._verbs = Verbs(node, handler, far)
        far.act = verbs.act
        self._carrier.when_writable(verbs.write_more)
        self._carrier.when_gone(partial(_let_go, verbs, far))
        return verbs

    def _welcome(self, limits: QueueLimits) -> None:
        node = self._node
        frame_bytes = node.settings.limits.frame_bytes
        journal = node.journal.id.hex() or UNSET
        left_s = self._carrier.proof_left_s
        welcome = Welcome(
            node.id.hex(),
            node.name,
            limits,
            frame_bytes,
            journal=journal,
            until=UNSET if left_s == math.inf else max(0.0, left_s),
            user=self._carrier.user or UNSET,
            strangers=node.access.anonymous or UNSET,
        )
        self._session.send(welcome)


def _let_go(verbs: Verbs, far: WebSocketFarSide) -> None:
    """The client has gone: nothing more is done for it, and what knows each other lets go."""
    verbs.close()
    far.act = _ignore


def _ignore(_: object) -> None:
    """Stand in for the verbs of a client that has gone."""


# Requests and replies of the hub's own, as `request` and `reply` messages to one WebSocket client.


_FORMLESS = "a value has no JSON form, or is too large for one"
"""The reason that is told where a value cannot be converted."""

_SINGLY_LIMIT = 4096
"""Most values of one frame that are converted one by one when they cannot be at once: 3 µs each, 12 ms."""

_json = msgspec.json.Encoder().encode
_pack = msgspec.msgpack.Encoder().encode


def json_item(item: Item) -> bytes | None:
    """Return the message for `hub.v1.json`, None if a value has no form in it."""
    head = _head(item)
    if isinstance(item, Reply) and item.status:
        return _json(head)
    values = _converted(item, json_of, json_of_broker)
    if values is None:
        return None
    name = b'"values"' if item.flags & FLAG_BATCH else b'"value"'
    return b"%b,%b:%b}" % (_json(head)[:-1], name, values)


def msgpack_item(item: Item) -> bytes | None:
    """Return the message for `hub.v1.msgpack`, None if a value has no form in it."""
    head = _head(item)
    if isinstance(item, Reply) and item.status:
        return _pack(head)
    values = _converted(item, _itself, msgpack_of_broker)
    if values is None:
        return None
    packed = _pack(head)
    name = _pack("values") if item.flags & FLAG_BATCH else _pack("value")
    return b"%c%b%b%b" % (packed[0] + 1, packed[1:], name, values)  # a map with one entry more


def singly(item: Item) -> Iterator[Item]:
    """Cut a batch into its values. Nothing is yielded if they cannot be told apart, or if there are too many."""
    if not item.flags & FLAG_BATCH or len(item.values) > CONVERTED_LIMIT_BYTES or item.requests > _SINGLY_LIMIT:
        return
    ends = value_ends(Frame(KIND_MESSAGES, FLAG_BATCH, b"", item.values))
    start, first = BATCH_COUNT.size, item.first
    for end in ends or ():
        value = item.values[start:end]
        yield item._replace(first=first, values=value, flags=item.flags & ~FLAG_BATCH)
        start, first = end, (first + 1) % TRANSACTIONS


def _head(item: Item) -> dict[str, Any]:
    """Return what stands before the values: fewer than 15 fields, so that one more fits behind."""
    if isinstance(item, Request):
        target = "service" if item.flags & FLAG_NAMED else "topic"
        where = item.target.decode("utf-8", "replace")
        return {"type": "request", "request": item.first, target: where, "timeout_ms": item.timeout_ms}
    if not item.status:
        return {"type": "reply", "request": item.first}
    reason = {"status": int(item.status), "text": reason_of(item), "count": item.requests}
    return {"type": "reply", "request": item.first} | reason


def _converted(
    item: Item, convert: Callable[[bytes], bytes | None], convert_broker: Callable[[bytes], bytes | None]
) -> bytes | None:
    """Return a value, or the list of several, in another form."""
    flags = item.flags & ~FLAG_NAMED if isinstance(item, Request) else item.flags
    if flags == FLAG_BATCH:
        return convert(array_header(item.requests) + item.values[BATCH_COUNT.size :])
    if flags == BROKER_FLAGS:
        return convert_broker(item.values)
    return None if flags else convert(item.values)


def _itself(values: bytes) -> bytes:
    return values


class Writer(Protocol):
    """A connection, as far as a poster needs it."""

    def write(self, frames: list[bytes]) -> None:
        """Write ready frames, after what the session has to say."""


class Poster:
    """Posts requests and replies to one client, see `hub.outlet.Poster`.

    Args:
        node: The hub.
        session: The session of the client, which knows its encoding.
        writer: The connection of the client.
    """

    __slots__ = ("_node", "_session", "_writer", "handler")

    handler: Handler | None
    """The handler of the client; None until it is made, directly after the poster. Requests that cannot be converted
    are answered in its name."""

    def __init__(self, node: Node, session: Session, writer: Writer) -> None:
        self._node = node
        self._session = session
        self._writer = writer
        self.handler = None

    def post(self, items: list[Item]) -> None:
        """Write requests and replies."""
        frames: list[bytes] = []
        for item in items:
            self._put(item, frames)
        if frames:
            self._writer.write(frames)

    def _put(self, item: Item, frames: list[bytes]) -> None:
        opcode = self._session.codec.opcode
        message = json_item(item) if opcode is Opcode.TEXT else msgpack_item(item)
        if message is not None:
            frames.append(encode_message(opcode, message))
            return
        pieces = list(singly(item))
        for piece in pieces:
            self._put(piece, frames)
        if not pieces:
            self._lose(item, frames)

    def _lose(self, item: Item, frames: list[bytes]) -> None:
        """Answer a request that cannot be converted, or turn such a reply into a failure."""
        failed = failure(item.first, item.requests, Status.FAILED, _FORMLESS)
        if isinstance(item, Reply):
            self._put(failed, frames)
        elif self.handler is not None:
            self._node.core.requests.answer(self.handler, failed)


# What the hub answers, as messages of `hub.v1.json` and `hub.v1.msgpack`.


_ENVELOPE_BYTES: Final = 64 * 1024
"""How much an answer may have around its largest value."""


class Shell(Protocol):
    """A connection, as far as a far side needs it."""

    def write_later(self) -> None:
        """Write what the session has to say, in this turn."""

    def owe(self) -> None:
        """Take note that the client is owed answers: nothing is read from it while it does not read."""


class WebSocketFarSide:
    """A WebSocket client as the verbs see it, see `peers.verbs.far_side.FarSide`.

    Args:
        session: The session by which the client is answered.
        shell: The connection of the client.
        frame_limit_bytes: Largest body that the hub takes; the client's answers may be as large.
    """

    __slots__ = ("_session", "act", "expect_answers", "frame_limit_bytes", "write_later")

    act: Callable[[Any], object]
    """The verbs' `act`, by which the rest of a change is done; set as soon as the verbs are made."""

    def __init__(self, session: Session, shell: Shell, frame_limit_bytes: int) -> None:
        self._session = session
        self.frame_limit_bytes = frame_limit_bytes + _ENVELOPE_BYTES
        self.write_later = shell.write_later
        self.expect_answers = shell.owe

    def confirm(
        self,
        request: int,
        offset: int | None = None,
        *,
        text: str = "",
        messages: int = 0,  # noqa: ARG002 -- only COMMIT has it, which does not exist over WebSockets
        again: bool = False,  # noqa: ARG002 -- the same
    ) -> None:
        """Send `confirmed`, if the client wants to know."""
        if request:
            self._session.send(Confirmed(request, offset, text))

    def reject(self, error: RejectedError, request: int = 0) -> None:
        """Send `error`."""
        self._session.send(Error(error.code, error.text, request))

    def refuse(self, error: RejectedError, count: int, request: int = 0) -> None:  # noqa: ARG002 -- one for each
        """Send `error`."""
        self.reject(error, request)

    def put_off(self, rest: object) -> None:
        """Do the rest at once: a change of as much as a client may have is about its share of a turn."""
        self.act(rest)

    def recorded(self, request: int, offset: int, messages: int) -> None:
        """Send `recorded`."""
        self._session.send(Recorded(request, offset, messages))

    def unrecorded(self, error: RejectedError, request: int, messages: int) -> None:  # noqa: ARG002 -- the number tells
        """Send `error`."""
        self.reject(error, request)

    def send_records(self, answer: bytes | bytearray, request: int) -> None:
        """Send `records`, which is the body of the answer; or `error`, if the answer is a notice."""
        _, kind, _, _ = HEADER.unpack_from(answer)
        body = memoryview(answer)[HEADER_BYTES:]
        if kind == Kind.RECORDS:
            self._session.send_ready(body)
            return
        notice = decode_notice(bytes(body))
        self._session.send(Error(notice.code, notice.text, request, notice.offset))

    def tell_name(self, change: Change) -> None:
        """Send `name`."""
        self._session.send(NameStanding(change.name, change.standing.value, change.text))
