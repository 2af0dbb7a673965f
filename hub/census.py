"""`Census`: which topics bring how much, found out by looking at some of what is published.

```
publish(source, batch) ─ published_messages of the source ─ < look_at ─▶ (nothing else: a comparison a read)
                                                          └ ≥ look_at ─▶ look: all topics of the batch ─▶ hub.busiest
```

**What is looked at.** Of all messages that are published, each is drawn with the probability 1/`every`, by itself,
whatever it is and whatever came before; and whoever is drawn, its whole batch is looked at, which is cheap. A batch of
m messages is looked at with the probability p = 1 - (1 - 1/every)^m, so each of its messages counts 1/p. So on average
every topic is counted as often as it comes, whatever batches look like and whoever publishes in which rhythm (Horvitz
and Thompson, 1952).

**How many.** `every` is 1 as long as that costs little: then all is counted, and nothing is estimated. When what is
looked at in a second is more than `WORK_PER_S`, it doubles, at once; when it is less than a quarter of that, it halves
with the next second, and is drawn anew for everybody, which whoever draws each message by itself may do at any time. So
looking costs about 0.2 % of a processor at most, however many messages there are.

**How well.** When n batches are looked at in `FADE_S` seconds, the rate of a topic that is in a part s of them is off
by about √((1 - s) / (s·n)) of itself (one standard deviation): with n = 8,000, by 1 % for a topic in half of the
batches, by 11 % for one in 1 % of them. What the sketch adds to that is in `hub.busiest`.

**How much memory.** `PLACE_BYTES` for each topic, and its name; `_KEY_BYTES` for each routing key by which it is found
at once, and the key. Keys of all topics together take `KEY_BYTES_A_PLACE` for each place at most, however long their
labels are: a topic whose key has no room is counted as well, only slower. With the default of 4,096 places that is
2.5 MB for topics of 40 characters, and 10 MB at most. All of it is charged to the account that is given. Where there is
too little memory, the quietest are forgotten (`forget`), and there are fewer places for `BACK_S` seconds.

Owner: the core; which message of a handler is looked at next stands on the handler. Cost: of a look, 2 µs and 0.5 µs
for each topic that alternates with others. Not here: what people are shown (`hub.topic_tree`).
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable

from hub.batch import Batch
from hub.busiest import Busiest, Topic
from hub.frame import BATCH_COUNT, FLAG_BATCH, FLAG_TAGGED, HEADER, HEADER_BYTES, topic_of
from hub.handler import Handler
from hub.limits import CoreLimits
from hub.memory import Account, Memory
from hub.stretch import find_runs

__all__ = ["BACK_S", "KEPT_TOPICS", "KEY_BYTES_A_PLACE", "PLACE_BYTES", "WORK_PER_S", "Census"]

WORK_PER_S = 4_000
"""Units of work in a second, of about 0.5 µs."""

_WORK_A_LOOK = 4
_WORK_A_NEW_KEY = 8
_MESSAGES_PER_WORK = 8
"""A look costs so many units, a key that is not known so many more, a run one; so many messages are one."""

_KEYS = 8
_TAGGED_KEYS = 4
"""By so many routing keys a topic is found at once. Without labels it has four at most, with them any number."""

PLACE_BYTES = 410
_KEY_BYTES = 110
"""What a topic, and one of its keys, take beside their text, as measured."""

KEY_BYTES_A_PLACE = 1024
"""So much is there for the keys of one place, on average: six keys of 40 bytes, where most topics have one."""

KEPT_TOPICS = 100
"""So many of the busiest are never forgotten for want of memory, 250 KB at most: then they say what takes it."""

BACK_S = 100
"""In so many seconds all places are there again, which were taken away: with one hundredth of them each second."""

_FORGOTTEN_AT_ONCE = 5_000
"""Most topics that are forgotten in one go, 3 µs each."""

_UNKNOWN_LIMIT = 1_000
_THINNED = 16
"""So many frames of one batch are looked at whose keys are not known, 4 µs each; of what is behind them one of so
many, for all of them: so a read of 25,000 topics that are new each time takes 20 ms, once."""

_MOST_EVERY = 1 << 40


class Census:
    """How much topics bring.

    Args:
        places: How many topics are counted; 0 for none: then nothing is ever looked at.
        draw: Returns a random number from 0 up to 1.
        account: Is charged what all of it takes; one of its own if None.
    """

    def __init__(
        self,
        places: int = CoreLimits().counted_topics,
        draw: Callable[[], float] = random.random,
        account: Account | None = None,
    ) -> None:
        self._account = Memory().account("topics") if account is None else account
        self.busiest = Busiest(max(1, places), self._forget)
        self.is_on = places > 0
        # How many may be counted where there is memory.
        self._places = max(1, places)
        self._draw = draw
        # One of how many messages is drawn; 1 means that all are counted.
        self.every = 1
        # Routing key → its topic, for topics that are kept.
        self._by_key: dict[bytes, Topic] = {}
        # How much these keys take, and may take.
        self._key_bytes = 0
        self._key_limit_bytes = places * KEY_BYTES_A_PLACE
        # What was done since the last tick, and with how much `every` doubles.
        self._work = 0
        self._enough = WORK_PER_S
        # How many batches were looked at; nothing takes away from it.
        self.looks_total = 0
        self.on_look: Callable[[Handler, Batch, float], object] | None = None
        """Is shown each batch that is looked at, before anybody is offered it, with its source, and how many messages
        each of it stands for; None: nobody is."""

    def draw_for(self, source: Handler) -> None:
        """Draw which of the messages that a handler publishes from now on is the next one that is looked at.

        Of what another process of this hub passes on, none is: it was published there, and is counted there.
        """
        if self.is_on and not source.is_inner:
            source.look_every = self.every
            source.look_at = source.published_messages + self._gap()

    def look(self, source: Handler, batch: Batch) -> None:
        """Count what a batch brings, as a message of it was drawn, and draw the next one."""
        every = source.look_every
        weight = 1.0 if every == 1 else -1 / math.expm1(batch.messages * math.log1p(-1 / every))
        self.looks_total += 1
        if self.on_look is not None:
            self.on_look(source, batch, weight)
        self._work += self._count(batch.frames, weight) + batch.messages // _MESSAGES_PER_WORK + _WORK_A_LOOK
        while self._work > self._enough and self.every < _MOST_EVERY:
            self.every *= 2
            self._enough += WORK_PER_S // 4
        self.draw_for(source)

    def tick(self, now_s: float, sources: Iterable[Handler]) -> None:
        """Let a second pass.

        Args:
            now_s: The time, of any clock that does not go back.
            sources: All who may publish: if more is looked at from now on, it is drawn for each of them anew.
        """
        busiest = self.busiest
        busiest.tick(now_s)
        if busiest.places < self._places:
            busiest.places = min(self._places, busiest.places + self._places // BACK_S + 1)
        is_idle = self._work < WORK_PER_S // 4
        self._work, self._enough = 0, WORK_PER_S
        if self.every > 1 and is_idle:
            self.every //= 2
            for source in sources:
                self.draw_for(source)

    @property
    def size_bytes(self) -> int:
        """How much memory all of it takes."""
        return self._account.size_bytes

    def forget(self, wanted_bytes: int) -> int:
        """Forget the quietest topics, as there is too little memory; return how much that has freed.

        Args:
            wanted_bytes: How much would be enough. `KEPT_TOPICS` stay, however much that is.
        """
        before = self._account.size_bytes
        surplus = min(len(self.busiest) - KEPT_TOPICS, _FORGOTTEN_AT_ONCE)
        while surplus > 0 and (left := wanted_bytes - (before - self._account.size_bytes)) > 0:
            some = min(surplus, left // PLACE_BYTES // 8 + 1)  # none takes less, some much more
            surplus -= some
            self.busiest.forget(some)
        return before - self._account.size_bytes

    def _gap(self) -> int:
        """Return how many messages the next one is away, 1 or more: each is drawn by itself."""
        return 1 if self.every == 1 else 1 + int(math.log(1.0 - self._draw()) / math.log1p(-1 / self.every))

    def _count(self, frames: bytes, weight: float) -> int:
        """Count all topics of some frames; return how much work that was."""
        busiest, by_key = self.busiest, self._by_key
        position = work = unknown = 0
        end = len(frames)
        while position < end:
            topics, ends, counts = find_runs(frames, position, by_key, end)
            for topic, stop, messages in zip(topics, ends, counts, strict=True):
                busiest.add(topic, messages * weight, (stop - position) * weight)
                position = stop
            work += len(topics)
            if topics:
                continue
            if unknown == _UNKNOWN_LIMIT:
                return work + self._count_some(frames, position, weight)
            position = self._add_frame(frames, position, weight)
            unknown += 1
            work += _WORK_A_NEW_KEY
        return work

    def _count_some(self, frames: bytes, position: int, weight: float) -> int:
        """Count one of `_THINNED` frames from some place on, for all of them; return how much work that was."""
        work, unpack, draw = 0, HEADER.unpack_from, self._draw
        while position < len(frames):
            work += 1
            if draw() < 1 / _THINNED:
                position = self._add_frame(frames, position, weight * _THINNED)
                work += _WORK_A_NEW_KEY
            else:
                body_bytes, _, _, key_bytes = unpack(frames, position)
                position += HEADER_BYTES + key_bytes + body_bytes
        return work

    def _add_frame(self, frames: bytes, position: int, weight: float) -> int:
        """Count one frame, and know its key from now on, if there is room; return where it ends."""
        body_bytes, _, flags, key_bytes = HEADER.unpack_from(frames, position)
        body_start = position + HEADER_BYTES + key_bytes
        key = frames[position + 4 : body_start]
        name = topic_of(flags, key[4:])
        topic = self.busiest.get(name.decode(errors="replace"))
        if not topic.held_bytes:
            self._charge(topic, PLACE_BYTES + len(name))
        if len(topic.keys) < (_TAGGED_KEYS if flags & FLAG_TAGGED else _KEYS) and key not in self._by_key:
            self._remember(key, topic)
        messages = BATCH_COUNT.unpack_from(frames, body_start)[0] if flags & FLAG_BATCH else 1
        stop: int = body_start + body_bytes
        self.busiest.add(topic, messages * weight, (stop - position) * weight)
        return stop

    def _remember(self, key: bytes, topic: Topic) -> None:
        """Find a topic by this key from now on, if there is room for it."""
        size_bytes = _KEY_BYTES + len(key)
        if self._key_bytes + size_bytes <= self._key_limit_bytes:
            self._key_bytes += size_bytes
            self._charge(topic, size_bytes)
            topic.keys.append(key)
            self._by_key[key] = topic

    def _charge(self, topic: Topic, size_bytes: int) -> None:
        topic.held_bytes += size_bytes
        self._account.charge(size_bytes)

    def _forget(self, topic: Topic) -> None:
        for key in topic.keys:
            del self._by_key[key]
            self._key_bytes -= _KEY_BYTES + len(key)
        self._account.charge(-topic.held_bytes)
