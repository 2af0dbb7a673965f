"""What a client has in common with the protocols that it speaks, without I/O: bytes in, events out.

There are two: `peers.client.wire` (TCP and Unix sockets) and `peers.client.websocket`. Both take publications as
MESSAGES frames, and yield messages as runs of such frames with their route. Bad input raises nothing: a conversation
ends with a `Closing` event.
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

# The part of a client to which an answer belongs is known by its request number.
SUBSCRIPTIONS = range(1, 1 << 29)
NAMES = range(1 << 29, (1 << 30) - (1 << 16))
TOKENS = range((1 << 30) - (1 << 16), 1 << 30)
SERVICES = range(1 << 30, 1 << 31)
JOURNAL = range(1 << 31, 1 << 32)

ABNORMAL = 1006  # Code of an end without CLOSE, RFC 6455, section 7.4.1; never on the wire


class Unreadable(NamedTuple):
    """Messages in a frame that contradicts itself; they were skipped."""

    messages: int


class Refusal(NamedTuple):
    """The hub has rejected a `Request` frame, and answers none of its requests."""

    first: int  # Transaction id of its first request
    text: str


Event = Run[Route] | Hello | Notice | Records | Request | Reply | Refusal | Unreadable | Closing
"""Hello comes once, first."""

Verb = SubscriptionChange | RuleChange | ServiceChange | NameClaim | NameRelease | Renewal | Fetch | Stage | Commit
"""A command for the hub; answered by a `Notice` with the same request, a `Fetch` also by `Records`."""


@dataclass(frozen=True, slots=True)
class Introduction:
    """A client's part of the handshake."""

    name: str = ""
    token: str = field(default="", repr=False)
    queue: QueueWish | None = None
    narrow: bool = False
    origins: bool = False


class Conversation(Protocol):
    """The state of the protocol over one connection."""

    half_close: bool  # Whether this side ends its direction of the stream as soon as it has sent its close

    @property
    def closed(self) -> bool:
        """Whether one of the sides has sent a close."""

    def open(self) -> None: ...

    def receive(self, data: bytes) -> Iterator[Event]: ...

    def publish(self, frames: list[bytes]) -> None: ...

    def send(self, item: Request | Reply) -> None: ...

    def say(self, verb: Verb) -> None:
        """Send a command.

        Raises:
            UsageError: This protocol has no message for it.
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
    """Request numbers of one part of a client, starting again after the last."""

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
    adds: bool  # True to subscribe, serve or claim, False for the opposite
    again: bool  # Whether an earlier connection had granted it


class Changes(Generic[T]):
    """The changes that one part of a client has asked the hub for: each stays until its answer."""

    def __init__(self, numbers: range) -> None:
        self.connection: Connection | None = None
        self._numbers = Numbers(numbers)
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
            self.connection.say(change.verb(number))

    def take(self, notice: Notice) -> tuple[Change[T], RejectedError | None] | None:
        """Take the hub's answer; return the change that it answers, and the error if the hub rejects."""
        change = self._pending.pop(notice.request, None)
        if change is None:
            return None
        error = RejectedError(notice.code, notice.text) if notice.kind == "error" else None
        if not change.answer.done():
            change.answer.set_result(error)
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
        """Forget some changes; tasks that wait for them get `error`."""
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
    """Wait for an answer without cancelling it, and raise it if it is an error."""
    await asyncio.wait([answer])
    error = answer.result()
    if error is not None:
        raise error.with_traceback(None)
