"""`WireConversation`: a client's side of the hub's own protocol, for TCP and Unix sockets.

The rules are those of `peers.wire.session`; what is here puts the client's words into frames. No I/O.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from hub.frame import encode_frame
from hub.request_frame import Reply, Request
from hub.stretch import Stretch
from hub.tags.rules import Rule
from peers.client.conversation import Event, Introduction, Unreadable
from peers.client.reports import Origins
from peers.client.routes import LocalRoutes, Route
from peers.wire.control import encode_subscription
from peers.wire.events import Closing
from peers.wire.hello import FRAME_LIMIT_BYTES, PROTOCOL, Hello
from peers.wire.kinds import Kind
from peers.wire.names import NameClaim, NameRelease, encode_claim, encode_release
from peers.wire.records import Commit, Fetch, Stage, encode_commit, encode_fetch, encode_stage
from peers.wire.rules import encode_rules
from peers.wire.session import NEED_DATA, Phase, Session
from peers.wire.token import Renewal, encode_token

__all__ = ["WireConversation"]


_FRAME_LIMIT_BYTES = FRAME_LIMIT_BYTES + 64 * 1024
"""Room for the largest message that a hub takes by default, and what stands around it in RECORDS."""

_COPIED_BYTES = 16 * 1024
"""Values up to this size are joined with their head at once."""


class WireConversation:
    """The state of the hub's own protocol over one connection.

    Args:
        introduction: What the client says of itself in HELLO.
        routes: The table in which routing keys of what the hub delivers are looked up.
        frame_limit_bytes: Largest body taken from the hub.
    """

    __slots__ = ("_frame_limit_bytes", "_introduction", "_origins", "_session", "half_close")

    def __init__(
        self, introduction: Introduction, routes: LocalRoutes, frame_limit_bytes: int = _FRAME_LIMIT_BYTES
    ) -> None:
        self.half_close = True
        self._introduction = introduction
        self._frame_limit_bytes = frame_limit_bytes
        self._session: Session[Route] = Session("client", routes, frame_limit_bytes)
        self._session.origins = introduction.origins
        # None where the client has not asked where messages have entered.
        self._origins = Origins() if introduction.origins else None

    @property
    def closed(self) -> bool:
        """Whether one of the sides has said CLOSE."""
        return self._session.closed

    def open(self) -> None:
        """Say HELLO."""
        self._session.send(self._hello().encode())

    def _hello(self, shared: int = 0) -> Hello:
        who = self._introduction
        return Hello(
            protocol=PROTOCOL,
            role="client",
            name=who.name,
            token=who.token,
            narrow=who.narrow,
            origins=who.origins,
            queue=who.queue,
            frame=self._frame_limit_bytes,
            shared=shared,
        )

    def receive(self, data: bytes) -> Iterator[Event]:
        """Yield the things that the hub says."""
        events = self._receive(data)
        return events if self._origins is None else self._origins.mark(events)

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
                text = f"the far side does not speak the hub's protocol ({event.text}){hint}"
                yield event._replace(text=text)
            else:
                yield cast("Event", event)  # the session's table lets a client get no other kinds
        if session.rejected_messages:
            yield Unreadable(session.rejected_messages)
            session.rejected_messages = 0

    def subscribe(self, prefixes: list[str], request: int) -> None:
        """Send SUBSCRIBE."""
        self._session.send(encode_subscription(Kind.SUBSCRIBE, prefixes, request))

    def unsubscribe(self, prefixes: list[str], request: int) -> None:
        """Send UNSUBSCRIBE."""
        self._session.send(encode_subscription(Kind.UNSUBSCRIBE, prefixes, request))

    def subscribe_rules(self, rules: list[Rule], request: int) -> None:
        """Send RULE."""
        self._session.send(encode_rules(Kind.RULE, rules, request))

    def unsubscribe_rules(self, rules: list[Rule], request: int) -> None:
        """Send UNRULE."""
        self._session.send(encode_rules(Kind.UNRULE, rules, request))

    def publish(self, frames: list[bytes]) -> None:
        """Send frames as they are."""
        self._session.send(frames[0] if len(frames) == 1 else b"".join(frames))

    def request(self, request: Request) -> None:
        """Send REQUEST."""
        self._send(request)

    def reply(self, reply: Reply) -> None:
        """Send REPLY."""
        self._send(reply)

    def _send(self, item: Request | Reply) -> None:
        """Send a frame, whose values, if they are many, are copied once, into what is written."""
        if len(item.values) > _COPIED_BYTES:
            self._session.send(item.head())
            self._session.send(item.values)
        else:
            self._session.send(item.encode())

    def serve(self, prefixes: list[str], request: int) -> None:
        """Send SERVE."""
        self._session.send(encode_subscription(Kind.SERVE, prefixes, request))

    def unserve(self, prefixes: list[str], request: int) -> None:
        """Send UNSERVE."""
        self._session.send(encode_subscription(Kind.UNSERVE, prefixes, request))

    def claim(self, claim: NameClaim) -> None:
        """Send CLAIM."""
        self._session.send(encode_claim(claim))

    def release(self, release: NameRelease) -> None:
        """Send RELEASE."""
        self._session.send(encode_release(release))

    def renew(self, renewal: Renewal) -> None:
        """Send TOKEN."""
        self._session.send(encode_token(renewal))

    def fetch(self, fetch: Fetch) -> None:
        """Send FETCH."""
        self._session.send(encode_fetch(fetch))

    def stage(self, stage: Stage) -> None:
        """Send STAGE."""
        self._session.send(encode_stage(stage))

    def commit(self, commit: Commit) -> None:
        """Send COMMIT."""
        self._session.send(encode_commit(commit))

    def ping(self) -> None:
        """Send PING."""
        self._session.send(encode_frame(Kind.PING, b""))

    def pong(self) -> None:
        """Send a PONG that nobody has asked for."""
        self._session.send(encode_frame(Kind.PONG, b""))

    def close(self, code: int, text: str) -> None:
        """Send CLOSE."""
        self._session.close(code, text)

    def take_outgoing(self) -> bytes:
        """Return and forget what is to be written now."""
        return self._session.take_outgoing()
