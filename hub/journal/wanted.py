"""`Wanted`: the prefixes of one reader, so that asking whether a topic is among them costs the same for one or 10,000.

They are kept sorted, and none of them begins with another. So the only one that a text can begin with is its neighbour
to the left: anything sorted between the two would begin with it as well. And the first that begins with a text, if any
does, is its neighbour to the right.

Frozen, but for what it has answered, which it remembers: neighbours have the same listings. Cost: O(log n) a question,
about 0.4 µs; of a listing that for each of its texts, and 0.1 µs when it comes again.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence

from hub.journal.listing import listed_texts

__all__ = ["Wanted"]

_REMEMBERED = 1_024
"""Listings whose answer is remembered, each of some bytes up to 1 KiB: of a reader's blocks, and of their parts."""


class Wanted:
    """The prefixes of topics that one reader wants.

    Args:
        prefixes: One or more.
        may_read: Whether a topic is granted to the reader; None: all are.
    """

    __slots__ = ("_answers", "_may_read", "_prefixes")

    def __init__(self, prefixes: Iterable[str], may_read: Callable[[str], bool] | None = None) -> None:
        self._may_read = may_read
        # What `may_hold` has answered.
        self._answers: dict[bytes, bool] = {}
        # In their order, without those that another one covers.
        self._prefixes: list[str] = []
        for prefix in sorted(prefixes):
            if not self._prefixes or not prefix.startswith(self._prefixes[-1]):
                self._prefixes.append(prefix)

    @property
    def prefixes(self) -> tuple[str, ...]:
        """Return the prefixes, in their order, without those that another one covers."""
        return tuple(self._prefixes)

    @property
    def is_all(self) -> bool:
        """Return whether every topic is wanted."""
        return self._prefixes == [""] and self._may_read is None

    def holds(self, topic: str) -> bool:
        """Return whether a topic is wanted, and granted."""
        return self._begins(topic) and (self._may_read is None or self._may_read(topic))

    def _begins(self, topic: str) -> bool:
        """Return whether a topic begins with one of the prefixes."""
        place = bisect_right(self._prefixes, topic)
        return place > 0 and topic.startswith(self._prefixes[place - 1])

    def marks(self, topics: Sequence[str]) -> bytes:
        """Return one byte for each topic, 0 if it is not wanted, for `hub.journal.block.select`."""
        if self.is_all:
            return b"\x01" * len(topics)
        return bytes([self.holds(topic) for topic in topics])

    def may_hold(self, listed: bytes) -> bool:
        """Return whether a block with this listing (`hub.journal.listing`) may hold a topic that is wanted.

        What is granted is not asked: a listing has beginnings of topics, and says nothing of what may be read.
        """
        answer = self._answers.get(listed)
        if answer is None:
            answer = self.is_all or self.may_hold_any(listed_texts(listed))
            if len(self._answers) < _REMEMBERED:
                self._answers[listed] = answer
        return answer

    def may_hold_any(self, texts: Iterable[str]) -> bool:
        """Return whether something that begins with one of these texts may be wanted."""
        return any(self._begins(text) or self._continues(text) for text in texts)

    def may_hold_between(self, least: str, most: str) -> bool:
        """Return whether a topic may be wanted that sorts neither before `least` nor behind `most`."""
        if self._begins(least):
            return True
        place = bisect_left(self._prefixes, least)
        return place < len(self._prefixes) and self._prefixes[place] <= most

    def _continues(self, text: str) -> bool:
        """Return whether one of the prefixes begins with `text`: then what begins with `text` may be wanted."""
        place = bisect_left(self._prefixes, text)
        return place < len(self._prefixes) and self._prefixes[place].startswith(text)
