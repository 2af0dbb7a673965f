"""Which blocks and topics a reader wants: listings of blocks, and `Selection`, the prefixes of one reader.

A listing has up to `LISTED_LIMIT` texts, one a line, such that each topic of the block begins with one of them: the
topics themselves if they are few, else their first components. A reader skips blocks whose listing has no match.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from hub.errors import JournalCorruptError

LISTED_LIMIT = 64  # a site's logs have about as many topics; 64 of 20 bytes are 1.3 KiB beside 1 MiB
_SEPARATOR = "\n"  # no topic holds a control character
_REMEMBERED = 1_024  # cached answers by listing, each up to 1 KiB


def listing(topics: Iterable[str]) -> bytes:
    return _SEPARATOR.join(sorted(_shortened(set(topics)))).encode()


def listed_texts(listed: bytes) -> list[str]:
    try:
        return listed.decode().split(_SEPARATOR)
    except UnicodeDecodeError as error:
        raise JournalCorruptError("a list of topics that is not text") from error


def counted_in_short(topics: Counter[str]) -> tuple[tuple[tuple[str, int], ...], bool]:
    """Return counts by topic, or of too many topics by text of their listing; and whether by topic."""
    is_whole = len(topics) <= LISTED_LIMIT
    if not is_whole:
        texts = sorted(_shortened(set(topics)))
        counts: Counter[str] = Counter()
        for topic, count in topics.items():
            counts[next(text for text in texts if topic.startswith(text))] += count
        topics = counts
    return tuple(sorted(topics.items())), is_whole


def _shortened(texts: set[str]) -> set[str]:
    """Keep as many components as give few enough texts. Fewer never give more texts, so bisection finds the number."""
    if len(texts) <= LISTED_LIMIT:
        return texts
    fits, too_many = -1, max(text.count("/") for text in texts)
    best = {""}
    while too_many - fits > 1:
        slashes = (fits + too_many) // 2
        cut = {_cut(text, slashes) for text in texts}
        if len(cut) > LISTED_LIMIT:
            too_many = slashes
        else:
            fits, best = slashes, cut
    return best


def _cut(text: str, slashes: int) -> str:
    parts = text.split("/", slashes + 1)
    return text if len(parts) <= slashes + 1 else text[: -len(parts[-1]) - 1]


class Selection:
    """The prefixes of topics that one reader wants; a lookup takes 0.4 µs for one prefix as for 10,000.

    The prefixes are sorted, and none begins with another. So the only one that a text can begin with is its neighbour
    to the left, and the first that begins with a text is its neighbour to the right. `may_read` says whether a topic is
    granted to the reader; None: all are.
    """

    __slots__ = ("_answers", "_may_read", "_prefixes")

    def __init__(self, prefixes: Iterable[str], may_read: Callable[[str], bool] | None = None) -> None:
        self._may_read = may_read
        self._answers: dict[bytes, bool] = {}  # cache of `may_hold`: neighbours have the same listings
        self._prefixes: list[str] = []
        for prefix in sorted(prefixes):
            if not self._prefixes or not prefix.startswith(self._prefixes[-1]):
                self._prefixes.append(prefix)

    @property
    def prefixes(self) -> tuple[str, ...]:
        """The prefixes, sorted, without those that another one covers."""
        return tuple(self._prefixes)

    @property
    def is_all(self) -> bool:
        return self._prefixes == [""] and self._may_read is None

    def holds(self, topic: str) -> bool:
        return self._begins(topic) and (self._may_read is None or self._may_read(topic))

    def _begins(self, topic: str) -> bool:
        place = bisect_right(self._prefixes, topic)
        return place > 0 and topic.startswith(self._prefixes[place - 1])

    def marks(self, topics: Sequence[str]) -> bytes:
        """Return one byte for each topic, 0 if it is not wanted, for `hub.journal.block.select`."""
        if self.is_all:
            return b"\x01" * len(topics)
        return bytes([self.holds(topic) for topic in topics])

    def may_hold(self, listed: bytes) -> bool:
        """Return whether a block with this listing may hold a wanted topic, granted or not."""
        answer = self._answers.get(listed)
        if answer is None:
            answer = self.is_all or self.may_hold_any(listed_texts(listed))
            if len(self._answers) < _REMEMBERED:
                self._answers[listed] = answer
        return answer

    def may_hold_any(self, texts: Iterable[str]) -> bool:
        """Return whether a topic that begins with one of these texts may be wanted."""
        return any(self._begins(text) or self._continues(text) for text in texts)

    def may_hold_between(self, least: str, most: str) -> bool:
        """Return whether a topic may be wanted that sorts neither before `least` nor behind `most`."""
        if self._begins(least):
            return True
        place = bisect_left(self._prefixes, least)
        return place < len(self._prefixes) and self._prefixes[place] <= most

    def _continues(self, text: str) -> bool:
        place = bisect_left(self._prefixes, text)
        return place < len(self._prefixes) and self._prefixes[place].startswith(text)
