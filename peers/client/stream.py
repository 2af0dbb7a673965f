"""`Subscriptions`, the receiving half of a client, and `MessageStream`: a subscription that is read by iterating.

Each prefix is asked for once, however many subscriptions want it; `LocalRoutes` finds the sinks of a run of messages.

A stream holds unread messages up to `buffer_bytes`, packed. Above that the client stops reading its socket: then the
hub's queue for this client fills, and its policy decides. The source of a stream is held exactly while the stream is
full, and let go once half of it was read. While an answer is awaited the connection is read, also when a stream is
full: else a reader that waits for the answer would wait for ever.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, Self, TypeVar

from hub.errors import CloseCode, ClosedError, HubError, PeerError, RejectedError, UsageError
from hub.labels.rules import Rule, check_rule
from hub.messages.batch import Batch, Message
from hub.messages.stretch import Run
from hub.topics import check_prefix
from peers.client.conversation import SUBSCRIPTIONS, Changes, Verb, granted
from peers.client.routes import Addressed, Claim, LocalRoutes, Route, Sink, Wanted
from peers.wire.control import RULES_PER_FRAME, Notice, RuleChange, RuleFields
from peers.wire.events import SubscriptionChange
from peers.wire.hello import FRAME_LIMIT_BYTES, Hello

if TYPE_CHECKING:
    from peers.client.connection import Connection
    from peers.client.journal import JournalStream  # it loads blocks

T = TypeVar("T")


class Opened(ABC):
    """Opens as the block begins, and closes, waiting for that, as it ends."""

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @abstractmethod
    async def open(self) -> None:
        """Open it, for programs that do not write `async with`."""

    @abstractmethod
    async def close(self) -> None:
        """Close it."""


class Items(Opened, Generic[T]):
    """A stream whose `receive` raises `ClosedError` at the end."""

    @abstractmethod
    async def receive(self) -> T:
        """Return the oldest item, waiting for one."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        try:
            return await self.receive()
        except ClosedError:
            raise StopAsyncIteration from None


Decode = Callable[[Batch], list[Message]]
"""Makes the messages of a batch, when they are read; reports bad ones by itself."""

_TAKE_BYTES = 256 * 1024
"""How much is decoded in one go: about 10 ms of small values, so that the loop stays responsive."""


class _Mark(Enum):
    BREAK = "the connection was lost here"


_BREAK: Final = _Mark.BREAK


class Source(Protocol):
    """The source of a stream: `Subscriptions`, or a `JournalStream`."""

    async def open(self, sink: MessageStream, wants: Iterable[Wanted]) -> list[Claim]: ...

    def release(self, sink: MessageStream, claims: list[Claim]) -> asyncio.Future[Any] | None:
        """Bring nothing more; return a future that is done when the hub knows it, too."""

    def hold(self, sink: MessageStream) -> None:
        """Bring nothing more for now: the stream is full."""

    def let_go(self, sink: MessageStream) -> None:
        """Bring messages again: the stream has room."""


