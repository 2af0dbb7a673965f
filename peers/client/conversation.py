"""`Conversation`: the seam between a client and the protocols it speaks. Without I/O: bytes in, events out.

There are two: `peers.client.wire` (TCP and Unix sockets) and `peers.client.websocket`. Above the seam everything is
in the terms of the wire: publications come as MESSAGES frames, and what the hub delivers is given as runs of such
frames with their route. A conversation never raises for bad input; that ends it with a `Closing` event.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from hub.request_frame import Reply, Request
from hub.stretch import Run
from hub.tags.rules import Rule
from peers.client.routes import Route
from peers.wire.control import Notice
from peers.wire.events import Closing
from peers.wire.hello import Hello, QueueWish
from peers.wire.names import NameClaim, NameRelease
from peers.wire.records import Commit, Fetch, Records, Stage
from peers.wire.token import Renewal

__all__ = [
    "ABNORMAL",
    "JOURNAL",
    "NAMES",
    "SERVICES",
    "SUBSCRIPTIONS",
    "TOKENS",
    "Conversation",
    "Event",
    "Introduction",
    "Numbers",
    "Refusal",
    "Unreadable",
    "Waiters",
]


class Waiters:
    """Those of one event loop who wait for a change."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        # A future for each of them; `wake` empties it.
        self._waiting: list[asyncio.Future[None]] = []

    def __bool__(self) -> bool:
        """Return whether anybody waits."""
        return bool(self._waiting)

    async def wait(self) -> None:
        """Wait for the next `wake`. Cancellation: nobody waits any more."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            await waiter
        finally:
            if waiter in self._waiting:
                self._waiting.remove(waiter)

    def wake(self) -> None:
        """Let all of them look again, as something has changed."""
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)


SUBSCRIPTIONS = range(1, 1 << 29)
NAMES = range(1 << 29, (1 << 30) - (1 << 16))
TOKENS = range((1 << 30) - (1 << 16), 1 << 30)
SERVICES = range(1 << 30, 1 << 31)
JOURNAL = range(1 << 31, 1 << 32)


class Numbers:
    """Gives out the numbers of one part, one after the other, and begins anew behind the last.

    Args:
        numbers: Those of the part.
    """

    __slots__ = ("_numbers", "last")

    last: int
    """The number that was given out last; at first the smallest of the part, which is given out in the second round."""

    def __init__(self, numbers: range) -> None:
        self._numbers = numbers
        self.last = numbers.start

    def next(self) -> int:
        """Return the next number."""
        self.last = self.last + 1 if self.last + 1 < self._numbers.stop else self._numbers.start
        return self.last


ABNORMAL = 1006
"""Code of an end without CLOSE, RFC 6455, section 7.4.1; never on the wire."""


class Unreadable(NamedTuple):
    """Messages came in a frame that contradicts itself, and were passed over."""

    messages: int


class Refusal(NamedTuple):
    """A refusal of the hub to take a `Request`: it answers nothing of what that holds."""

    first: int
    """Transaction id of its first request."""
    text: str


Event = Run[Route] | Hello | Notice | Records | Request | Reply | Refusal | Unreadable | Closing
"""A run of messages; the hub has answered the introduction (once, first); an answer or a loss; a piece of the journal;
requests to be served; replies; the end."""


@dataclass(frozen=True, slots=True)
class Introduction:
    """The words by which a client introduces itself."""

    name: str = ""
    token: str = field(default="", repr=False)
    queue: QueueWish | None = None
    narrow: bool = False
    origins: bool = False


class Conversation(Protocol):
    """The state of the protocol over one connection."""

    half_close: bool
    """Whether this side, when it has said that it closes, ends its direction of the stream at once."""

    @property
    def closed(self) -> bool:
        """Whether one of the sides has said that it closes."""

    def open(self) -> None:
        """Begin the conversation: its first bytes are outgoing then."""

    def receive(self, data: bytes) -> Iterator[Event]:
        """Yield what the hub says, in order. What the conversation answers by itself is outgoing."""

    def subscribe(self, prefixes: list[str], request: int) -> None:
        """Ask for messages; answered by a `Notice` with the same request."""

    def unsubscribe(self, prefixes: list[str], request: int) -> None:
        """Ask for these messages no longer; request 0 asks for no answer."""

    def subscribe_rules(self, rules: list[Rule], request: int) -> None:
        """Ask for messages that match; answered by a `Notice` with the same request."""

    def unsubscribe_rules(self, rules: list[Rule], request: int) -> None:
        """Ask for messages that match no longer; request 0 asks for no answer."""

    def publish(self, frames: list[bytes]) -> None:
        """Send MESSAGES frames to the hub."""

    def request(self, request: Request) -> None:
        """Ask a service; answered by one `Reply` or several."""

    def reply(self, reply: Reply) -> None:
        """Send the answer to requests."""

    def serve(self, prefixes: list[str], request: int) -> None:
        """Offer to answer requests; answered by a `Notice` with the same request."""

    def unserve(self, prefixes: list[str], request: int) -> None:
        """Take back the offer to answer requests."""

    def claim(self, claim: NameClaim) -> None:
        """Claim a service name; answered by a `Notice` with the same request, and others when it stands otherwise."""

    def release(self, release: NameRelease) -> None:
        """Give a name up; answered by a `Notice`."""

    def renew(self, renewal: Renewal) -> None:
        """Show a fresh token; answered by a `Notice` with the same request, which tells how long it holds."""

    def fetch(self, fetch: Fetch) -> None:
        """Ask for a piece of the journal; answered by `Records`, or a `Notice` with the same request."""

    def stage(self, stage: Stage) -> None:
        """Bring messages that wait for their COMMIT; answered by a `Notice` with the same request.

        Raises:
            UsageError: This protocol has no word for it.
        """

    def commit(self, commit: Commit) -> None:
        """Have what was staged become messages; answered and raises as `stage`."""

    def ping(self) -> None:
        """Make the hub send something."""

    def pong(self) -> None:
        """Show the hub a sign of life that it does not answer."""

    def close(self, code: int, text: str) -> None:
        """End the conversation from this side."""

    def take_outgoing(self) -> bytes:
        """Return and forget what is to be written now."""
