"""`Busiest`: how many messages and bytes topics bring in a second, of so many topics as are kept: a sketch.

It is Space-Saving (Metwally, Agrawal, El Abbadi, 2005) over weights that fade: what came `FADE_S` seconds ago counts a
third (1/e) of what comes now. Where there is no place for a new topic, it takes the place of the quietest one, together
with its weight, which is how much too busy the new one may look.

```
        weight
/a  ████████████        all places are taken, and /d comes:      /a  ████████████
/b  ██████                                                       /b  ██████
/c  ██                                                           /d  ██▒       ██ was /c's (`excess`), ▒ is its own
```

Owner: `hub.census.Census`. Invariants, of what `add` was told, all of it faded by the same law:

* A topic that is kept weighs at least what it has brought, and at most `excess` more.
* `excess` is never more than all topics together have brought, divided by the number of places: with 4,096 places, a
  topic is said to be too busy by 1/4,096 of everything at most.
* A topic that has brought more than that part of everything is kept.
* Where places are taken away (`forget`), this holds on: a topic that comes then takes over what the heaviest of those
  weighed that had to go.
* How many messages and bytes a topic has brought since it is kept (`messages`, `bytes`) does not fade, and has no
  excess.

Fading costs nothing: what comes later weighs more (`_growth`), so that old weights need not be touched; once in half an
hour all of them are scaled down.

Cost: O(1) for a topic that is kept; O(log places) for one that takes another's place; about 0.4 KB a place, and the
topic. No clock: times are arguments, seconds of any clock that does not go back. Not here: which messages are looked
at.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator

__all__ = ["FADE_S", "Busiest", "Topic"]

FADE_S = 10.0
"""After so long a weight is 1/e of what it was, seconds: a rate follows within half a minute, and does not flicker."""

_HALF_TICK_S = 0.5
"""What comes between two ticks is taken as if it had come in the middle of a second, half of which has passed."""

_LARGEST_GROWTH = 1e100
"""Above this all weights are scaled down. A float has room for three times as many digits."""

_LONGEST_FADES = 200.0
"""After so many times `FADE_S` nothing is left of a weight, however much longer it is."""


class Topic:
    """One topic that is kept."""

    __slots__ = ("bytes", "excess", "held_bytes", "keys", "messages", "name", "since_s", "weight", "weight_bytes")

    def __init__(self, name: str, since_s: float, excess: float) -> None:
        self.name = name
        # Since when its messages and bytes are counted; `add` alone adds to both.
        self.since_s = since_s
        self.messages = 0.0
        self.bytes = 0.0
        # What it weighs, in units that grow with time; what of that it has taken over.
        self.weight = self.excess = excess
        self.weight_bytes = 0.0
        # Whatever else its owner knows it by, to be forgotten with it; and how much of memory that is, with the topic.
        self.keys: list[bytes] = []
        self.held_bytes = 0


class Busiest:
    """The busiest topics.

    Args:
        places: How many topics are kept, 1 or more.
        on_forgotten: Called with a topic that has lost its place.
    """

    def __init__(self, places: int, on_forgotten: Callable[[Topic], object]) -> None:
        self.places = places
        """How many there may be now."""
        self._on_forgotten = on_forgotten
        # By name; at most so many as there are places.
        self._topics: dict[str, Topic] = {}
        # Each topic once, with a number that tells equals apart, under what it weighed when it was put here: the first
        # one that still weighs that is the quietest.
        self._quietest: list[tuple[float, int, Topic]] = []
        # What the last topic weighed that had to go: none that is not kept weighs more.
        self._gone = 0.0
        # How many topics have lost their places; nothing takes away from it.
        self.forgotten_total = 0
        # What a message weighs now, and what all have weighed together.
        self._growth = math.exp(_HALF_TICK_S / FADE_S)
        self._whole = 0.0
        # When the last tick was; None before the first one. And the first.
        self._now_s: float | None = None
        self._began_s = 0.0

    def __len__(self) -> int:
        return len(self._topics)

    def __iter__(self) -> Iterator[Topic]:
        return iter(list(self._topics.values()))

    def get(self, name: str) -> Topic:
        """Return a topic, which takes the place of the quietest one if there is none for it."""
        topic = self._topics.get(name)
        if topic is not None:
            return topic
        if len(self._topics) >= self.places:
            self._forget_quietest()
        topic = self._topics[name] = Topic(name, self._now_s or 0.0, self._gone)
        heapq.heappush(self._quietest, (topic.weight, self.forgotten_total + len(self._topics), topic))
        return topic

    def forget(self, count: int) -> None:
        """Take the places of the quietest topics away, and give them to nobody."""
        for _ in range(min(count, len(self._topics))):
            self._forget_quietest()
        self.places = max(1, len(self._topics))

    def add(self, topic: Topic, messages: float, size_bytes: float) -> None:
        """Count what a topic has brought now."""
        growth = self._growth
        topic.messages += messages
        topic.bytes += size_bytes
        topic.weight += messages * growth
        topic.weight_bytes += size_bytes * growth
        self._whole += messages * growth

    def tick(self, now_s: float) -> None:
        """Let time pass; to be called about once a second."""
        if self._now_s is None:
            self._now_s = self._began_s = now_s
            return
        self._growth *= math.exp(min(_LONGEST_FADES, (now_s - self._now_s) / FADE_S))
        self._now_s = now_s
        if self._growth > _LARGEST_GROWTH:
            self._scale_down()

    def rates(self, topic: Topic, now_s: float) -> tuple[float, float, float]:
        """Return how many messages and bytes a topic brings in a second, and how many of those may not be its."""
        began_s = self._began_s if topic.excess else topic.since_s
        per_s = self._per_s(now_s, began_s)
        return topic.weight * per_s, topic.weight_bytes * per_s, topic.excess * per_s

    def whole_rate(self, now_s: float) -> float:
        """Return how many messages all topics bring in a second, those that are not kept with them."""
        return self._whole * self._per_s(now_s, self._began_s)

    def _per_s(self, now_s: float, began_s: float) -> float:
        """Return what a unit of weight is, messages a second, where counting has begun at some time."""
        last_s = self._now_s if self._now_s is not None else now_s
        age_s = max(1.0, now_s - began_s)
        growth = self._growth * math.exp(min(_LONGEST_FADES, (now_s - last_s - _HALF_TICK_S) / FADE_S))
        return 1 / (growth * FADE_S * -math.expm1(-age_s / FADE_S))

    def unkept_rate(self, now_s: float) -> float:
        """Return how many messages a second a topic may bring at most that is not kept; 0 if none had to go.

        It is what the quietest one brings that is kept, and so never more than all topics bring, divided by the places.
        """
        weight = self._gone if len(self._topics) < self.places else self._find_quietest().weight
        return weight * self._per_s(now_s, self._began_s)

    def _find_quietest(self) -> Topic:
        """Return the topic that weighs least, of which there is one, and put it at the head of the heap."""
        heap = self._quietest
        while True:
            weight, number, topic = heap[0]
            if topic.weight <= weight:
                return topic
            heapq.heapreplace(heap, (topic.weight, number, topic))

    def _forget_quietest(self) -> None:
        """Take the place of the quietest topic away."""
        topic = self._find_quietest()
        heapq.heappop(self._quietest)
        del self._topics[topic.name]
        self.forgotten_total += 1
        self._on_forgotten(topic)
        self._gone = topic.weight

    def _scale_down(self) -> None:
        growth = self._growth
        self._growth = 1.0
        self._whole /= growth
        self._gone /= growth
        for topic in self._topics.values():
            topic.weight /= growth
            topic.weight_bytes /= growth
            topic.excess /= growth
        # As they all are divided by the same number, they keep their order.
        self._quietest = [(weight / growth, number, topic) for weight, number, topic in self._quietest]