class MessageStream(Opened, Sink):
    """Messages under some prefixes, oldest first.

    Made by `Client.subscribe`; use it with `async with`, or call `open` and `close`. One message is given to one
    reader; several readers share a stream.
    """

    lost_messages: int
    """How many messages of this client the hub has lost before the message that was read last.

    The hub counts for the client as a whole; with several subscriptions, those lost may belong to another. Of a stream
    of the journal: how many records, of all topics, were deleted before it came to them."""

    breaks: int
    """How often the connection was lost and restored before the message that was read last.

    Messages that were published in between are missing; their number is unknown. A stream of the journal goes on where
    it was, and counts how often the end of the journal was lost: the next records have offsets that others had before.
    """

    buffered_bytes: int  # Size of the unread messages

    def __init__(
        self,
        source: Source,
        prefixes: tuple[Wanted, ...],
        decode: Decode,
        buffer_bytes: int,
        journal: JournalStream | None = None,
    ) -> None:
        self.prefixes = prefixes
        self.lost_messages = self.breaks = self.buffered_bytes = 0
        self._source = source
        self._decode = decode
        self._buffer_bytes = buffer_bytes
        self._journal = journal
        self._claims: list[Claim] | None = None  # The claims on what it subscribes to; None before `open`
        self._held = False
        self._finished = False  # True once nothing more is taken in
        self._error: Exception | None = None  # The reason for that; None before the end, and where it was asked for
        # Unread batches, and marks between them. A number is a gap of so many messages.
        self._items: deque[Batch | int | _Mark] = deque()
        self._ready: list[Message] = []  # Messages that were decoded for `receive`, the oldest last
        self._something = asyncio.Event()  # Set while there is something to read, or nothing more comes

    async def __aexit__(self, *_: object) -> None:
        self.close_nowait()

    def __aiter__(self) -> Self:
        self._check_open()
        return self

    def __anext__(self) -> Coroutine[Any, Any, Message]:
        self._check_open()
        return self._next()

    @property
    def live(self) -> bool:
        """Whether a stream of the journal has come to its end once; a stream without history is always live."""
        return self._journal is None or self._journal.live

    @property
    def position(self) -> int | None:
        """Of a stream of the journal: all records before this offset were read; None of others.

        A stream that is subscribed to from here, with `epoch`, misses nothing; the last messages may come again.
        """
        return self._journal.position if self._journal is not None else None

    @property
    def epoch(self) -> int:
        """The epoch of the journal to which `position` belongs; 0 if it is not known."""
        return self._journal.epoch if self._journal is not None else 0

    @property
    def opened(self) -> bool:
        """Whether it was opened, or closed: otherwise reading would wait for ever, and raises."""
        return self._claims is not None or self._finished

    @property
    def ended(self) -> bool:
        """Whether nothing more comes: the stream or the client is closed, and all is read."""
        return self._finished and not self._items and not self._ready

    async def open(self) -> None:
        """Subscribe, and wait for the hub's confirmation.

        Raises:
            InvalidTopicError: One of the prefixes is invalid.
            GoneError: Its start was deleted from the journal, or is not there yet.
            RejectedError: The hub refuses; the text says why.
            ClosedError, PeerError: The client is closed, or has ended with an error.
            UsageError: The stream was opened before.
        """
        if self._claims is not None:
            raise UsageError("a stream is opened once; subscribe again for another one")
        self._claims = []
        self._claims = await self._source.open(self, self.prefixes)

    async def receive(self) -> Message:
        """Return the oldest message, waiting for one.

        Cancellation: loses nothing.

        Raises:
            ClosedError: None will come.
            PeerError: The connection is lost for good; raised when all received messages were read.
            UsageError: The stream was not opened.
        """
        self._check_open()
        try:
            return await self._next()
        except StopAsyncIteration:
            raise ClosedError("the stream is closed") from None

    async def _next(self) -> Message:
        if not self._ready:
            messages = await self.batch()
            if not messages:
                raise StopAsyncIteration
            messages.reverse()
            self._ready = messages
        return self._ready.pop()

    async def batch(self) -> list[Message]:
        """Wait for messages and return all of them, up to about 256 KiB; empty only at the end.

        The cheapest way to read: one call for many messages. `lost_messages` and `breaks` hold for the first of them,
        and nothing is missing between them. Cancellation and errors are as for `receive`, but for `ClosedError`.
        """
        self._check_open()
        while True:
            messages = self.batch_nowait()
            if messages:
                return messages
            if self._finished and not self._items:
                if self._error is not None:
                    raise self._error.with_traceback(None)  # else each call would lengthen it
                return []
            await self._something.wait()

    def batch_nowait(self) -> list[Message]:
        """Return the messages that are there, as `batch`, empty if there is none."""
        self._check_open()
        if self._ready:
            ready, self._ready = self._ready, []
            ready.reverse()
            return ready
        messages: list[Message] = []
        taken_bytes = 0
        items = self._items
        while items and taken_bytes < _TAKE_BYTES:
            item = items[0]
            if isinstance(item, Batch):
                messages += self._decode(item)
                taken_bytes += item.size_bytes
            elif messages:
                break
            elif item is _BREAK:
                self.breaks += 1
            else:
                self.lost_messages += item
            items.popleft()
        self.buffered_bytes -= taken_bytes
        if not items and not self._finished:
            self._something.clear()
        self._taken()
        return messages

    def close_nowait(self) -> None:
        """Unsubscribe and drop unread messages; do not wait for the hub."""
        self._release()

    async def close(self) -> None:
        """Unsubscribe, drop unread messages, and wait until the hub has confirmed."""
        answer = self._release()
        if answer is not None:
            await asyncio.wait([answer])

    def _check_open(self) -> None:
        if not self.opened:
            raise UsageError(
                "the stream is not open, nothing comes: write `async with client.subscribe(...) as messages:` "
                "and iterate over `messages`, or `await stream.open()` first"
            )

    def _release(self) -> asyncio.Future[Any] | None:
        answer = self._source.release(self, self._claims or [])
        self._items.clear()
        self._ready.clear()
        self.buffered_bytes = 0
        self.finish(None)
        self._taken()
        return answer

    def _taken(self) -> None:
        """The reader has taken messages, or found none."""
        if self._journal is not None:
            self._journal.taken()
        if self._held and self.buffered_bytes <= self._buffer_bytes // 2:
            self._held = False
            self._source.let_go(self)

    def put(self, batch: Batch) -> None:
        if self._finished:
            return
        self._items.append(batch)
        self.buffered_bytes += batch.size_bytes
        self._something.set()
        if self.buffered_bytes > self._buffer_bytes and not self._held:
            self._held = True
            self._source.hold(self)

    def put_gap(self, lost_messages: int) -> None:
        self._items.append(lost_messages)

    def put_break(self) -> None:
        self._items.append(_BREAK)

    def finish(self, error: Exception | None) -> None:
        """Take nothing more; `error` is raised once the reader has read all messages."""
        if not self._finished:
            self._finished = True
            self._error = error
            self._something.set()


