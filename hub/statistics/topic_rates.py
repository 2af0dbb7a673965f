"""`TopicRates`: how many messages and bytes the busiest topics bring a second.

```
publish(source, batch) ─ published_messages of the source ─ < look_at ─▶ (a comparison a read, nothing else)
                                                          └ ≥ look_at ─▶ look: a counter for each topic of the batch
tick, once a second: counters ─▶ rates
```

At low rates each read is counted. At higher rates one read in about `every` messages of its source is counted, and
stands for all messages of the source since the read before it. `every` follows the work of the last second, so that
counting costs 0.2 % of a processor at most. Of more than `TOPICS` topics the quietest lose their counters.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import NamedTuple

from hub.handlers.handler import NEVER, Handler
from hub.messages.batch import Batch
from hub.messages.frame import BATCH_COUNT, FLAG_BATCH, HEADER, HEADER_BYTES, topic_of
from hub.messages.stretch import find_runs
from hub.scheduling.memory import Account, Memory

TOPICS = 4_096

KEYS_BYTES = 4 << 20  # When the routing keys take more than this, all are dropped, and found again at 4 µs each

KEPT_TOPICS = 100  # So many of the busiest keep their counters when memory is short: they show the cause

FADE_S = 10.0  # A rate is the mean since the topic was first seen, and after so many seconds one that fades

WORK_PER_S = 4_000  # Units of work in a second, of about 0.5 µs

_WORK_A_LOOK = 4
_WORK_A_NEW_KEY = 8
_MESSAGES_PER_WORK = 8
_NEW_KEYS_A_LOOK = 1_000  # Of a read with more new topics, the rest is not counted: 4 µs each

_COUNTER_BYTES = 300
_KEY_BYTES = 110  # Memory of a counter and of a routing key beside their text, as measured

_by_rate = attrgetter("messages_per_s", "new_messages")


class Counter:
    """The messages and bytes of one topic."""

    __slots__ = ("bytes_per_s", "messages", "messages_per_s", "name", "new_bytes", "new_messages", "since_s")

    def __init__(self, name: str, since_s: float) -> None:
        self.name = name
        # Until the tick before.
        self.messages = self.messages_per_s = self.bytes_per_s = 0.0
        # Since then.
        self.new_messages = self.new_bytes = 0.0
        self.since_s = since_s


class TopicRates:
    """A counter for each of the busiest topics."""

    def __init__(self, account: Account | None = None, draw: Callable[[], float] = random.random) -> None:
        self._account = Memory().account("topics") if account is None else account
        self._draw = draw
        self._topics: dict[str, Counter] = {}
        # Routing key → its counter, for `find_runs`.
        self._by_key: dict[bytes, Counter] = {}
        self._keys_bytes = self._topics_bytes = 0
        self._now_s: float | None = None
        # One read in about so many messages of a source is counted; 1: each.
        self.every = 1
        self._work = 0
        # With how much work `every` doubles.
        self._enough = WORK_PER_S

    def __len__(self) -> int:
        return len(self._topics)

    def __iter__(self) -> Iterator[Counter]:
        return iter(list(self._topics.values()))

    def look(self, source: Handler, batch: Batch) -> None:
        """Count the topics of a read, for all messages of its source since the last look, and set when the next is.

        A message that another process of this hub passes on is counted there.
        """
        published = source.published_messages
        if source.is_inner:
            source.look_at = NEVER
            return
        if not batch.messages:  # all of it was refused
            return
        weight = (published - source.looked_messages) / batch.messages
        self._work += self._count(batch.frames, weight) + batch.messages // _MESSAGES_PER_WORK + _WORK_A_LOOK
        while self._work > self._enough:
            self.every *= 2
            self._enough += WORK_PER_S // 4
        source.looked_messages = published
        source.look_at = published + int(self.every * (0.5 + self._draw()))

    def tick(self, now_s: float, sources: Iterable[Handler]) -> None:
        """Turn counts into rates; to be called about once a second.

        Args:
            now_s: The time, of any monotonic clock.
            sources: All that may publish: where reads are counted more often from now on, theirs are.
        """
        seconds = 0.0 if self._now_s is None else now_s - self._now_s
        self._now_s = now_s
        if seconds > 0:
            for one in self._topics.values():
                share = min(1.0, seconds / min(FADE_S, max(seconds, now_s - one.since_s)))
                one.messages_per_s += (one.new_messages / seconds - one.messages_per_s) * share
                one.bytes_per_s += (one.new_bytes / seconds - one.bytes_per_s) * share
                one.messages += one.new_messages
                one.new_messages = one.new_bytes = 0.0
        if len(self._topics) >= TOPICS:
            self._keep(TOPICS * 3 // 4)
        is_idle = self._work < WORK_PER_S // 4
        self._work, self._enough = 0, WORK_PER_S
        if self.every > 1 and is_idle:
            self.every //= 2
            for source in sources:
                source.look_at = min(source.look_at, source.published_messages + self.every)

    @property
    def size_bytes(self) -> int:
        return self._topics_bytes + self._keys_bytes

    def forget(self) -> int:
        """Drop all counters but those of the busiest topics, as memory is short; return how much that has freed."""
        before = self.size_bytes
        self._keep(KEPT_TOPICS)
        return before - self.size_bytes

    def _count(self, frames: bytes, weight: float) -> int:
        position = work = unknown = 0
        end = len(frames)
        while position < end and unknown < _NEW_KEYS_A_LOOK:
            counters, ends, counts = find_runs(frames, position, self._by_key, end)
            for counter, stop, messages in zip(counters, ends, counts, strict=True):
                counter.new_messages += messages * weight
                counter.new_bytes += (stop - position) * weight
                position = stop
            work += len(counters)
            if not counters:
                position = self._count_frame(frames, position, weight)
                unknown += 1
                work += _WORK_A_NEW_KEY
        return work

    def _count_frame(self, frames: bytes, position: int, weight: float) -> int:
        body_bytes, _, flags, key_bytes = HEADER.unpack_from(frames, position)
        body_start = position + HEADER_BYTES + key_bytes
        key = frames[position + 4 : body_start]
        stop: int = body_start + body_bytes
        name = topic_of(flags, key[4:]).decode(errors="replace")
        counter = self._topics.get(name)
        if counter is None:
            if len(self._topics) >= TOPICS:
                return stop  # there is room after the next tick
            counter = self._topics[name] = Counter(name, self._now_s or 0.0)
            self._topics_bytes += _COUNTER_BYTES + len(name)
        if self._keys_bytes + _KEY_BYTES + len(key) > KEYS_BYTES:
            self._by_key.clear()
            self._keys_bytes = 0
        if key not in self._by_key:
            self._by_key[key] = counter
            self._keys_bytes += _KEY_BYTES + len(key)
        self._account.update(self.size_bytes)
        messages = BATCH_COUNT.unpack_from(frames, body_start)[0] if flags & FLAG_BATCH else 1
        counter.new_messages += messages * weight
        counter.new_bytes += (stop - position) * weight
        return stop

    def _keep(self, count: int) -> None:
        busiest = sorted(self._topics.values(), key=_by_rate, reverse=True)[:count]
        self._topics = {one.name: one for one in busiest}
        self._by_key = {key: one for key, one in self._by_key.items() if one.name in self._topics}
        self._topics_bytes = sum(_COUNTER_BYTES + len(name) for name in self._topics)
        self._keys_bytes = sum(_KEY_BYTES + len(key) for key in self._by_key)
        self._account.update(self.size_bytes)


class Rate(NamedTuple):
    """The rate of one topic."""

    topic: str
    messages_per_s: float
    bytes_per_s: float
    messages: float  # Since it has its counter

    def plus(self, other: Rate) -> Rate:
        return Rate(self.topic, *(one + another for one, another in zip(self[1:], other[1:], strict=True)))


class Node(NamedTuple):
    """One row of the tree of topics: a prefix that ends with a slash, or a topic."""

    prefix: str
    is_topic: bool
    topics: int
    messages_per_s: float
    bytes_per_s: float
    messages: float


class Others(NamedTuple):
    """The rows for which there is no room, together."""

    nodes: int
    topics: int
    messages_per_s: float
    bytes_per_s: float


_by_messages = attrgetter("messages_per_s", "messages", "prefix")


def nodes_under(prefix: str, rates: Iterable[Rate]) -> list[Node]:
    """Return the rows right under a prefix, the busiest first: topics by their components.

    A slash in front belongs to the first component.
    """
    sums: dict[tuple[str, bool], list[float]] = {}
    for one in rates:
        if not one.topic.startswith(prefix):
            continue
        cut = one.topic.find("/", max(1, len(prefix)))
        key = (one.topic, True) if cut < 0 else (one.topic[: cut + 1], False)
        held = sums.setdefault(key, [0, 0.0, 0.0, 0.0])
        for place, figure in enumerate((1, *one[1:])):
            held[place] += figure
    return _sorted(Node(name, is_topic, int(held[0]), *held[1:]) for (name, is_topic), held in sums.items())


def found(text: str, rates: Iterable[Rate]) -> list[Node]:
    """Return the topics with a text in them, case-insensitively, the busiest first."""
    wanted = text.casefold()
    return _sorted(Node(one.topic, True, 1, *one[1:]) for one in rates if wanted in one.topic.casefold())


def first_of(nodes: list[Node], limit: int) -> tuple[list[Node], Others | None]:
    rest = nodes[limit:]
    if not rest:
        return nodes, None
    return nodes[:limit], Others(
        len(rest),
        sum(node.topics for node in rest),
        sum(node.messages_per_s for node in rest),
        sum(node.bytes_per_s for node in rest),
    )


def _sorted(nodes: Iterable[Node]) -> list[Node]:
    return sorted(nodes, key=_by_messages, reverse=True)
