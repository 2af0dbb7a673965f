"""`Attempts`: what a peer hub was told and has not answered yet, and what of it the peer has refused for now.

```
ask(items) ─▶ number ─▶ SUBSCRIBE, SERVE, RULE, NAMES ─▶ peer ─┬─ confirmed ──────▶ forgotten
                                                              ├─ error, 1013 ────▶ refused ─▶ some(), later
                                                              └─ another error ──▶ forgotten: it would be the same
```

A peer refuses with 1013 what there is no room for now: a limit of its user, or its memory. That is told again, and
until then it merges with what changes: what is not wanted any more is not told at all.

It takes all of a frame or nothing of it, and there may be room for a part. So after a refusal half as much is tried,
and after a confirmation twice as much, one frame at a time: a peer that stays full has one small frame to refuse each
time, whatever waits for it.

Owner: one kind of changes of one link. Invariants: an item stands under the number of the last frame that told of it,
or is refused, or neither; what is kept is bounded by what the peer was told and holds. Cost: 0.3 µs an item.

Not here: when it is tried again (`peers.links.outbox`), what changes (the parts of the outbox).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Generic, TypeVar

__all__ = ["Attempts"]

K = TypeVar("K")
V = TypeVar("V")


class Attempts(Generic[K, V]):
    """Items of one kind, each with what is told of it.

    Args:
        numbers: Gives each frame its number; those of one link come from one place.
        most: How many items a frame holds at most.
    """

    __slots__ = ("_frames", "_limit", "_most", "_number_of", "_numbers", "refused")

    def __init__(self, numbers: Iterator[int], most: int) -> None:
        self._numbers = numbers
        self._limit = most
        self._most = most
        """How many are tried at once, of those that were refused."""
        self._frames: dict[int, dict[K, V]] = {}
        """By number, what was told with a frame that is not answered yet; there are no empty ones."""
        self._number_of: dict[K, int] = {}
        """The number under which an item stands there."""
        self.refused: dict[K, V] = {}
        """What the peer does not have, though it is wanted: in the order in which it is tried again."""

    def ask(self, items: dict[K, V]) -> int:
        """Take note that items are told; return the number of the frame, which the peer answers."""
        for item in items:
            self.forget(item)
        number = next(self._numbers)
        self._frames[number] = items
        self._number_of.update(dict.fromkeys(items, number))
        return number

    def forget(self, item: K) -> None:
        """An item is told to be gone, or otherwise: what the peer answers to the frame before means nothing for it."""
        number = self._number_of.pop(item, None)
        if number is not None:
            items = self._frames[number]
            del items[item]
            if not items:
                del self._frames[number]

    def drop(self, item: K) -> bool:
        """Tell an item no more if it was refused; return whether it was, so that the peer does not have it."""
        if item not in self.refused:
            return False
        del self.refused[item]
        return True

    def confirm(self, number: int) -> bool:
        """The peer has taken a frame; return False if it is none of these."""
        items = self._answered(number)
        if items is None:
            return False
        self._most = min(self._limit, max(self._most, 2 * len(items)))
        return True

    def refuse(self, number: int, *, for_now: bool) -> list[K] | None:
        """The peer has not taken a frame; return what of it the peer does not have now, None if it is none of these.

        Args:
            number: Of the frame.
            for_now: Whether it may take the same later, so that it is told again.
        """
        items = self._answered(number)
        if items is None:
            return None
        if for_now:
            self.refused.update(items)
            self._most = max(1, len(items) // 2)
        return list(items)

    def some(self) -> dict[K, V]:
        """Return what is tried next of what was refused, and forget it."""
        some = dict(islice(self.refused.items(), self._most))
        for item in some:
            del self.refused[item]
        return some

    def _answered(self, number: int) -> dict[K, V] | None:
        items = self._frames.pop(number, None)
        for item in items or ():
            del self._number_of[item]
        return items