_PREFIX_OVERHEAD_BYTES = 3  # msgpack's header of a text of up to 64 KiB
_REQUEST_OVERHEAD_BYTES = 128  # More than a frame or a WebSocket message has around the prefixes
_RULE_OVERHEAD_BYTES = 32  # The names of a rule's fields in a WebSocket message, and their headers
_PORTION_BYTES = 256 * 1024  # Largest request when a new connection is asked for everything


class Subscriptions:
    """The receiving half of a client."""

    def __init__(self, unreadable: Sink, awaiting: Callable[[], bool]) -> None:
        self._awaiting = awaiting
        self.routes = LocalRoutes(unreadable)
        self.received_messages = 0  # Both are sums over all subscriptions, from the beginning of the client
        self.received_bytes = 0
        self._frame_limit = FRAME_LIMIT_BYTES
        self._changes: Changes[list[Claim]] = Changes(SUBSCRIPTIONS)
        # Prefix or rule → the claim on it; it goes with its last subscription, or with a refusal.
        self._claims: dict[Wanted, Claim] = {}
        self._sinks: dict[Sink, None] = {}  # All sinks that are subscribed; each gets gaps, breaks and the end
        # Sinks that are full: the connection is not read while there is one and no answer is awaited.
        self._full: set[Sink] = set()

    @property
    def prefixes(self) -> int:
        return len(self._claims)

    @property
    def waiting(self) -> bool:
        return bool(self._changes)

    @property
    def holding(self) -> bool:
        return bool(self._full)

    async def open(self, sink: Sink, wants: Iterable[Wanted]) -> list[Claim]:
        """Subscribe, and wait until the hub has confirmed; return the claims, to be given to `release`.

        Without a connection it waits for one. Cancellation takes it back. Raises as `MessageStream.open`.
        """
        self._changes.check_open()
        wanted = list(dict.fromkeys(_checked(want) for want in wants))
        size = _REQUEST_OVERHEAD_BYTES + sum(map(_size_of, wanted))
        if size > self._frame_limit:
            text = (
                f"{len(wanted)} prefixes take {size} bytes, the hub accepts {self._frame_limit}; subscribe in portions"
            )
            raise RejectedError(CloseCode.TOO_BIG, text)
        claims: list[Claim] = []
        new: list[Claim] = []
        for want in wanted:
            claim = Claim(want) if isinstance(want, Addressed) else self._claims.get(want)
            if claim is None:
                claim = self._claims[want] = Claim(want)
                new.append(claim)
            claim.count += 1
            claims.append(claim)
            self.routes.add(want, sink)
        if new:
            answer = self._ask(new, again=False)
            for claim in new:
                claim.answer = answer
        self._sinks[sink] = None
        try:
            for each in dict.fromkeys(claim.answer for claim in claims):
                if each is not None:
                    await granted(each)
        except BaseException:
            self.release(sink, claims)
            raise
        return claims

    def release(self, sink: Sink, claims: list[Claim]) -> asyncio.Future[HubError | None] | None:
        """Unsubscribe; return the future of the hub's answer, None where it need not be asked."""
        if sink not in self._sinks:
            return None
        del self._sinks[sink]
        gone: list[Claim] = []
        for claim in claims:
            self.routes.discard(claim.want, sink)
            claim.count -= 1
            if not claim.count and self._claims.get(claim.want) is claim:
                del self._claims[claim.want]
                gone.append(claim)
        self.let_go(sink)
        if not gone or self._changes.connection is None:
            return None
        wants = [claim.want for claim in gone]
        return self._changes.ask(gone, lambda number: _verb(wants, number, subscribe=False), adds=False)

    def hold(self, sink: Sink) -> None:
        """Stop reading, as a stream is full."""
        self._full.add(sink)
        self.regulate()

    def let_go(self, sink: Sink) -> None:
        """Read again, if no other stream is full."""
        self._full.discard(sink)
        self.regulate()

    def receive(self, run: Run[Route]) -> None:
        self.received_messages += run.messages
        self.received_bytes += run.frames_bytes
        for sink in run.route.sinks:
            sink.put(run)

    def put_gap(self, lost_messages: int) -> None:
        """Tell all sinks of a loss: the hub does not know of which subscription."""
        for sink in self._sinks:
            sink.put_gap(lost_messages)

    def answer(self, notice: Notice) -> PeerError | None:
        """Take the hub's answer; return an error if it withdraws an earlier grant."""
        taken = self._changes.take(notice)
        if taken is None:
            return None
        change, error = taken
        if change.again:
            return error
        if change.adds:
            for claim in change.about:
                claim.answer = None
                if error is not None and self._claims.get(claim.want) is claim:
                    del self._claims[claim.want]
        return None

    def connected(self, connection: Connection, hello: Hello) -> None:
        """Ask a new connection for everything that is subscribed to."""
        self._frame_limit = hello.frame
        held = [want for want, claim in self._claims.items() if claim.answer is None]
        self._changes.connected(connection)
        for portion in _portions(held, min(hello.frame, _PORTION_BYTES) - _REQUEST_OVERHEAD_BYTES):
            self._ask([self._claims[want] for want in portion], again=True)
        self.regulate()

    def disconnected(self) -> None:
        self._changes.disconnected()
        for sink in self._sinks:
            sink.put_break()

    def finish(self, ended: HubError) -> None:
        """End all streams; those of a client that was closed end without an error."""
        error = None if isinstance(ended, ClosedError) else ended
        for sink in self._sinks:
            sink.finish(error)
        self._changes.finish(ended)

    def _ask(self, claims: list[Claim], *, again: bool) -> asyncio.Future[HubError | None]:
        def verb(number: int) -> Verb:  # claims that are void by then are left out
            wants = [claim.want for claim in claims if self._claims.get(claim.want) is claim]
            return _verb(wants, number, subscribe=True)

        return self._changes.ask(claims, verb, again=again)

    def regulate(self) -> None:
        """Read or stop reading, as the streams and the open requests demand."""
        connection = self._changes.connection
        if connection is not None:
            connection.read(not self._full or self._awaiting())


