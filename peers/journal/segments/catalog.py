"""`Catalog`: the segments of a journal, for who reads them: which there are, and those that are open.

Owner: one thread. Invariants: what it shows changes only with `refresh`; then a segment that was deleted is not shown
any more, and one that was joined with others (`peers.journal.segments.tidying`) is opened anew. Bound: `_OPEN_LIMIT`
segments are open, those that were used last.
"""

from __future__ import annotations

import os
import time
from bisect import bisect_right
from collections import OrderedDict
from typing import NamedTuple

from hub.errors import JournalUnavailableError
from peers.journal.segments.folder import check_is_folder, firsts, segment_path, translated
from peers.journal.segments.segment import Segment

__all__ = ["Catalog", "Summary"]

_OPEN_LIMIT = 16
"""Most sealed segments that are held open: each a descriptor, and 0.3 KiB a block."""


_COARSE_NS = 2_000_000_000
"""How long after a change of the folder another one may bear the same time: some file systems count seconds."""


class Summary(NamedTuple):
    """What a segment holds as a whole."""

    latest_us: int
    """The time of its latest record, µs since 1970; 0 if there is none."""
    is_whole: bool
    """Whether no block is missing in it, nor between it and the next segment."""
    end: int | None
    """Where the next segment begins: another one where this one was joined with those behind it."""


class Catalog:
    """The segments of a journal.

    Args:
        path: Path of the folder.

    Raises:
        JournalCorruptError: It is no journal.
        JournalUnavailableError: There is none, or it cannot be read.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        check_is_folder(path)
        # First offsets of all segments, ascending; the last one is the newest.
        self.firsts: list[int] = []
        # Segments that are open, the one that was used last behind the others.
        self._open: OrderedDict[int, Segment] = OrderedDict()
        # What was found of sealed segments, by their first offsets; those that are deleted are forgotten.
        self._summaries: dict[int, Summary] = {}
        # When the folder was changed last, as of the last look, ns.
        self._changed_ns = -1
        # True once `close` was called.
        self._is_closed = False
        self.refresh()

    def close(self) -> None:
        """Close all files."""
        self._is_closed = True
        for segment in self._open.values():
            segment.close()
        self._open.clear()

    def refresh(self) -> None:
        """See which segments there are now, and what was committed; open the newest.

        Raises:
            JournalCorruptError, JournalUnavailableError: The journal cannot be read.
        """
        if self._is_closed:
            raise JournalUnavailableError(f"{self.path}: closed")
        with translated(self.path):
            changed_ns = os.stat(self.path).st_mtime_ns  # noqa: PTH116 -- at every answer
            if changed_ns != self._changed_ns or abs(time.time_ns() - changed_ns) < _COARSE_NS:
                self._list()
                self._changed_ns = changed_ns
            self.segment(len(self.firsts) - 1)
            for segment in self._open.values():
                segment.refresh()  # nothing to do where it is sealed

    def _list(self) -> None:
        """See which segments there are; forget those that are not, or that others were put in the place of.

        Raises:
            JournalUnavailableError: There is none any more.
            OSError: The folder cannot be read.
        """
        self.firsts = firsts(self.path)
        if not self.firsts:
            raise JournalUnavailableError(f"{self.path}: its segments are gone")
        for first, segment in list(self._open.items()):
            if not segment.is_in_place:
                self._open.pop(first).close()
        for first in set(self._summaries).difference(self.firsts):
            del self._summaries[first]

    def segment(self, number: int) -> Segment:
        """Return a segment, open.

        Args:
            number: Its place in `firsts`.

        Raises:
            JournalUnavailableError: It is one of another version, or cannot be read now.
        """
        first = self.firsts[number]
        segment = self._open.get(first)
        if segment is None:
            with translated(segment_path(self.path, first)):
                segment = self._open[first] = Segment(self.path, first)
            while len(self._open) > _OPEN_LIMIT:
                self._open.popitem(last=False)[1].close()
        self._open.move_to_end(first)
        return segment

    def number_of(self, offset: int) -> int:
        """Return the place in `firsts` of the segment that holds an offset, or should."""
        return max(0, bisect_right(self.firsts, offset) - 1)

    def end_of(self, number: int) -> int | None:
        """Return where the segment behind one begins; None behind the newest."""
        return self.firsts[number + 1] if number + 1 < len(self.firsts) else None

    def summary(self, number: int) -> Summary:
        """Return what a segment holds as a whole.

        Raises:
            JournalUnavailableError: It cannot be read now.
        """
        first, end = self.firsts[number], self.end_of(number)
        known = self._summaries.get(first)
        if known is not None and known.end == end:
            return known
        segment = self.segment(number)
        is_whole = segment.is_whole and segment.next == (end or segment.next)
        summary = Summary(segment.latest_us, is_whole, end)
        if segment.is_sealed:
            self._summaries[first] = summary
        return summary
