"""`Subscriptions`: everything of a client that has to do with receiving.

```
stream, callback ─ open ─▶ Interest ─▶ SUBSCRIBE ─▶ hub ─▶ confirmed
                     └──▶ LocalRoutes ◀─ run by run ─ what the hub delivers ─▶ sinks
full stream ─ hold ─▶ the connection is not read until it has room again
```

Owner: one client. Invariants: each prefix is asked for once, however many subscriptions want it; a connection that is
made anew is asked for all of them again; while an answer is awaited the connection is read, also when a stream is
full (else whoever reads the stream could wait for the answer forever).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import NamedTuple, Self

from hub.batch import Batch, Message
from hub.errors import CloseCode, ClosedError, HubError, PeerError, RejectedError
from hub.stretch import Run
from hub.tags.rules import Rule, check_rule
from hub.topics import check_prefix
from peers.client.connection import Connection
from peers.client.routes import Addressed, Claim, Interest, LocalRoutes, Route, Sink, Wanted
from peers.client.stream import Decode
from peers.wire.control import Notice
from peers.wire.hello import FRAME_LIMIT_BYTES, Hello
from peers.wire.rules import RULES_PER_FRAME

__all__ = [
    "CallbackSubscription",
    "Subscriptions",
]

_PREFIX_OVERHEAD_BYTES = 3
"""msgpack's header of a text of up to 64 KiB."""

_REQUEST_OVERHEAD_BYTES = 128
"""More than what stands around the prefixes in a frame or a WebSocket message."""

_RULE_OVERHEAD_BYTES = 32
"""The names of a rule's fields in a WebSocket message, and their headers."""

_PORTION_BYTES = 256 * 1024
"""Largest request when a new connection is asked for everything."""


class _Request(NamedTuple):
    """A request that the hub has not answered."""

    answer: asyncio.Future[HubError | None]
    subscribe: bool
    again: bool
    """Whether it was granted before, over an earlier connection."""