def _checked(want: Wanted) -> Wanted:
    match want:
        case Rule():
            return check_rule(*want)
        case Addressed():
            return want
        case _:
            return check_prefix(want)


def _size_of(want: Wanted) -> int:
    match want:
        case Rule():
            labels = sum(len(label.encode()) + _PREFIX_OVERHEAD_BYTES for label in want.labels)
            return labels + len(want.prefix.encode()) + len(want.sender) + _RULE_OVERHEAD_BYTES
        case Addressed():
            return 0
        case _:
            return len(want.encode()) + _PREFIX_OVERHEAD_BYTES


def _verb(wants: list[Wanted], number: int, *, subscribe: bool) -> Verb:
    """Make a request. All wants are of one kind: those of one subscription, or of one portion, are."""
    rules: list[RuleFields] = [want for want in wants if isinstance(want, Rule)]
    if rules:
        return RuleChange(subscribe, rules, number)
    return SubscriptionChange(subscribe, [want for want in wants if isinstance(want, str)], number)


def _portions(wants: list[Wanted], limit_bytes: int) -> Iterator[list[Wanted]]:
    """Cut a list so that each part fits into one request, and is of one kind."""
    portion: list[Wanted] = []
    size = 0
    for want in sorted(wants, key=lambda want: isinstance(want, Rule)):
        cost = _size_of(want)
        is_full = size + cost > limit_bytes or len(portion) == RULES_PER_FRAME
        if portion and (is_full or type(want) is not type(portion[-1])):
            yield portion
            portion, size = [], 0
        portion.append(want)
        size += cost
    if portion:
        yield portion


