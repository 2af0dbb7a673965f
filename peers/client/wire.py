"""`WireConversation`: a client's side of the hub's own protocol (`peers.wire.session`), for TCP and Unix. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

from hub.messages.frame import Origin, encode_frame
from hub.messages.request_frame import Reply, Request
from hub.messages.stretch import Run, Stretch
from peers.client.conversation import Event, Introduction, Unreadable, Verb
from peers.client.routes import LocalRoutes, Route
from peers.wire.control import (
    NameClaim,
    NameRelease,
    Renewal,
    RuleChange,
    encode_claim,
    encode_release,
    encode_rules,
    encode_subscription,
    encode_token,
)
from peers.wire.events import Closing, ServiceChange, SubscriptionChange
from peers.wire.hello import FRAME_LIMIT_BYTES, PROTOCOL, Hello
from peers.wire.kinds import Kind
from peers.wire.records import Commit, Fetch, Stage, encode_commit, encode_fetch, encode_stage
from peers.wire.scanner import NEED_DATA
from peers.wire.session import Phase, Session

_FRAME_LIMIT_BYTES = FRAME_LIMIT_BYTES + 64 * 1024
"""Room for the largest message that a hub takes by default, and for the other fields of RECORDS."""

_COPIED_BYTES = 16 * 1024  # Values up to this size are joined with their head at once
_ENCODE: dict[type, Callable[[Any], bytes]] = {
    SubscriptionChange: lambda one: encode_subscription(
        Kind.SUBSCRIBE if one.subscribe else Kind.UNSUBSCRIBE, one.prefixes, one.request
    ),
    RuleChange: lambda one: encode_rules(Kind.RULE if one.subscribe else Kind.UNRULE, one.rules, one.request),
    ServiceChange: lambda one: encode_subscription(
        Kind.SERVE if one.serve else Kind.UNSERVE, one.prefixes, one.request
    ),
    NameClaim: encode_claim,
    NameRelease: encode_release,
    Renewal: encode_token,
    Fetch: encode_fetch,
    Stage: encode_stage,
    Commit: encode_commit,
}


class WireConversation:
    """The state of the hub's own protocol over one connection."""

    def __init__(
        self, introduction: Introduction, routes: LocalRoutes, frame_limit_bytes: int = _FRAME_LIMIT_BYTES
    ) -> None:
        self.half_close = True
        # Of the messages that the hub delivers now: None until HELLO, and for good where it does not send origins.
        self.origin: Origin | None = None
        self._introduction = introduction
        self._frame_limit_bytes = frame_limit_bytes
        self._session: Session[Route] = Session("client", routes, frame_limit_bytes)
        self._session.origins = introduction.origins

    @property
    def closed(self) -> bool:
        return self._session.closed

    def open(self) -> None:
        self._session.send(self._hello().encode())

    def _hello(self, shared: int = 0) -> Hello:
        mine = self._introduction
        return Hello(
            protocol=PROTOCOL,
            role="client",
            name=mine.name,
            token=mine.token,
            narrow=mine.narrow,
            origins=mine.origins,
            queue=mine.queue,
            frame=self._frame_limit_bytes,
            shared=shared,
        )

    def receive(self, data: bytes) -> Iterator[Event]:
        events = self._receive(data)
        return self._with_origins(events) if self._introduction.origins else events

    def _with_origins(self, events: Iterable[Event | Origin]) -> Iterator[Event]:
        for event in events:
            if isinstance(event, Origin):
                self.origin = event
                continue
            if isinstance(event, Run):
                event.origin = self.origin
            elif isinstance(event, Hello) and event.origins:
                self.origin = Origin(event.id, 0)
            yield event

    def _receive(self, data: bytes) -> Iterator[Event]:
        session = self._session
        opening = session.phase is Phase.OPENING
        session.feed(data)
        while (event := session.next_event()) is not NEED_DATA:
            if event is None:
                continue  # dealt with by the session
            if type(event) is Stretch:
                yield from event
            elif opening and isinstance(event, Closing) and not event.by_far_side:
                hint = "; that looks like HTTP, try ws://" if data.startswith(b"HTTP/") else ""
                text = f"the other side does not speak the hub's protocol ({event.text}){hint}"
                yield event._replace(text=text)
            else:
                yield cast("Event", event)  # the session's table lets a client get no other kinds
        if session.rejected_messages:
            yield Unreadable(session.rejected_messages)
            session.rejected_messages = 0

    def publish(self, frames: list[bytes]) -> None:
        self._session.send(frames[0] if len(frames) == 1 else b"".join(frames))

    def send(self, item: Request | Reply) -> None:
        if len(item.values) > _COPIED_BYTES:  # large values are copied once only, into the output
            self._session.send(item.head())
            self._session.send(item.values)
        else:
            self._session.send(item.encode())

    def say(self, verb: Verb) -> None:
        self._session.send(_ENCODE[type(verb)](verb))

    def ping(self) -> None:
        self._session.send(encode_frame(Kind.PING, b""))

    def pong(self) -> None:
        self._session.send(encode_frame(Kind.PONG, b""))

    def close(self, code: int, text: str) -> None:
        self._session.close(code, text)

    def take_outgoing(self) -> bytes:
        return self._session.take_outgoing()