class Subscriptions:
    """The receiving half of a client.

    Args:
        unreadable: Gets what bears no readable topic.
        awaiting: Whether any part of the client waits for an answer.
    """

    def __init__(self, unreadable: Sink, awaiting: Callable[[], bool]) -> None:
        self._awaiting = awaiting
        self.routes = LocalRoutes(unreadable)
        # Both are sums over all subscriptions, from the beginning of the client.
        self.received_messages = 0
        self.received_bytes = 0
        self._loop = asyncio.get_running_loop()
        # The connection that is open; None from `disconnected` until the next one.
        self._connection: Connection | None = None
        self._frame_limit = FRAME_LIMIT_BYTES
        # The prefixes and rules that the hub is asked for, each once.
        self._interest = Interest()
        # Number → request that was not answered; it goes with its answer, or with the connection.
        self._requests: dict[int, _Request] = {}
        self._last_request = 0
        # All sinks that are subscribed; each is told of gaps and breaks, and of the end.
        self._sinks: dict[Sink, None] = {}
        # Sinks that are full: the connection is not read while there is one and no answer is awaited.
        self._full: set[Sink] = set()
        # Why nothing is subscribed to any more; None until `finish`.
        self._closed: HubError | None = None

    @property
    def prefixes(self) -> int:
        """How many different prefixes and rules are subscribed."""
        return len(self._interest)

    @property
    def waiting(self) -> bool:
        """Whether the hub owes an answer to a request about subscriptions."""
        return bool(self._requests)

    @property
    def holding(self) -> bool:
        """Whether a stream is full."""
        return bool(self._full)

    # For streams and callbacks.

    async def open(self, sink: Sink, wants: Iterable[Wanted]) -> list[Claim]:
        """Subscribe, and wait until the hub has confirmed. Without a connection that takes until there is one.

        Cancellation: takes the subscription back.

        Args:
            sink: The sink that gets the messages.
            wants: Prefixes, or rules, or names.

        Returns:
            The claims, to be given to `release`.

        Raises:
            InvalidTopicError, InvalidNameError: One of them is none.
            RejectedError: The hub refuses, or the prefixes are too many for one request.
            ClosedError, PeerError: The client is closed, or has ended with an error.
        """
        if self._closed is not None:
            raise self._closed.with_traceback(None)
        wanted = list(dict.fromkeys(_checked(want) for want in wants))
        size = _REQUEST_OVERHEAD_BYTES + sum(map(_size_of, wanted))
        if size > self._frame_limit:
            text = f"{len(wanted)} prefixes take {size} bytes, the hub takes {self._frame_limit}; subscribe in portions"
            raise RejectedError(CloseCode.TOO_BIG, text)
        number = self._last_request + 1
        claims, new = self._interest.claim(wanted, number)
        if new:
            self._ask(new, number, again=False)
        self._sinks[sink] = None
        for want in wanted:
            self.routes.add(want, sink)
        try:
            await self._wait({claim.request for claim in claims if claim.request})
        except BaseException:
            self.release(sink, claims)
            raise
        return claims

    def release(self, sink: Sink, claims: list[Claim]) -> asyncio.Future[HubError | None] | None:
        """Unsubscribe; from now on `sink` gets nothing.

        Returns:
            The future of the hub's answer; None where the hub need not be asked.
        """
        if sink not in self._sinks:
            return None
        del self._sinks[sink]
        for claim in claims:
            self.routes.discard(claim.want, sink)
        gone = self._interest.release(claims)
        self.let_go(sink)
        connection = self._connection
        if not gone or connection is None:
            return None
        self._last_request += 1
        number = self._last_request
        request = _Request(self._loop.create_future(), subscribe=False, again=False)
        self._requests[number] = request
        _ask_for(connection, gone, number, subscribe=False)
        connection.write_outgoing()
        self.regulate()
        return request.answer

    def hold(self, sink: Sink) -> None:
        """Stop reading, as a stream is full."""
        self._full.add(sink)
        self.regulate()

    def let_go(self, sink: Sink) -> None:
        """Read again if no other stream is full, as this one has room."""
        self._full.discard(sink)
        self.regulate()

    # For the client.

    def receive(self, run: Run[Route]) -> None:
        """Hand messages to those who want them."""
        self.received_messages += run.messages
        self.received_bytes += run.frames_bytes
        for sink in run.route.sinks:
            sink.put(run)

    def put_gap(self, lost_messages: int) -> None:
        """Tell all sinks that messages were lost: the hub does not know of which subscription."""
        for sink in self._sinks:
            sink.put_gap(lost_messages)

    def answer(self, notice: Notice) -> PeerError | None:
        """Take the hub's answer to a request.

        Returns:
            An error if a subscription that was granted by an earlier connection is refused now.
        """
        request = self._requests.pop(notice.request, None)
        if request is None:
            return None
        error: PeerError | None = None
        if notice.kind == "error":
            error = RejectedError(notice.code, notice.text)
            self._interest.refuse(notice.request)
        elif request.subscribe:
            self._interest.confirm(notice.request)
        if not request.answer.done():
            request.answer.set_result(error)
        self.regulate()
        return error if request.again else None

    def connected(self, connection: Connection, hello: Hello) -> None:
        """Ask a new connection for everything that is subscribed to."""
        self._connection = connection
        self._frame_limit = hello.frame
        asked = self._interest.asked()
        held = self._interest.held()
        for number, wants in asked.items():
            _ask_for(connection, wants, number)
        for portion in _portions(held, min(hello.frame, _PORTION_BYTES) - _REQUEST_OVERHEAD_BYTES):
            self._last_request += 1
            self._ask(portion, self._last_request, again=True)
        connection.write_outgoing()
        self.regulate()

    def disconnected(self, *, again: bool) -> None:
        """Forget what the connection was asked, as it is lost; subscriptions stay."""
        self._connection = None
        for number, request in list(self._requests.items()):
            if not request.subscribe or request.again:
                del self._requests[number]
                if not request.answer.done():
                    request.answer.set_result(None)
        if again:
            for sink in self._sinks:
                sink.put_break()

    def finish(self, ended: HubError) -> None:
        """Tell everyone who waits that nothing more comes. Streams of a client that was closed end without an error."""
        self._closed = ended
        error = None if isinstance(ended, ClosedError) else ended
        self._connection = None
        for sink in self._sinks:
            sink.finish(error)
        for request in self._requests.values():
            if not request.answer.done():
                request.answer.set_result(self._closed)
        self._requests.clear()

    # Inside.

    def _ask(self, wants: list[Wanted], number: int, *, again: bool) -> None:
        self._last_request = number
        self._requests[number] = _Request(self._loop.create_future(), subscribe=True, again=again)
        if self._connection is not None:
            _ask_for(self._connection, wants, number)
            self._connection.write_outgoing()
            self.regulate()

    async def _wait(self, numbers: Iterable[int]) -> None:
        """Wait for answers; raise the first that is an error."""
        answers = [self._requests[number].answer for number in numbers if number in self._requests]
        if answers:
            await asyncio.wait(answers)  # does not cancel them: others may wait for the same
        for answer in answers:
            error = answer.result()
            if error is not None:
                raise error.with_traceback(None)

    def regulate(self) -> None:
        """Read or stop reading, as the streams and the open requests demand."""
        if self._connection is not None:
            self._connection.read(not self._full or self._awaiting())