class CallbackSubscription(Sink):
    """Messages under some prefixes, each given to a function.

    Made by `Client.subscribe_callback`. An exception of the function is reported to the event loop's exception handler,
    and the next message is given to it.
    """

    def __init__(
        self,
        subscriptions: Subscriptions,
        prefixes: tuple[str, ...],
        decode: Decode,
        function: Callable[[Message], object],
    ) -> None:
        self.prefixes = prefixes
        self.lost_messages = 0  # How many messages of this client the hub has lost since it was opened
        self.breaks = 0  # How often the connection was lost since it was opened
        self._subscriptions = subscriptions
        self._decode = decode
        self._function = function
        self._claims: list[Claim] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close_nowait()

    async def open(self) -> None:
        """Subscribe; raises as `MessageStream.open`."""
        self._claims = await self._subscriptions.open(self, self.prefixes)

    def close_nowait(self) -> None:
        """Unsubscribe; do not wait for the hub. The function is not called any more."""
        self._subscriptions.release(self, self._claims)

    async def close(self) -> None:
        """Unsubscribe, and wait until the hub has confirmed."""
        answer = self._subscriptions.release(self, self._claims)
        if answer is not None:
            await asyncio.wait([answer])

    def put(self, batch: Batch) -> None:
        function = self._function
        for message in self._decode(batch):
            try:
                function(message)
            except Exception as error:  # noqa: BLE001 -- of the caller's function: reported where asyncio reports such
                asyncio.get_running_loop().call_exception_handler(
                    {"message": f"a subscriber's function failed on {message.topic}", "exception": error}
                )

    def put_gap(self, lost_messages: int) -> None:
        self.lost_messages += lost_messages

    def put_break(self) -> None:
        self.breaks += 1
