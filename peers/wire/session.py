"""`Session`: the rules of a conversation, as a table. No I/O: bytes in, events out.

```
              HELLO  MESSAGES  SUBSCRIBE  UNSUBSCRIBE  NOTICE  PING  PONG  CLOSE  FETCH  RECORDS  STAGE  COMMIT
OPENING        ✓                                                            ✓
WITH_CLIENT              ✓         ✓           ✓               ✓     ✓     ✓     ✓               ✓      ✓
WITH_HUB                 ✓                                 ✓   ✓     ✓     ✓             ✓
WITH_LINK                ✓         ✓           ✓           ✓   ✓     ✓     ✓

              REQUEST  REPLY  SERVE  UNSERVE
WITH_CLIENT      ✓       ✓      ✓       ✓
WITH_HUB         ✓       ✓
WITH_LINK        ✓       ✓      ✓       ✓

              SEGMENT  RELEASED
WITH_CLIENT      ✓         ✓
WITH_HUB         ✓         ✓

              CLAIM  RELEASE  NAMES  RULE  UNRULE
WITH_CLIENT     ✓       ✓             ✓      ✓
WITH_LINK                       ✓     ✓      ✓
```

WITH_CLIENT: this side is the hub; WITH_HUB: this side is a client; WITH_LINK: both sides are hubs. A client's MESSAGES
with CONFIRM are no run but a `Confirmable`; MESSAGES with SHARED are `SharedMessages`, where shared memory was granted.

A missing entry ends the connection with 1002. A shell feeds what it read, acts on each `next_event()` until that is
`NEED_DATA`, then writes `take_outgoing()`. What the session answers by itself (PONG, CLOSE after an error, NOTICE for
refused messages) is in there. A shell that has done enough for one turn of its loop stops asking and goes on later.

Owner of the state: one connection. Invariants: after a `Closing` event nothing more is read.
Not here: who may connect (`peers.tcp`), clocks: handshake and silence limits are kept by `peers.keepalive`.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Generic, NamedTuple, TypeVar

from hub.errors import CloseCode, ProtocolError, RejectedError
from hub.frame import FLAG_CONFIRM, FLAG_SHARED, Frame, encode_frame
from hub.requests.layout import Reply, Request
from hub.stretch import Run, Stretch
from peers.wire.control import (
    PING_LIMIT_BYTES,
    Notice,
    decode_close,
    decode_notice,
    decode_subscription,
    encode_close,
    encode_notice,
)
from peers.wire.hello import Hello
from peers.wire.kinds import IGNORABLE, Kind
from peers.wire.names import NameClaim, NameRelease, NamesHeard, decode_claim, decode_names, decode_release, numbered
from peers.wire.records import (
    Commit,
    Fetch,
    Records,
    Stage,
    decode_commit,
    decode_fetch,
    decode_records,
    decode_stage,
    request_number,
)
from peers.wire.rules import RuleChange, decode_rules
from peers.wire.scanner import NEED_DATA, NeedData, Rejected, RouteTable, Scanner
from peers.wire.shared import Released, Segment, SharedMessages, decode_released, decode_segment, shared_messages

__all__ = [
    "HANDSHAKE_LIMIT_BYTES",
    "NEED_DATA",
    "Closing",
    "Confirmable",
    "Phase",
    "ServiceChange",
    "Session",
    "SubscriptionChange",
]

HANDSHAKE_LIMIT_BYTES = 64 * 1024
"""Default of what is read of a stranger that has not said HELLO, bytes."""

_REJECTED_TEXTS = 16
"""Different refusals told per read; the rest is summed up in the last one."""

_NOT_SHARED = RejectedError(
    CloseCode.NOT_ALLOWED, "SHARED: no shared memory was granted; it needs a Unix socket, and `shared` in HELLO"
)

R = TypeVar("R")


class Phase(Enum):
    """Where a conversation stands."""

    OPENING = "before HELLO"
    WITH_CLIENT = "with a client"
    WITH_HUB = "with a hub"
    WITH_LINK = "with a peer hub"
    CLOSED = "after CLOSE"


_OPENING, _CLOSED = Phase.OPENING, Phase.CLOSED  # asked for every read; looking a member up takes 70 ns


class SubscriptionChange(NamedTuple):
    """The far side subscribes or unsubscribes."""

    subscribe: bool
    prefixes: list[str]
    request: int


class ServiceChange(NamedTuple):
    """The far side serves requests under prefixes, or no longer does."""

    serve: bool
    prefixes: list[str]
    request: int


class Confirmable(NamedTuple):
    """Messages whose publisher wants to know their offset in the journal; CONFIRM is taken off."""

    frame: Frame


class Closing(NamedTuple):
    """The conversation is over: write what is outgoing, then close the transport."""

    code: int
    text: str
    by_far_side: bool


Event = (
    Hello
    | SubscriptionChange
    | ServiceChange
    | RuleChange
    | NameClaim
    | NameRelease
    | NamesHeard
    | Request
    | Reply
    | Notice
    | Confirmable
    | Fetch
    | Records
    | Stage
    | Commit
    | SharedMessages
    | Segment
    | Released
    | Closing
)


class Session(Generic[R]):
    """One side of a conversation.

    Args:
        role: "client" or "hub", of this side.
        routes: Where the messages of the far side are looked up.
        frame_limit_bytes: Largest body taken.
        handshake_limit_bytes: Largest HELLO taken.
    """

    __slots__ = (
        "_frame_limit_bytes",
        "_outgoing",
        "_rejected",
        "_role",
        "_scanner",
        "far",
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
        self.phase = Phase.OPENING
        self.far: Hello | None = None
        self.rejected_messages = 0
        self.shared = False  # whether shared memory was granted
        self._role = role
        self._frame_limit_bytes = frame_limit_bytes
        self._scanner = Scanner(routes, min(handshake_limit_bytes, frame_limit_bytes))
        self._outgoing: list[bytes] = []
        self._rejected: dict[str, Notice] = {}

    @property
    def closed(self) -> bool:
        """Whether one of the sides has said CLOSE."""
        return self.phase is Phase.CLOSED

    @property
    def has_outgoing(self) -> bool:
        """Whether something waits to be written."""
        return bool(self._outgoing or self._rejected)

    def send(self, frame: bytes) -> None:
        """Put a frame into what goes out next."""
        self._outgoing.append(frame)

    def confirm(self, request: int, offset: int | None = None) -> None:
        """Tell the far side that its request was carried out, if it wants to know.

        Args:
            request: Its number, 0 for none.
            offset: Where the journal stood then, if there is one.
        """
        if request:
            self.send(encode_notice(Notice("confirmed", request=request, offset=offset)))

    def reject(self, error: RejectedError, request: int = 0) -> None:
        """Tell the far side that one request of its was refused."""
        self.send(encode_notice(Notice("error", request=request, code=error.code, text=error.text)))

    @property
    def within_frame(self) -> bool:
        """Whether what was read ends within a frame."""
        return self._scanner.held_bytes > 0

    def close(self, code: int, text: str) -> None:
        """End the conversation from this side."""
        if self.phase is not Phase.CLOSED:
            self.phase = Phase.CLOSED
            self._tell_rejected()  # CLOSE is the last frame
            self.send(encode_close(code, text))
            self._scanner.forget()

    def take_outgoing(self) -> bytes:
        """Return and forget what is to be written now."""
        self._tell_rejected()
        if not self._outgoing:
            return b""
        outgoing, self._outgoing = self._outgoing, []
        return b"".join(outgoing)

    def feed(self, data: bytes) -> None:
        """Take what was read; ask `next_event` for what it says."""
        if self.phase is not _CLOSED:
            self._scanner.feed(data)

    def next_event(self) -> Run[R] | Stretch[R] | Event | NeedData | None:
        """Return what the far side says next. Never raises for bad input: that becomes CLOSE and a `Closing` event.

        Behind messages that are the last of what was read, there is `NEED_DATA`: a shell need not ask.

        None stands for something that is dealt with already (PING, refused messages, labels that are new) and has cost
        time: a shell that wants to be fair counts it.
        """
        if self.phase is _CLOSED:
            return NEED_DATA
        try:
            item = self._scanner.next_item()
            if type(item) is Run or type(item) is Stretch:
                if self.phase is _OPENING:
                    raise self._unexpected(Kind.MESSAGES)
                return item
            if isinstance(item, Frame):
                return self._frame(item)
            if isinstance(item, Rejected):
                self._count_rejected(item)
            if item is not NEED_DATA:  # a refusal, or a search for labels
                return None
        except ProtocolError as error:
            self.close(error.code, error.text)
            return Closing(error.code, error.text, by_far_side=False)
        if self._rejected:
            self._tell_rejected()
        return NEED_DATA

    def _frame(self, frame: Frame) -> Event | None:
        kind = _KINDS.get(frame.kind)
        if kind is None:
            if frame.kind & IGNORABLE:
                return None
            raise ProtocolError(CloseCode.PROTOCOL_ERROR, f"unknown kind {frame.kind}")
        rule = _RULES[self.phase].get(kind)
        if rule is None:
            raise self._unexpected(kind)
        return rule(self, frame)

    def _unexpected(self, kind: Kind) -> ProtocolError:
        return ProtocolError(CloseCode.PROTOCOL_ERROR, f"{kind.name} is not expected {self.phase.value}")

    def _count_rejected(self, item: Rejected) -> None:
        if self.phase is Phase.OPENING:
            raise self._unexpected(Kind.MESSAGES)
        self.rejected_messages += item.messages
        self.refuse(item.code, item.text, item.messages)

    def refuse(self, code: int, text: str, count: int) -> None:
        """Tell the far side at the end of this read that something of its was refused, summed up by the reason."""
        if text not in self._rejected and len(self._rejected) >= _REJECTED_TEXTS:
            text = "more was refused, for other reasons"
        before = self._rejected.get(text)
        total = count + (before.count if before is not None else 0)
        self._rejected[text] = Notice("error", count=total, code=code, text=text)

    def _tell_rejected(self) -> None:
        if self._rejected:
            rejected, self._rejected = self._rejected, {}
            if self._role == "hub":  # a hub takes no NOTICE from a client; there the number alone is kept
                self._outgoing.extend(encode_notice(notice) for notice in rejected.values())

    # The rules: what each kind means.

    def _hello(self, frame: Frame) -> Event:
        self.far = Hello.decode(frame.body)
        if self._role == "client":
            if self.far.role != "hub":
                raise ProtocolError(CloseCode.PROTOCOL_ERROR, "a client expects a hub, the far side is a client, too")
            self.phase = Phase.WITH_HUB
        else:
            self.phase = Phase.WITH_LINK if self.far.role == "hub" else Phase.WITH_CLIENT
        self._scanner.frame_limit_bytes = self._frame_limit_bytes
        return self.far

    def _subscription(self, frame: Frame) -> Event | None:
        try:
            request, prefixes = decode_subscription(frame.kind, frame.body)
        except RejectedError as error:
            self.reject(error)
            return None
        return SubscriptionChange(frame.kind == Kind.SUBSCRIBE, prefixes, request)

    def _service(self, frame: Frame) -> Event | None:
        try:
            request, prefixes = decode_subscription(frame.kind, frame.body)
        except RejectedError as error:
            self.reject(error)
            return None
        return ServiceChange(frame.kind == Kind.SERVE, prefixes, request)

    def _claim(self, frame: Frame) -> Event | None:
        try:
            return decode_claim(frame.body) if frame.kind == Kind.CLAIM else decode_release(frame.body)
        except RejectedError as error:
            self.reject(error, numbered(frame.body))
            return None

    def _names(self, frame: Frame) -> Event | None:
        try:
            return decode_names(frame.body)
        except RejectedError as error:
            self.reject(error)
            return None

    def _rule(self, frame: Frame) -> Event | None:
        try:
            return decode_rules(frame.kind, frame.body)
        except RejectedError as error:
            self.reject(error, numbered(frame.body))
            return None

    def _request(self, frame: Frame) -> Event | None:
        return self._decoded(Request.decode, frame)

    def _reply(self, frame: Frame) -> Event | None:
        return self._decoded(Reply.decode, frame)

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
        """Only with SHARED or CONFIRM: all other messages are runs."""
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

    def _released(self, frame: Frame) -> Event:
        return decode_released(frame.body)

    def _fetch(self, frame: Frame) -> Event | None:
        return self._taken(decode_fetch, frame)

    def _stage(self, frame: Frame) -> Event | None:
        return self._taken(decode_stage, frame)

    def _commit(self, frame: Frame) -> Event | None:
        return self._taken(decode_commit, frame)

    def _taken(self, decode: Callable[[bytes], Event], frame: Frame) -> Event | None:
        try:
            return decode(frame.body)
        except RejectedError as error:
            self.reject(error, request_number(_KINDS[frame.kind], frame.body))
            return None

    def _records(self, frame: Frame) -> Event:
        return decode_records(frame.body)

    def _notice(self, frame: Frame) -> Event:
        return decode_notice(frame.body)

    def _ping(self, frame: Frame) -> None:
        if len(frame.body) > PING_LIMIT_BYTES:
            raise ProtocolError(
                CloseCode.TOO_BIG, f"PING of {len(frame.body)} bytes, the limit is {PING_LIMIT_BYTES} bytes"
            )
        self._tell_rejected()  # so that who has its PONG knows what became of all that it sent before
        self.send(encode_frame(Kind.PONG, frame.body))

    def _pong(self, _: Frame) -> None:
        """Any byte counts as a sign of life; a PONG says no more."""

    def _close(self, frame: Frame) -> Event:
        code, text = decode_close(frame.body)
        self.phase = Phase.CLOSED
        self._scanner.forget()
        return Closing(code, text, by_far_side=True)


def _rules(*kinds: Kind) -> dict[Kind, Callable[[Session[Any], Frame], Event | None]]:
    meanings: dict[Kind, Callable[[Session[Any], Frame], Event | None]] = {
        Kind.HELLO: Session._hello,  # noqa: SLF001 -- the table belongs to the class
        Kind.MESSAGES: Session._messages,  # noqa: SLF001
        Kind.FETCH: Session._fetch,  # noqa: SLF001
        Kind.RECORDS: Session._records,  # noqa: SLF001
        Kind.STAGE: Session._stage,  # noqa: SLF001
        Kind.COMMIT: Session._commit,  # noqa: SLF001
        Kind.SUBSCRIBE: Session._subscription,  # noqa: SLF001
        Kind.UNSUBSCRIBE: Session._subscription,  # noqa: SLF001
        Kind.NOTICE: Session._notice,  # noqa: SLF001
        Kind.PING: Session._ping,  # noqa: SLF001
        Kind.PONG: Session._pong,  # noqa: SLF001
        Kind.CLOSE: Session._close,  # noqa: SLF001
        Kind.REQUEST: Session._request,  # noqa: SLF001
        Kind.REPLY: Session._reply,  # noqa: SLF001
        Kind.SERVE: Session._service,  # noqa: SLF001
        Kind.UNSERVE: Session._service,  # noqa: SLF001
        Kind.CLAIM: Session._claim,  # noqa: SLF001
        Kind.RELEASE: Session._claim,  # noqa: SLF001
        Kind.NAMES: Session._names,  # noqa: SLF001
        Kind.RULE: Session._rule,  # noqa: SLF001
        Kind.UNRULE: Session._rule,  # noqa: SLF001
        Kind.SEGMENT: Session._segment,  # noqa: SLF001
        Kind.RELEASED: Session._released,  # noqa: SLF001
    }
    return {kind: meanings[kind] for kind in kinds}


_KINDS = {int(kind): kind for kind in Kind}
_ALIVE = (Kind.PING, Kind.PONG, Kind.CLOSE)
_SHARED = (Kind.SEGMENT, Kind.RELEASED)
_SERVICES = (Kind.REQUEST, Kind.REPLY, Kind.SERVE, Kind.UNSERVE)
_RULES: dict[Phase, dict[Kind, Callable[[Session[Any], Frame], Event | None]]] = {
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
        *_SERVICES,
        *_SHARED,
        *_ALIVE,
    ),
    Phase.WITH_HUB: _rules(Kind.NOTICE, Kind.RECORDS, Kind.REQUEST, Kind.REPLY, *_SHARED, *_ALIVE)
    | {Kind.MESSAGES: Session._messages_from_hub},  # noqa: SLF001
    Phase.WITH_LINK: _rules(
        Kind.SUBSCRIBE, Kind.UNSUBSCRIBE, Kind.NOTICE, Kind.NAMES, Kind.RULE, Kind.UNRULE, *_SERVICES, *_ALIVE
    ),
    Phase.CLOSED: {},
}
