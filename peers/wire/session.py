"""`Session`: one side of a connection. It takes bytes and returns events, without I/O.

`_RULES` has the kinds of frames of each phase. In WITH_CLIENT this side is the hub, in WITH_HUB a client, in WITH_LINK
both sides are hubs, which speak the mesh. Another kind ends the connection with 1002, except for kinds that
may be ignored (`IGNORABLE`). A client's MESSAGES with CONFIRM do not join a run but are a `Confirmable`. MESSAGES with
SHARED are `SharedMessages`, if shared memory was granted. A client expects ORIGIN where both sides have said `origins`.

A connection feeds the bytes of each read, acts on each `next_event()` until that is `NEED_DATA`, and then writes
`take_outgoing()`, which holds the session's own answers, too: PONG, CLOSE after an error, NOTICE for rejected messages.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Generic, TypeVar

from hub.errors import CloseCode, ProtocolError, RejectedError
from hub.messages.frame import FLAG_CONFIRM, FLAG_SHARED, Frame, encode_frame
from hub.messages.request_frame import Reply, Request
from hub.messages.stretch import Run, Stretch
from peers.wire.control import (
    LINK_ID_BYTES,
    PING_LIMIT_BYTES,
    Account,
    Notice,
    decode_account,
    decode_claim,
    decode_close,
    decode_notice,
    decode_origin,
    decode_release,
    decode_rules,
    decode_subscription,
    decode_token,
    encode_close,
    encode_notice,
    numbered,
)
from peers.wire.events import Closing, Confirmable, Event, Pong, ServiceChange, SubscriptionChange
from peers.wire.hello import MESH_VERSION, OLDEST, Hello
from peers.wire.kinds import IGNORABLE, Kind
from peers.wire.records import decode_commit, decode_fetch, decode_records, decode_stage, request_number
from peers.wire.routing import decode_routing
from peers.wire.scanner import NEED_DATA, NeedData, Rejected, RouteTable, Scanner
from peers.wire.shared import decode_released, decode_segment, shared_messages


def _subscription(frame: Frame) -> Event:
    request, prefixes = decode_subscription(frame.kind, frame.body)
    return SubscriptionChange(frame.kind == Kind.SUBSCRIBE, prefixes, request)


def _service(frame: Frame) -> Event:
    request, prefixes = decode_subscription(frame.kind, frame.body)
    return ServiceChange(frame.kind == Kind.SERVE, prefixes, request)


HANDSHAKE_LIMIT_BYTES = 64 * 1024  # default of the largest frame before HELLO, bytes

_REJECTED_TEXTS = 16  # most different NOTICEs for rejected messages in one read; the others share one more

_NOT_SHARED = RejectedError(
    CloseCode.NOT_ALLOWED, "SHARED: no shared memory was granted; it needs a Unix socket, and `shared` in HELLO"
)

R = TypeVar("R")


class Phase(Enum):
    """The state of a session."""

    OPENING = "before HELLO"
    WITH_CLIENT = "with a client"
    WITH_HUB = "with a hub"
    WITH_LINK = "with a peer hub"
    CLOSED = "after CLOSE"


_OPENING, _CLOSED = Phase.OPENING, Phase.CLOSED  # every read needs them, and looking a member up takes 70 ns


class Session(Generic[R]):
    """One side of a connection.

    Args:
        role: The role of this side, "client" or "hub".
        routes: The table in which routes are looked up.
        frame_limit_bytes: Largest body.
        handshake_limit_bytes: Largest HELLO.
    """

    __slots__ = (
        "_awaits_last_word",
        "_frame_limit_bytes",
        "_is_held",
        "_outgoing",
        "_rejected",
        "_rest",
        "_role",
        "_scanner",
        "far",
        "feed",
        "has_heard",
        "has_more",
        "has_outgoing",
        "origins",
        "phase",
        "rejected_messages",
        "shared",
    )

    def __init__(
        self,
        role: str,
        routes: RouteTable[R],
        frame_limit_bytes: int,
        handshake_limit_bytes: int = HANDSHAKE_LIMIT_BYTES,
    ) -> None:
        self.phase = Phase.OPENING  # HELLO of the far side ends OPENING; CLOSE of either side leads to CLOSED, for good
        self.far: Hello | None = None  # the HELLO of the far side, without its token; None before it has arrived
        self.rejected_messages = 0  # how many messages of the far side were refused by this session
        self.shared = False  # shared memory was granted; set once, with this side's HELLO
        self.origins = False  # whether this side has said `origins` in its HELLO; a client sets it once, with that
        self._role = role
        self._awaits_last_word = False  # true on a link between this hub's CLOSE and that of the peer hub
        self._is_held = False  # true from `hold` to `release`: no event is returned meanwhile
        self.has_heard = False  # a frame behind HELLO has come, not in a run
        self._frame_limit_bytes = frame_limit_bytes
        self._scanner = Scanner(routes, min(handshake_limit_bytes, frame_limit_bytes))
        self.feed: Callable[[bytes], None] = self._scanner.feed  # a no-op once it is closed
        self.has_more = False  # whether bytes are left after the last event; if not, the next event is `NEED_DATA`
        self._outgoing: list[bytes] = []  # frames that wait for `take_outgoing`, which empties it
        self.has_outgoing = False  # a plain attribute, as each read and each write looks at it
        self._rejected: dict[str, Notice] | None = None  # the refusals of this read by their text, until they are sent
        self._rest: Event | None = None  # the event that was put back, until `next_event` returns it

    @property
    def closed(self) -> bool:
        return self.phase is Phase.CLOSED

    def send(self, frame: bytes) -> None:
        self._outgoing.append(frame)
        self.has_outgoing = True

    def tell(self, notice: Notice) -> None:
        if self.phase is not _CLOSED:
            self.send(encode_notice(notice))

    def reject(self, error: RejectedError, request: int = 0) -> None:
        self.tell(Notice("error", request=request, code=error.code, text=error.text))

    @property
    def held_bytes(self) -> int:
        """Bytes that were read and not processed yet, an incomplete frame included."""
        return self._scanner.waiting_bytes

    @property
    def unfinished(self) -> int:
        return 0

    def close(self, code: int, text: str) -> None:
        if self.phase is not Phase.CLOSED:
            self._awaits_last_word = self.phase is Phase.WITH_LINK
            self.phase = Phase.CLOSED
            self._tell_rejected()  # CLOSE is the last frame
            self.send(encode_close(code, text))
            self._rest = None
            if not self._awaits_last_word:
                self._forget()

    def _forget(self) -> None:
        """Discard all bytes that were read and not processed, and all that follow."""
        self._awaits_last_word = False
        self._scanner.forget()
        self.feed = _throw_away
        self._rest = None

    def put_back(self, rest: Any) -> None:
        """Have `next_event` return `rest` first, as the last event was too much work for one turn of the loop."""
        if self.phase is not _CLOSED:
            self._rest = rest
            self.has_more = True

    def take_outgoing(self) -> bytes:
        self._tell_rejected()
        self.has_outgoing = False
        outgoing, self._outgoing = self._outgoing, []
        return b"".join(outgoing)

    def hold(self) -> None:
        self._is_held = True

    def release(self) -> None:
        self._is_held = False

    def next_event(self) -> Run[R] | Stretch[R] | Event | NeedData | None:
        """Return the next event. Bad input raises nothing: it leads to CLOSE and a `Closing` event.

        None stands for a frame that the session has handled itself, such as PING. It took time, too, so a connection
        counts it as part of its turn.
        """
        if self._rest is not None or self.phase is _CLOSED or self._is_held:
            return self._last_word() if self._awaits_last_word else self._take_rest()
        scanner = self._scanner
        try:
            item = scanner.next_item()
            self.has_more = scanner.has_more
            if type(item) is Run or type(item) is Stretch:
                if self.phase is _OPENING:
                    raise self._unexpected(Kind.MESSAGES)
                return item
            if isinstance(item, Frame):
                return self._frame(item)
            if isinstance(item, Rejected):
                self._count_rejected(item)
            if item is not NEED_DATA:  # it is a refusal, or a search for labels
                return None
        except ProtocolError as error:
            self.close(error.code, error.text)
            return Closing(error.code, error.text, by_far_side=False)
        if self._rejected:
            self._tell_rejected()
        return NEED_DATA

    def _take_rest(self) -> Event | NeedData:
        rest, self._rest = self._rest, None
        self.has_more = self._scanner.has_more
        return NEED_DATA if rest is None else rest

    def _last_word(self) -> Account | NeedData:
        """Return the ACCOUNT that a peer hub sends before its own CLOSE, which has crossed this side's.

        Everything else is discarded: the peer knows from the CLOSE that it was not read.
        """
        try:
            while (item := self._scanner.next_item()) is not NEED_DATA:
                if not isinstance(item, Frame):
                    continue
                if item.kind == Kind.ACCOUNT:
                    self.has_more = self._scanner.has_more
                    return decode_account(item.body)
                if item.kind == Kind.CLOSE:
                    self._forget()
                    break
        except ProtocolError:
            self._forget()
        self.has_more = False
        return NEED_DATA

    def _frame(self, frame: Frame) -> Event | None:
        kind = _KINDS.get(frame.kind)
        if kind is None:
            if frame.kind & IGNORABLE:
                return None
            raise ProtocolError(CloseCode.PROTOCOL_ERROR, f"unknown kind {frame.kind}")
        rule = _RULES[self.phase].get(kind)
        if rule is None:
            if kind & IGNORABLE:
                return None
            raise self._unexpected(kind)
        self.has_heard = self.phase is not _OPENING
        return rule(self, frame)

    def _unexpected(self, kind: Kind) -> ProtocolError:
        return ProtocolError(CloseCode.PROTOCOL_ERROR, f"{kind.name} is not expected {self.phase.value}")

    def _count_rejected(self, item: Rejected) -> None:
        if self.phase is Phase.OPENING:
            raise self._unexpected(Kind.MESSAGES)
        self.rejected_messages += item.messages
        self.refuse(item.code, item.text, item.messages)

    def refuse(self, code: int, text: str, count: int) -> None:
        """Count a refusal; a NOTICE for each reason is sent at the end of this read."""
        rejected = self._rejected = self._rejected or {}
        if text not in rejected and len(rejected) >= _REJECTED_TEXTS:
            text = "more was rejected, for other reasons"
        self.has_outgoing = True
        before = rejected.get(text)
        total = count + (before.count if before is not None else 0)
        rejected[text] = Notice("error", count=total, code=code, text=text)

    def _tell_rejected(self) -> None:
        if self._rejected:
            rejected, self._rejected = self._rejected, None
            if self._role == "hub":  # a client cannot tell a hub, which takes no NOTICE from clients
                self._outgoing.extend(encode_notice(notice) for notice in rejected.values())

    # The kinds of frames that depend on the state of the session.

    def _hello(self, frame: Frame) -> Event:
        hello = Hello.decode(frame.body)
        self.far = hello.without_token()
        if self._role == "client":
            if self.far.role != "hub":
                raise ProtocolError(CloseCode.PROTOCOL_ERROR, "a client expects a hub, the other side is a client, too")
            self.phase = Phase.WITH_HUB
        elif self.far.role == "hub":
            _check_link(self.far)
            self.phase = Phase.WITH_LINK
        else:
            self.phase = Phase.WITH_CLIENT
        self._scanner.frame_limit_bytes = self._frame_limit_bytes
        return hello

    def _decoded(self, decode: Callable[[Frame], Event], frame: Frame) -> Event | None:
        try:
            if frame.flags & FLAG_SHARED and not self.shared:
                raise _NOT_SHARED
            return decode(frame)
        except RejectedError as error:
            if self._role == "hub" and not (frame.flags & FLAG_SHARED and self.shared):
                self.reject(error)
                return None
            raise ProtocolError(error.code, error.text) from error

    def _messages(self, frame: Frame) -> Event | None:
        if frame.flags & FLAG_SHARED:
            if self.shared:
                return shared_messages(frame)
            self._count_rejected(Rejected(_NOT_SHARED.code, _NOT_SHARED.text, 1))
            return None
        return Confirmable(frame._replace(flags=frame.flags & ~FLAG_CONFIRM))

    def _messages_from_hub(self, frame: Frame) -> Event:
        if not (frame.flags & FLAG_SHARED and self.shared):
            raise self._unexpected(Kind.MESSAGES)
        return shared_messages(frame)

    def _segment(self, frame: Frame) -> Event:
        if not self.shared:
            raise ProtocolError(_NOT_SHARED.code, _NOT_SHARED.text)
        return decode_segment(frame.body)

    def _ping(self, frame: Frame) -> None:
        if len(frame.body) > PING_LIMIT_BYTES:
            raise ProtocolError(
                CloseCode.TOO_BIG, f"PING of {len(frame.body)} bytes, the limit is {PING_LIMIT_BYTES} bytes"
            )
        self._tell_rejected()  # before PONG, so that the far side knows the fate of all that it had sent
        self.send(encode_frame(Kind.PONG, frame.body))

    def _origin_from_hub(self, frame: Frame) -> Event:
        if not (self.origins and self.far is not None and self.far.origins):
            raise self._unexpected(Kind.ORIGIN)
        return decode_origin(frame.body)

    def _close(self, frame: Frame) -> Event:
        code, text = decode_close(frame.body)
        self.phase = Phase.CLOSED
        self._forget()
        return Closing(code, text, by_far_side=True)


def _check_link(hello: Hello) -> None:
    if hello.mesh < OLDEST:
        text = f"HELLO: version {hello.mesh} of the mesh, this side speaks {OLDEST} to {MESH_VERSION}"
        raise ProtocolError(CloseCode.PROTOCOL_ERROR, text)
    if len(hello.link) != LINK_ID_BYTES:
        raise ProtocolError(CloseCode.PROTOCOL_ERROR, f"HELLO: the id of a link has {LINK_ID_BYTES} bytes")


def _throw_away(_: bytes) -> None:
    """Take the place of the scanner in a closed session."""


_Rule = Callable[[Session[Any], Frame], Event | None]


def _body(decode: Callable[[bytes], Event]) -> _Rule:
    """Return a rule for bodies of which a malformed one ends the connection."""
    return lambda _, frame: decode(frame.body)


def _request(decode: Callable[[Frame], Event], number: Callable[[Frame], int] = lambda _: 0) -> _Rule:
    """Return a rule that answers a malformed body with an error and the number of its request."""

    def rule(session: Session[Any], frame: Frame) -> Event | None:
        try:
            return decode(frame)
        except RejectedError as error:
            session.reject(error, number(frame))
            return None

    return rule


def _numbered(decode: Callable[[bytes], Event]) -> _Rule:
    return _request(lambda frame: decode(frame.body), lambda frame: numbered(frame.body))


def _of_journal(decode: Callable[[bytes], Event]) -> _Rule:
    return _request(lambda frame: decode(frame.body), lambda frame: request_number(Kind(frame.kind), frame.body))


_rule = _request(lambda frame: decode_rules(frame.kind, frame.body), lambda frame: numbered(frame.body))

_MEANINGS: dict[Kind, _Rule] = {
    Kind.SUBSCRIBE: _request(_subscription),
    Kind.UNSUBSCRIBE: _request(_subscription),
    Kind.SERVE: _request(_service),
    Kind.UNSERVE: _request(_service),
    Kind.RULE: _rule,
    Kind.UNRULE: _rule,
    Kind.CLAIM: _numbered(decode_claim),
    Kind.RELEASE: _numbered(decode_release),
    Kind.TOKEN: _numbered(decode_token),
    Kind.FETCH: _of_journal(decode_fetch),
    Kind.STAGE: _of_journal(decode_stage),
    Kind.COMMIT: _of_journal(decode_commit),
    Kind.ROUTING: _request(lambda frame: decode_routing(frame.body)),
    Kind.RECORDS: _body(decode_records),
    Kind.ORIGIN: _body(decode_origin),
    Kind.NOTICE: _body(decode_notice),
    Kind.RELEASED: _body(decode_released),
    Kind.ACCOUNT: _body(decode_account),
    Kind.HELLO: Session._hello,  # noqa: SLF001 -- the table belongs to the class
    Kind.MESSAGES: Session._messages,  # noqa: SLF001
    Kind.PING: Session._ping,  # noqa: SLF001
    Kind.PONG: lambda _, __: None,  # any bytes show that the far side is alive
    Kind.CLOSE: Session._close,  # noqa: SLF001
    Kind.REQUEST: lambda session, frame: session._decoded(Request.decode, frame),  # noqa: SLF001
    Kind.REPLY: lambda session, frame: session._decoded(Reply.decode, frame),  # noqa: SLF001
    Kind.SEGMENT: Session._segment,  # noqa: SLF001
}


def _rules(*kinds: Kind) -> dict[Kind, _Rule]:
    return {kind: _MEANINGS[kind] for kind in kinds}


_KINDS = {int(kind): kind for kind in Kind}
_ALIVE = (Kind.PING, Kind.PONG, Kind.CLOSE)
_SHARED = (Kind.SEGMENT, Kind.RELEASED)
_SERVICES = (Kind.REQUEST, Kind.REPLY, Kind.SERVE, Kind.UNSERVE)
_RULES: dict[Phase, dict[Kind, _Rule]] = {
    Phase.OPENING: _rules(Kind.HELLO, Kind.CLOSE),
    Phase.WITH_CLIENT: _rules(
        Kind.SUBSCRIBE,
        Kind.UNSUBSCRIBE,
        Kind.MESSAGES,
        Kind.FETCH,
        Kind.STAGE,
        Kind.COMMIT,
        Kind.CLAIM,
        Kind.RELEASE,
        Kind.RULE,
        Kind.UNRULE,
        Kind.TOKEN,
        *_SERVICES,
        *_SHARED,
        *_ALIVE,
    ),
    Phase.WITH_HUB: _rules(Kind.NOTICE, Kind.RECORDS, Kind.REQUEST, Kind.REPLY, *_SHARED, *_ALIVE)
    | {Kind.MESSAGES: Session._messages_from_hub, Kind.ORIGIN: Session._origin_from_hub},  # noqa: SLF001
    Phase.WITH_LINK: _rules(
        Kind.NOTICE, Kind.TOKEN, Kind.ACCOUNT, Kind.ORIGIN, Kind.ROUTING, Kind.REQUEST, Kind.REPLY, *_ALIVE
    )
    | {Kind.PONG: lambda _, frame: Pong(frame.body)},
    Phase.CLOSED: {},
}
