"""What a client has in common with the protocols that it speaks. Without I/O: bytes in, events out.

There are two protocols: `peers.client.wire` (TCP and Unix sockets) and `peers.client.websocket`. Both take publications
as MESSAGES frames, and give what the hub delivers as runs of such frames with their route. A conversation never raises
for bad input: it ends with a `Closing` event.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

from hub.errors import HubError, RejectedError
from hub.messages.request_frame import Reply, Request
from hub.messages.stretch import Run
from peers.client.routes import Route
from peers.wire.control import NameClaim, NameRelease, Notice, Renewal, RuleChange
from peers.wire.events import Closing, ServiceChange, SubscriptionChange
from peers.wire.hello import Hello, QueueWish
from peers.wire.records import Commit, Fetch, Records, Stage

if TYPE_CHECKING:
    from peers.client.connection import Connection

SUBSCRIPTIONS = range(1, 1 << 29)
NAMES = range(1 << 29, (1 << 30) - (1 << 16))
TOKENS = range((1 << 30) - (1 << 16), 1 << 30)
SERVICES = range(1 << 30, 1 << 31)
JOURNAL = range(1 << 31, 1 << 32)

ABNORMAL = 1006
"""Code of an end without CLOSE, RFC 6455, section 7.4.1; never on the wire."""


class Unreadable(NamedTuple):
    """Messages in a frame that contradicts itself; they were passed over."""

    messages: int


class Refusal(NamedTuple):
    """The hub has refused a `Request`, and answers none of its requests."""

    first: int
    """Transaction id of its first request."""
    text: str


Event = Run[Route] | Hello | Notice | Records | Request | Reply | Refusal | Unreadable | Closing
"""Hello comes once, first."""

Verb = SubscriptionChange | RuleChange | ServiceChange | NameClaim | NameRelease | Renewal | Fetch | Stage | Commit
"""What a client asks its hub for; answered by a `Notice` with the same request, a `Fetch` also by `Records`."""


@dataclass(frozen=True, slots=True)
class Introduction:
    """What a client says of itself."""

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

    def open(self) -> None: ...

    def receive(self, data: bytes) -> Iterator[Event]: ...

    def publish(self, frames: list[bytes]) -> None: ...

    def send(self, item: Request | Reply) -> None: ...

    def say(self, verb: Verb) -> None:
        """Ask the hub for something.

        Raises:
            UsageError: This protocol has no word for it.
        """

    def ping(self) -> None: ...

    def pong(self) -> None:
        """Send a sign of life that the hub does not answer."""

    def close(self, code: int, text: str) -> None: ...

    def take_outgoing(self) -> bytes: ...


def wake(change: asyncio.Event) -> None:
    """Wake the tasks that wait for a change; later ones wait for the next."""
    change.set()
    change.clear()


class Numbers:
    """Gives out the request numbers of one part, and begins again behind the last."""

    def __init__(self, numbers: range) -> None:
        self._numbers = numbers
        self.last = numbers.start

    def next(self) -> int:
        self.last = self.last + 1 if self.last + 1 < self._numbers.stop else self._numbers.start
        return self.last


T = TypeVar("T")


class Change(NamedTuple, Generic[T]):
    """A change that the hub was asked for and has not answered."""

    answer: asyncio.Future[HubError | None]
    about: T
    verb: Callable[[int], Verb]
    adds: bool
    """True to subscribe, serve or claim, False for the opposite."""
    again: bool
    """Whether it was granted before, over an earlier connection."""


class Changes(Generic[T]):
    """The changes that one part of a client has asked the hub for: each stays until its answer."""

    def __init__(self, numbers: range, on_waiting: Callable[[], None]) -> None:
        self.connection: Connection | None = None
        self._numbers = Numbers(numbers)
        self._on_waiting = on_waiting
        self._loop = asyncio.get_running_loop()
        self._pending: dict[int, Change[T]] = {}
        self._ended: HubError | None = None

    def __bool__(self) -> bool:
        return bool(self._pending)

    def check_open(self) -> None:
        """Raise the error with which the client has ended, if it has."""
        if self._ended is not None:
            raise self._ended.with_traceback(None)

    def ask(
        self, about: T, verb: Callable[[int], Verb], *, adds: bool = True, again: bool = False
    ) -> asyncio.Future[HubError | None]:
        """Ask now, or over the next connection; only additions wait for that."""
        change = Change(self._loop.create_future(), about, verb, adds, again)
        if adds or self.connection is not None:
            number = self._numbers.next()
            self._pending[number] = change
            self._send(number, change)
        return change.answer

    def _send(self, number: int, change: Change[T]) -> None:
        if self.connection is not None:
            self.connection.conversation.say(change.verb(number))
            self.connection.write_outgoing()
            self._on_waiting()

    def take(self, notice: Notice) -> tuple[Change[T], RejectedError | None] | None:
        """Take the hub's answer; return what it is about, and the error if the hub refuses."""
        change = self._pending.pop(notice.request, None)
        if change is None:
            return None
        error = RejectedError(notice.code, notice.text) if notice.kind == "error" else None
        if not change.answer.done():
            change.answer.set_result(error)
        self._on_waiting()
        return change, error

    def connected(self, connection: Connection) -> None:
        self.connection = connection
        for number, change in self._pending.items():
            self._send(number, change)

    def disconnected(self) -> None:
        """Keep additions that were never granted: they are asked for again."""
        self.connection = None
        self.drop(lambda change: not change.adds or change.again)

    def drop(self, is_over: Callable[[Change[T]], bool], error: HubError | None = None) -> None:
        """Forget some changes; those that wait for them get `error`."""
        for number, change in list(self._pending.items()):
            if is_over(change):
                del self._pending[number]
                if not change.answer.done():
                    change.answer.set_result(error)

    def finish(self, ended: HubError) -> None:
        self._ended = ended
        self.connection = None
        self.drop(lambda _: True, ended)


async def granted(answer: asyncio.Future[HubError | None]) -> None:
    """Wait for an answer without cancelling it; raise the error that it is."""
    await asyncio.wait([answer])
    error = answer.result()
    if error is not None:
        raise error.with_traceback(None)
