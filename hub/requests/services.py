"""`Services`: the prefixes that are served, and for each those that serve it. `Participant`: its pending requests.

Of the prefixes that a topic begins with, the longest that is served wins. Services of this hub come before other hubs;
of these the one with the fewest pending requests wins, and equal ones take turns. Of other hubs of the mesh the nearest
gets the request: it goes to the link that leads there, and the hub at its other end chooses again.

The mesh gets exactly the prefixes that are served here, each once. A known topic is one dictionary hit,
another one a lookup in the multimap (about 10 µs); at most `COMPARED` services are compared.

```
requester's ids            ids issued to the service          every 10 ms
 7 ┐                        0 ┐                               ┌ bucket ┐
 8 │ one frame ── Block ──  1 │ first, issued, count, left    │ blocks │
 9 ┘                        2 ┘                               └────────┘
40   one frame ── Block ──  3
```

A frame of requests, or a part of it at one service, is one `Block` until the last of its requests is answered. Ids of
pending requests never overlap on either side. `_block.pyx` is the compiled twin of `PureBlock`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from operator import itemgetter
from typing import NamedTuple, TypeAlias

from sortedcontainers import SortedDict

from hub.errors import CloseCode, RejectedError
from hub.handlers.delivery import RemoteHub, Role
from hub.handlers.handler import Handler
from hub.handlers.holdings import Allowance
from hub.messages.request_frame import TRANSACTIONS, Reply, Request
from hub.policy.policy import Rights, prefix_not_granted
from hub.prefixes import Change, PrefixMultimap
from hub.quotas import Resource, Usage
from hub.topics import RESERVED, STORES, check_prefix, decode_topic

BUCKET_MS = 10  # Exactness of a time-out: a tenth of the shortest one in use, and 100 wake-ups a second at most


class Deadlines:
    """Buckets of blocks; `wake_at` is called with the time, ms, at which `take` is due next."""

    __slots__ = ("_armed", "_buckets", "_numbers", "_wake_at")

    def __init__(self, wake_at: Callable[[int], object]) -> None:
        self._wake_at = wake_at
        # Number of a bucket → the blocks that are due then. A bucket is there from its first block until `take` finds
        # it empty.
        self._buckets: dict[int, dict[Block, None]] = {}
        self._numbers: list[int] = []  # The numbers of all buckets, as a heap
        # The bucket that `wake_at` was called for last; infinite while nothing is to be waited for.
        self._armed: float = math.inf

    def bucket(self, due_ms: int) -> dict[Block, None]:
        number = -(-due_ms // BUCKET_MS)
        bucket = self._buckets.get(number)
        if bucket is None:
            bucket = self._buckets[number] = {}
            heappush(self._numbers, number)
            if number < self._armed:
                self._arm(number)
        return bucket

    @property
    def next_due_ms(self) -> int | None:
        """Return when to call `take` next; None if nothing is pending."""
        return None if math.isinf(self._armed) else int(self._armed) * BUCKET_MS

    def take(self, now_ms: int, most: int) -> list[Block]:
        """Take at most so many blocks that are due; where these are all, `wake_at` is called for the others."""
        taken: list[Block] = []
        self._armed = math.inf
        while self._numbers and len(taken) < most:
            number = self._numbers[0]
            bucket = self._buckets[number]
            if bucket:
                if number * BUCKET_MS > now_ms:
                    self._arm(number)
                    break
                some = [bucket.popitem()[0] for _ in range(min(len(bucket), most - len(taken)))]
                taken.extend(reversed(some))  # in the order in which they came
            else:
                heappop(self._numbers)
                del self._buckets[number]
        return taken

    def _arm(self, number: int) -> None:
        self._armed = number
        self._wake_at(number * BUCKET_MS)


_MASK = TRANSACTIONS - 1

# Answers each request of a frame exactly once, now or later: gets the handler that asks, the frame, and a function that
# takes a reply to so many of them, with the requester's own ids.
OwnService: TypeAlias = Callable[[Handler, Request, Callable[[Reply, int], object]], object]


class PureBlock:
    """Those requests of one frame that went to one service, until all of them are answered.

    It stands in the map (`Spans`) of the requester, in that of the service, and in the bucket of blocks that are due at
    the same time; only `enter` and `leave` write there.
    """

    __slots__ = ("answered", "asker", "bucket", "count", "first", "issued", "left", "responder")

    asker: Participant
    responder: Participant
    first: int  # Transaction id of the first, as the requester has it
    issued: int  # The same, as the service has it
    count: int
    left: int  # How many of them are pending; 0 when the block is settled
    answered: bytearray | None  # A byte for each, 1 for those that are not pending; None while all are
    bucket: dict[PureBlock, None]  # Blocks due at the same time; it is in it until it is settled or due

    def __init__(  # noqa: PLR0913, PLR0917 -- made for each request: by place is quicker than by name
        self,
        asker: Participant,
        responder: Participant,
        first: int,
        issued: int,
        count: int,
        bucket: dict[PureBlock, None],
    ) -> None:
        self.asker = asker
        self.responder = responder
        self.first = first
        self.issued = issued
        self.count = self.left = count
        self.answered = None
        self.bucket = bucket

    def enter(self) -> None:
        asker, responder = self.asker, self.responder
        if self.count == 1:
            asker.asked.singles[self.first] = responder.owed.singles[self.issued] = self
        else:
            asker.asked.ranges[self.first] = responder.owed.ranges[self.issued] = self
        asker.asked_requests += self.left
        responder.owed_requests += self.left
        self.bucket[self] = None

    def leave(self) -> None:
        """Take the block out of all three places: it is settled; no harm if it was settled before."""
        left = self.left
        if not left:
            return
        self.left = 0
        asker, responder = self.asker, self.responder
        if self.count == 1:
            del asker.asked.singles[self.first], responder.owed.singles[self.issued]
        else:
            del asker.asked.ranges[self.first], responder.owed.ranges[self.issued]
        asker.asked_requests -= left
        responder.owed_requests -= left
        bucket = self.bucket
        bucket.pop(self, None)  # a block that is due was taken out of it already
        if not bucket:
            bucket.clear()  # a dictionary that was large keeps its room otherwise

    def pending(self, start: int = 0, stop: int | None = None) -> list[tuple[int, int]]:
        """Return where pending requests begin and end, within places `start` to `stop` of the block."""
        stop = self.count if stop is None else stop
        answered = self.answered
        if answered is None:
            return [(start, stop)]
        found: list[tuple[int, int]] = []
        while (begin := answered.find(0, start, stop)) >= 0:
            start = answered.find(1, begin, stop)
            if start < 0:
                start = stop
            found.append((begin, start))
        return found

    def settle(self, start: int, stop: int) -> list[tuple[int, int]]:
        """Note that the places `start` to `stop` are answered; return which of them were pending."""
        if self.answered is None:
            if stop - start == self.count:
                self.leave()
                return [(start, stop)]
            self.answered = bytearray(self.count)
        fresh = self.pending(start, stop)
        settled = sum(end - begin for begin, end in fresh)
        if settled == self.left:
            self.leave()
        elif settled:
            for begin, end in fresh:
                self.answered[begin:end] = b"\x01" * (end - begin)
            self.left -= settled
            self.asker.asked_requests -= settled
            self.responder.owed_requests -= settled
        return fresh

    def part(self, start: int, stop: int) -> None:
        """Make two blocks: of the requests before `start`, and of those from `stop` on.

        The ids between are not pending, and the requester uses them again.
        """
        if self.answered is None or self.answered.find(0, start, stop) >= 0:
            raise ValueError("what is pending cannot be cut out of a block")
        answered = self.answered
        self.leave()
        for begin, end in ((0, start), (stop, len(answered))):
            rest = answered[begin:end]
            left = rest.count(0)
            if left:
                first = (self.first + begin) & _MASK
                block = PureBlock(self.asker, self.responder, first, self.issued + begin, len(rest), self.bucket)
                block.left = left
                block.answered = rest
                block.enter()


try:
    from hub.requests._block import Block as Block  # noqa: PLC0414 -- exported
except ImportError:  # not built: no compiler was there
    Block = PureBlock  # type: ignore[misc]


class Spans:
    """Blocks, found by an id of one of their requests."""

    __slots__ = ("_ranges", "singles")

    singles: dict[int, Block]  # Blocks of one request, by their id

    def __init__(self) -> None:
        self.singles = {}
        self._ranges: SortedDict | None = None  # Blocks of several requests, by their first id; None until there is one

    @property
    def ranges(self) -> SortedDict:
        if self._ranges is None:
            self._ranges = SortedDict()
        return self._ranges

    def blocks(self) -> list[Block]:
        return [*self.singles.values(), *(self._ranges.values() if self._ranges is not None else ())]

    def covering(self, number: int) -> tuple[Block, int] | None:
        """Return the block of several that `number` is in, and its place there, whether that is pending or not."""
        if not self._ranges:
            return None
        start, block = self._ranges.peekitem(self._ranges.bisect_right(number) - 1)  # -1: the last may go over the end
        place = (number - start) & _MASK
        return (block, place) if place < block.count else None

    def is_free(self, first: int, count: int) -> bool:
        """Return whether none of these ids is pending. A block whose answered part is in the way is cut in two."""
        if self.singles and not self._is_free_of_singles(first, count):
            return False
        if not self._ranges:
            return True
        overlaps = list(self._overlaps(first, count))
        for block, start, stop in overlaps:
            if block.answered is None or block.answered.find(0, start, stop) >= 0:
                return False
        if count > 1:
            for block, start, stop in overlaps:
                block.part(start, stop)
        return True

    def _is_free_of_singles(self, first: int, count: int) -> bool:
        if count == 1:
            return first not in self.singles
        end = first + count
        if not self.singles.keys().isdisjoint(range(first, min(end, TRANSACTIONS))):
            return False
        return end <= TRANSACTIONS or self.singles.keys().isdisjoint(range(end - TRANSACTIONS))

    def _overlaps(self, first: int, count: int) -> Iterator[tuple[Block, int, int]]:
        found = self.covering(first)
        if found is not None:
            block, place = found
            yield block, place, min(block.count, place + count)
        ranges = self.ranges
        index = ranges.bisect_right(first)
        for step in range(len(ranges)):
            start, block = ranges.peekitem((index + step) % len(ranges))
            distance = (start - first) & _MASK
            if not 0 < distance < count:
                break
            yield block, 0, min(block.count, count - distance)


@dataclass(slots=True, eq=False)
class Participant:
    """A handler as one that asks, and as one that serves."""

    handler: Handler
    is_link: bool = field(init=False)
    usage: Usage | None = field(init=False)  # Pending requests of its user; None where nothing is charged
    asked: Spans = field(default_factory=Spans)  # Its pending requests, by its own ids
    asked_requests: int = 0
    owed: Spans = field(default_factory=Spans)  # Pending requests to it, by the ids that the hub has issued
    owed_requests: int = 0
    issued_total: int = 0  # How many ids it was issued; the next one is that, modulo 2^32
    served: dict[str, int] = field(default_factory=dict)  # Prefix → how often it serves it; kept by `Services`
    own: OwnService | None = None  # Answers in its place, if it is a service of this process
    gone: bool = False  # Its handler has left: it gets no further request, and pending ones are settled in steps

    def __post_init__(self) -> None:
        handler = self.handler
        self.is_link = handler.is_link
        self.usage = None if handler.share is None else handler.share[Resource.PENDING_REQUESTS]

    def take_ids(self, count: int) -> int:
        """Return the first of so many consecutive ids that no pending request at this service has."""
        while True:
            first = self.issued_total & _MASK
            if first + count > TRANSACTIONS:  # a block does not go over the end
                self.issued_total += TRANSACTIONS - first
                continue
            self.issued_total += count
            if self.owed.is_free(first, count):  # not after 2^32 requests, if an old one is still pending
                return first

    def was_issued(self, number: int) -> bool:
        return (self.issued_total - 1 - number) & _MASK < self.issued_total


# How many services of a prefix are compared for a request: a few µs. Of more, those that are next in turn
COMPARED = 64
TOPICS_LIMIT = 65_536  # Most topics remembered; about 300 bytes each


_CHECKED_PER_STEP = 5  # Prefixes whose grants are checked in one step: 2 µs each
_how_far = itemgetter(0, 1)


class Serving(NamedTuple):
    """The services of a prefix."""

    # Clients of this hub, and services of this process, each with its pending requests
    handlers: list[tuple[Handler, int]]
    hubs: list[bytes]  # Other hubs of the mesh


@dataclass(slots=True, eq=False)
class _Served:
    prefix: str
    near: list[Participant] = field(default_factory=list)  # Services of this hub, in the order of their first `serving`
    hubs: list[RemoteHub] = field(default_factory=list)  # Other hubs of the mesh that serve it
    turn: int = 0  # The place behind the service that was chosen last: the next comparison begins there

    def __bool__(self) -> bool:
        return bool(self.near or self.hubs)

    def fewest(self) -> Participant | None:
        participants = self.near
        size = len(participants)
        if size == 1:
            return None if participants[0].gone else participants[0]
        chosen: Participant | None = None
        chosen_at = 0
        for place in range(self.turn, self.turn + min(size, COMPARED)):
            participant = participants[place % size]
            if not participant.gone and (chosen is None or participant.owed_requests < chosen.owed_requests):
                chosen, chosen_at = participant, place
                if not participant.owed_requests:
                    break
        self.turn = (chosen_at + 1) % size if size else 0
        return chosen


class Services:
    """The prefixes that are served."""

    __slots__ = ("_allowed", "_link_to", "_multimap", "_on_change", "_prefixes", "_targets")

    def __init__(self, allowed: Allowance[str], link_to: Callable[[bytes], tuple[int, Participant] | None]) -> None:
        self._link_to = link_to
        self._allowed = allowed
        # By prefix, to be found by a topic and by the prefix itself. It goes with its last service.
        self._multimap: PrefixMultimap[_Served] = PrefixMultimap()
        self._prefixes: dict[str, _Served] = {}
        # Topic → the prefixes of it that are served, the longest first. Forgotten whenever a prefix gets its first
        # service or loses its last, or there are too many.
        self._targets: dict[bytes, tuple[_Served, ...]] = {}
        self._on_change: Callable[[Change], object] = _untold  # Announces prefixes to the mesh

    def __len__(self) -> int:
        return len(self._prefixes)

    def prefixes(self) -> list[str]:
        return list(self._prefixes)

    def who_serves(self, prefix: str) -> Serving:
        served = self._prefixes.get(prefix)
        if served is None:
            return Serving([], [])
        return Serving(
            [(one.handler, one.owed_requests) for one in served.near],
            [far.hub for far in served.hubs],
        )

    def tell(self, on_change: Callable[[Change], object]) -> None:
        """Call `on_change` with the prefixes that are served here, now and with each change."""
        self._on_change = on_change
        served = tuple(prefix for prefix, one in self._prefixes.items() if one.near)
        if served:
            on_change(Change(added=served))

    def serving(self, participant: Participant, prefixes: list[str]) -> Iterator[None]:
        """Serve each prefix, all or none, in steps. A prefix that is served twice must be taken back twice.

        Raises:
            InvalidTopicError: One of them is no prefix.
            RejectedError: One is the hub's own, or not granted, or there would be too many.
        """
        for prefix in prefixes:
            if check_prefix(prefix).startswith(RESERVED):
                raise RejectedError(CloseCode.NOT_ALLOWED, f"prefix {prefix!r}: {RESERVED} is the hub's own")
            if prefix.startswith(STORES) and participant.handler.role is not Role.LOCAL:
                raise RejectedError(CloseCode.NOT_ALLOWED, f"prefix {prefix!r}: hubs alone have stores")
        handler = participant.handler
        rights = handler.rights
        if rights is not None:
            self._allowed.check(handler, participant.served, prefixes)
            yield from _checking(handler, rights, prefixes)
            if participant.gone:
                return
            if handler.rights is not rights:  # it was given others meanwhile
                yield from self.serving(participant, prefixes)
                return
        for prefix in self._allowed.taking(handler, participant.served, prefixes):
            self._add(participant, prefix)
            yield
            if participant.gone:
                return

    def unserving(self, participant: Participant, prefixes: list[str]) -> Iterator[None]:
        for prefix in prefixes:
            if self._allowed.give_back(participant.handler, participant.served, prefix):
                self._remove(participant, prefix)
                yield

    def take_away(self, participant: Participant, prefix: str) -> None:
        """Let a participant serve a prefix no more, however often it serves it."""
        if self._allowed.take_away(participant.handler, participant.served, prefix):
            self._remove(participant, prefix)

    def forgetting(self, participant: Participant) -> Iterator[None]:
        while participant.served:
            self._remove(participant, self._allowed.give_back_any(participant.handler, participant.served))
            yield

    def choose(self, topic: bytes, asker: Participant) -> Participant | None:
        """Return the service that gets a request for this topic, or the link that leads to one; None for none.

        Raises:
            InvalidTopicError: It is no topic.
        """
        found = self._targets.get(topic)
        if found is None:
            found = self._miss(topic)
        for served in found:
            chosen = served.fewest()
            if chosen is None and served.hubs:
                chosen = self._nearest(served.hubs, topic, asker)
            if chosen is not None:
                return chosen
        return None

    def _nearest(self, hubs: list[RemoteHub], topic: bytes, asker: Participant) -> Participant | None:
        """Return the link that leads to the nearest of some hubs, but not back to the asker.

        Each hub on the way finds the nearest one again, which is nearer each time: so a request comes to an end.
        """
        ways = [(way[0], far.hub, way[1]) for far in hubs if (way := self._link_to(far.hub)) is not None]
        for _, _, link in sorted(ways, key=_how_far):
            rights = link.handler.rights
            may_take = rights is None or rights.may(link.handler.acts.serving, topic.decode())
            if may_take and link is not asker and not link.gone:
                return link
        return None

    def _miss(self, topic: bytes) -> tuple[_Served, ...]:
        text = decode_topic(topic)
        found: list[_Served] = []
        if not text.startswith(RESERVED):  # the hub's own are not for a service of everything
            found = sorted(self._multimap.find(text), key=lambda served: -len(served.prefix))
            if text.startswith(STORES):  # nor are stores
                found = [served for served in found if served.prefix.startswith(STORES)]
        if len(self._targets) >= TOPICS_LIMIT:
            self._targets.clear()
        target = self._targets[topic] = tuple(found)
        return target

    def changing(self, far: RemoteHub, added: list[str], removed: list[str]) -> Iterator[None]:
        """Change what another hub of the mesh serves, in steps; new prefixes first, as they may replace many."""
        for prefix in added:
            if prefix not in far.served:
                far.served[prefix] = None
                self._of(prefix).hubs.append(far)
                yield
        for prefix in removed:
            if far.served.pop(prefix, far) is None:
                served = self._prefixes[prefix]
                served.hubs.remove(far)
                self._let_go(served)
                yield

    def _of(self, prefix: str) -> _Served:
        served = self._prefixes.get(prefix)
        if served is None:
            served = self._prefixes[prefix] = _Served(prefix)
            self._multimap.add(prefix, served)
            self._targets.clear()
        return served

    def _let_go(self, served: _Served) -> None:
        if not served:
            del self._prefixes[served.prefix]
            self._multimap.discard(served.prefix, served)
            self._targets.clear()

    def _add(self, participant: Participant, prefix: str) -> None:
        near = self._of(prefix).near
        near.append(participant)
        if len(near) == 1:
            self._on_change(Change(added=(prefix,)))

    def _remove(self, participant: Participant, prefix: str) -> None:
        served = self._prefixes[prefix]
        served.near.remove(participant)
        self._let_go(served)
        if not served.near:
            self._on_change(Change(removed=(prefix,)))


def _untold(_: Change) -> None:
    """Stand in for the mesh before the first link."""


def _checking(handler: Handler, rights: Rights, prefixes: list[str]) -> Iterator[None]:
    for number, prefix in enumerate(prefixes, 1):
        if not rights.may_all(handler.acts.serving, prefix):
            raise prefix_not_granted(rights, handler.acts.serving, prefix)
        if not number % _CHECKED_PER_STEP:
            yield
