"""`SpanTap`: follows some of what is published through this hub, and says what became of it: one `Span` each.

```
Census.look ─ one in `every` messages ───────▶ looked ─┐
route of a key with a traceparent ─ offer ─────────────┤─▶ begin ─▶ offers to all ─▶ flush: they write ─▶ Span ─▶ take
                                                       └─ more than `per_s`? counted, and not followed
```

Nothing is asked of a message for this. **One in `every`** is drawn among what the census looks at anyway
(`hub.census`), by how many messages each look stands for; so never more are than it looks at, some 1,000 a second. Of
several that are drawn of one read, the read is followed, once. **A message with a traceparent** (`hub.traceparent`) has
a routing key that nobody has used before, so that its route is looked up; there it is seen, and the tap becomes one of
the handlers of that route. So both cost a hub that follows nothing nothing, and a hub that does only what is followed.

A span begins as the message is offered to the first of those who want it, is *routed* when all that its read brought is
offered, and ends when these have written to their sockets, or it waits in their queues. Where they are more than write
at the end of a read (`hub.writers.FEW`), it ends when the line of that turn is done.

Owner: the core. Invariants: the tap never raises, never waits and drops nothing of anybody's; what it holds between
`begin` and the end of the turn is at most `per_s` spans.

Cost: 11 µs for each span that is drawn, 30 for one with a traceparent, beside what its new routing key costs, and
0.15 µs for each whom it reaches. Not here: where spans go (`peers.daemon.telemetry`).
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Final, NamedTuple

from hub.batch import Batch
from hub.delivery import Role, receivers
from hub.frame import BATCH_COUNT, FLAG_BATCH, FLAG_TAGGED, HEADER, HEADER_BYTES
from hub.handler import Handler
from hub.overflow import QueueLimits
from hub.routes import Route, Routes
from hub.runs import find_runs
from hub.tags.envelope import Envelope
from hub.traceparent import TraceParent, traceparent_of
from hub.writers import FEW, Writers

__all__ = ["Span", "SpanSource", "SpanTap"]

_WEIGHED: Final = 256
"""How many of those whom a message reaches are asked what they have lost, and whether something waits there: 30 ns
each."""

_CLIENT, _LEAF = Role.CLIENT, Role.LEAF

_SECOND_NS: Final = 1_000_000_000

_KEY_HEADER_BYTES: Final = 4
"""In front of it a frame has the length of its body, which is not for routing."""


class SpanSource(NamedTuple):
    """Who has published what is followed."""

    id: int
    name: str
    address: str
    role: Role


class Span(NamedTuple):
    """A message, or several that came behind one another, on the way through this hub."""

    topic: str
    """Of the first one."""
    parent: TraceParent | None
    """What it says of its trace; None where it says nothing."""
    source: SpanSource | None
    """Who has published it; None where it was followed for what it says of its trace, which names its publisher."""
    messages: int
    size_bytes: int
    """Of their frames."""
    subscribers: int
    """How many wanted it here: clients and leaves."""
    links: int | None
    """How many links it went on; None where nobody can tell."""
    waiting: int
    """At how many of the first 256 whom it reached something waits, after it."""
    dropped: int
    """How many messages the queues of these have lost as this was offered to them, older ones or this."""
    began_ns: int
    """When it was offered to the first one, ns since 1970."""
    routed_ns: int
    written_ns: int


class _Begun(NamedTuple):
    """What is known of a span before its end."""

    envelope: Envelope
    parent: TraceParent | None
    source: SpanSource | None
    messages: int
    size_bytes: int
    handlers: tuple[Handler, ...]
    links: int | None
    dropped_before: int
    began_ns: int


class _Piece(NamedTuple):
    """Frames behind one another with one routing key."""

    key: bytes
    messages: int
    size_bytes: int


class _Nowhere:
    """The outlet of a tap, which is given nothing."""

    def send(self, batches: list[Batch]) -> None:
        """Pass over what there never is."""

    def send_gap(self, lost_messages: int) -> None:
        """Pass over what there never is."""

    def close(self, code: int, text: str) -> None:
        """Nobody closes it."""


class SpanTap(Handler):
    """Follows some of what is published.

    Args:
        every: One of so many messages is followed; 0: only those that say what trace they belong to.
        per_s: Most spans in a second.
        take: Gets each span; must not wait, nor raise.
        now_ns: The time, ns since 1970.
        draw: Returns a random number from 0 up to 1.
    """

    __slots__ = (
        "_begun",
        "_draw",
        "_due",
        "_hub",
        "_left",
        "_now_ns",
        "_per_s",
        "_routes",
        "_second",
        "_seen",
        "_take",
        "_writers",
        "every",
        "skipped",
    )

    def __init__(
        self,
        every: int,
        per_s: int,
        take: Callable[[Span], object],
        now_ns: Callable[[], int],
        draw: Callable[[], float] = random.random,
    ) -> None:
        super().__init__(_Nowhere(), role=Role.LOCAL, limits=QueueLimits(), name="spans")
        self.every = every
        self._per_s = per_s
        self._take = take
        self._now_ns = now_ns
        self._draw = draw
        # About how many messages were looked at or stood for, and at how many the next one is followed.
        self._seen = 0.0
        self._due = self._gap()
        # In which second, since 1970, and how many more spans there may be in it.
        self._second, self._left = 0, per_s
        self.skipped = 0
        """How many were not followed, as there were too many in that second."""
        # What was offered in this read.
        self._begun: list[_Begun] = []
        self._routes: Routes | None = None
        self._writers: Writers | None = None
        self._hub = b""

    def begin_at(self, hub: bytes, routes: Routes, writers: Writers, on_dirty: Callable[[Handler], None]) -> None:
        """Belong to a core from now on. `Core.follow` calls it."""
        self._hub, self._routes, self._writers = hub, routes, writers
        self.attach(0, on_dirty, _pass_over)

    # What is drawn.

    def looked(self, source: Handler, batch: Batch, weight: float) -> None:
        """Follow what is looked at, if one of so many messages is in it; called before it is offered to anybody.

        Args:
            source: Who has published it.
            batch: A batch that the census looks at.
            weight: How many messages each of it stands for.
        """
        self._seen += batch.messages * weight
        if self._seen < self._due:
            return
        self._due = self._seen + self._gap()
        self._begin_looked(source, batch)

    def _gap(self) -> float:
        """Return how many messages the next one is away: each is drawn by itself."""
        if self.every <= 1:
            return 1.0 if self.every else math.inf
        return 1.0 + int(math.log(1.0 - self._draw()) / math.log1p(-1 / self.every))

    def _begin_looked(self, source: Handler, batch: Batch) -> None:
        """Follow the first run of a batch: where it has several topics, they may go different ways.

        Not where the tap is among those who get it, and follows it for its trace.
        """
        now_ns = self._now_ns()
        frames = batch.frames
        routes, ends, counts = find_runs(frames, 0, self._table, len(frames))
        if not routes:  # forgotten meanwhile, as if nobody had drawn it
            return
        route = routes[0]
        handlers = route.of_way(source.way) if source.is_link else receivers(source, route.handlers)
        if self in handlers or not self._may(now_ns):
            return
        by = SpanSource(source.id, source.name, source.address, source.role)
        key = _first_key(frames)
        self._begin(_envelope_of(key), by, _Piece(key, counts[0], ends[0]), handlers, now_ns, knows_links=True)

    # What says its trace.

    def offer(self, batch: Batch) -> None:
        """Follow what bears a traceparent, each message with one of its own by itself."""
        now_ns = self._now_ns()
        enters_here = batch.origin is None or batch.origin.hub == self._hub
        for piece in _pieces(batch.frames):
            if self._may(now_ns):
                route = self._table.get(piece.key)
                handlers = () if route is None else route.handlers if enters_here else route.near
                self._begin(_envelope_of(piece.key), None, piece, handlers, now_ns, knows_links=enters_here)

    # From the beginning to the end.

    @property
    def _table(self) -> dict[bytes, Route]:
        """Routing key → route; the routes change the table that they have."""
        return {} if self._routes is None else self._routes.table

    def _may(self, now_ns: int) -> bool:
        """Return whether one more may be followed in this second."""
        second = now_ns // _SECOND_NS
        if second != self._second:
            self._second, self._left = second, self._per_s
        if self._left <= 0:
            self.skipped += 1
            return False
        self._left -= 1
        return True

    def _begin(  # noqa: PLR0913 -- what is known of it
        self,
        envelope: Envelope,
        source: SpanSource | None,
        piece: _Piece,
        handlers: tuple[Handler, ...],
        now_ns: int,
        *,
        knows_links: bool,
    ) -> None:
        if self in handlers:
            place = handlers.index(self)
            handlers = handlers[:place] + handlers[place + 1 :]
        links = len([1 for one in handlers if one.is_link and one.id > 0]) if knows_links else None
        parent = traceparent_of(envelope.labels)
        if parent is not None and not parent.is_sampled:  # nobody has the trace that it would be a part of
            parent = None
        before = _dropped(handlers)
        self._begun.append(
            _Begun(envelope, parent, source, piece.messages, piece.size_bytes, handlers, links, before, now_ns)
        )
        if not self._dirty:
            self._dirty = True
            self._on_dirty(self)

    def flush(self) -> None:
        """Have those write whom a followed message has reached, if they are few, and see what has become of it."""
        self._dirty = False
        begun, self._begun = self._begun, []
        routed_ns = self._now_ns()
        writers = self._writers
        # Where one alone has reached many, nobody needs to know how many they are in all.
        is_wide = writers is not None and any(len(each.handlers) > FEW for each in begun)
        reached = set[Handler]() if is_wide else {one for each in begun for one in each.handlers}
        if writers is not None and (is_wide or len(reached) > FEW):
            writers.call_behind(partial(self._end, begun, routed_ns))
            return
        for one in reached:
            one.write_pending()
        self._end(begun, routed_ns)

    def _end(self, begun: list[_Begun], routed_ns: int) -> None:
        written_ns = self._now_ns()
        for each in begun:
            handlers = each.handlers
            self._take(
                Span(
                    each.envelope.topic,
                    each.parent,
                    each.source,
                    each.messages,
                    each.size_bytes,
                    len([1 for one in handlers if one.role is _CLIENT or one.role is _LEAF]),
                    each.links,
                    sum(one.queued_messages > 0 for one in islice(handlers, _WEIGHED)),
                    max(0, _dropped(handlers) - each.dropped_before),
                    each.began_ns,
                    routed_ns,
                    written_ns,
                )
            )


def _pass_over(_: Handler) -> None:
    """Stand in for whoever is told of drops: a tap drops nothing."""


def _dropped(handlers: tuple[Handler, ...]) -> int:
    """Return how many messages the first of some handlers have lost so far."""
    return sum(one.dropped_messages for one in islice(handlers, _WEIGHED))


def _envelope_of(key: bytes) -> Envelope:
    """Return what a routing key says; it was routed, so that it is one."""
    text = key[_KEY_HEADER_BYTES:]
    return Envelope.decode(text) if key[1] & FLAG_TAGGED else Envelope(text.decode())


def _first_key(frames: bytes) -> bytes:
    """Return the routing key of the first frame."""
    key_bytes = HEADER.unpack_from(frames)[3]
    return frames[_KEY_HEADER_BYTES : HEADER_BYTES + key_bytes]


def _pieces(frames: bytes) -> Iterator[_Piece]:
    """Yield the frames that have one routing key, and stand behind one another."""
    position, end = 0, len(frames)
    start, messages, key = 0, 0, b""
    while position < end:
        body_bytes, _, flags, key_bytes = HEADER.unpack_from(frames, position)
        body_start = position + HEADER_BYTES + key_bytes
        found = frames[position + _KEY_HEADER_BYTES : body_start]
        if found != key and messages:
            yield _Piece(key, messages, position - start)
            start, messages = position, 0
        key = found
        messages += BATCH_COUNT.unpack_from(frames, body_start)[0] if flags & FLAG_BATCH else 1
        position = body_start + body_bytes
    if messages:
        yield _Piece(key, messages, end - start)