def _checked(want: Wanted) -> Wanted:
    match want:
        case Rule():
            return check_rule(*want)
        case Addressed():
            return want
        case _:
            return check_prefix(want)


def _size_of(want: Wanted) -> int:
    """Return how many bytes it takes in a request, as JSON, and so rather too many."""
    match want:
        case Rule():
            labels = sum(len(label.encode()) + _PREFIX_OVERHEAD_BYTES for label in want.labels)
            return labels + len(want.prefix.encode()) + len(want.sender) + _RULE_OVERHEAD_BYTES
        case Addressed():
            return 0
        case _:
            return len(want.encode()) + _PREFIX_OVERHEAD_BYTES


def _ask_for(connection: Connection, wants: list[Wanted], number: int, *, subscribe: bool = True) -> None:
    """Subscribe, or unsubscribe. All are of one kind: those of one subscription, or of one portion, are."""
    conversation = connection.conversation
    rules = [want for want in wants if isinstance(want, Rule)]
    prefixes = [want for want in wants if isinstance(want, str)]
    if rules:
        (conversation.subscribe_rules if subscribe else conversation.unsubscribe_rules)(rules, number)
    else:
        (conversation.subscribe if subscribe else conversation.unsubscribe)(prefixes, number)


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


class CallbackSubscription:
    """Messages under some prefixes, each given to a function.

    Made by `Client.subscribe_callback`. What the function raises is reported to the event loop's exception handler,
    and the next message is given to it.
    """

    __slots__ = ("_claims", "_decode", "_function", "_subscriptions", "breaks", "lost_messages", "prefixes")

    def __init__(
        self,
        subscriptions: Subscriptions,
        prefixes: tuple[str, ...],
        decode: Decode,
        function: Callable[[Message], object],
    ) -> None:
        self.prefixes = prefixes
        # How many messages of this client the hub has lost since it was opened.
        self.lost_messages = 0
        # How often the connection was lost since it was opened.
        self.breaks = 0
        self._subscriptions = subscriptions
        self._decode = decode
        self._function = function
        # The claims on what it subscribes to; empty before `open`.
        self._claims: list[Claim] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
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

    # As a sink.

    def put(self, batch: Batch) -> None:
        """Call the function for each message."""
        function = self._function
        for message in self._decode(batch):
            try:
                function(message)
            except Exception as error:  # noqa: BLE001 -- of the caller's function: reported where asyncio reports such
                asyncio.get_running_loop().call_exception_handler(
                    {"message": f"a subscriber's function failed on {message.topic}", "exception": error}
                )

    def put_gap(self, lost_messages: int) -> None:
        """Add to `lost_messages`: they were lost here."""
        self.lost_messages += lost_messages

    def put_break(self) -> None:
        """Add to `breaks`: the connection was lost here."""
        self.breaks += 1

    def finish(self, error: Exception | None) -> None:
        """Do nothing: the client itself tells that nothing more comes."""
