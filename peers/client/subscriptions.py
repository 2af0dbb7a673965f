"""`Subscriptions`: the receiving half of a client.

```
stream, callback ─ open ─▶ Claims ─▶ SUBSCRIBE ─▶ hub ─▶ confirmed
                     └──▶ LocalRoutes ◀─ run by run ─ what the hub delivers ─▶ sinks
full stream ─ hold ─▶ the connection is not read until it has room again
```

Each prefix is asked for once, however many subscriptions want it; a new connection is asked for all of them again.
While an answer is awaited the connection is read, also when a stream is full: else a reader that waits for the answer
would wait for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Self

from hub.batch import Batch, Message
from hub.errors import CloseCode, ClosedError, HubError, PeerError, RejectedError
from hub.stretch import Run
from hub.tags.rules import Rule, check_rule
from hub.topics import check_prefix
from peers.client.conversation import SUBSCRIPTIONS, Changes, Verb, granted
from peers.client.routes import Addressed, Claim, LocalRoutes, Route, Sink, Wanted
from peers.client.stream import Decode
from peers.wire.control import Notice
from peers.wire.events import SubscriptionChange
from peers.wire.hello import FRAME_LIMIT_BYTES, Hello
from peers.wire.rules import RULES_PER_FRAME, RuleChange, RuleFields

if TYPE_CHECKING:
    from peers.client.connection import Connection

_PREFIX_OVERHEAD_BYTES = 3
"""msgpack's header of a text of up to 64 KiB."""

_REQUEST_OVERHEAD_BYTES = 128
"""More than a frame or a WebSocket message has around the prefixes."""

_RULE_OVERHEAD_BYTES = 32
"""The names of a rule's fields in a WebSocket message, and their headers."""

_PORTION_BYTES = 256 * 1024
"""Largest request when a new connection is asked for everything."""


class Subscriptions:
    """The receiving half of a client."""

    def __init__(self, unreadable: Sink, awaiting: Callable[[], bool]) -> None:
        self._awaiting = awaiting
        self.routes = LocalRoutes(unreadable)
        # Both are sums over all subscriptions, from the beginning of the client.
        self.received_messages = 0
        self.received_bytes = 0
        self._frame_limit = FRAME_LIMIT_BYTES
        self._changes: Changes[list[Claim]] = Changes(SUBSCRIPTIONS, self.regulate)
        # Prefix or rule → the claim on it; it goes with its last subscription, or with a refusal.
        self._claims: dict[Wanted, Claim] = {}
        # All sinks that are subscribed; each is told of gaps and breaks, and of the end.
        self._sinks: dict[Sink, None] = {}
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
            text = f"{len(wanted)} prefixes take {size} bytes, the hub takes {self._frame_limit}; subscribe in portions"
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
        """Take the hub's answer; return an error if it refuses what an earlier connection had granted."""
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

    def disconnected(self, *, again: bool) -> None:
        self._changes.disconnected()
        if again:
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
    """Return the size of a want in a request, as JSON, and so rather too much."""
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
        # How many messages of this client the hub has lost since it was opened.
        self.lost_messages = 0
        # How often the connection was lost since it was opened.
        self.breaks = 0
        self._subscriptions = subscriptions
        self._decode = decode
        self._function = function
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
