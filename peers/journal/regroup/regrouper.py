"""`Regrouper`: chooses sealed segments, the newest first, and has them laid anew, one at a time.

```
step:  choose ─▶ lay anew ─▶ read back ─▶ offered ... the owner of the folder takes it, or not ─▶ step
```

It writes files with names of its own and never touches a segment: whoever owns the folder gives a new file the old
one's name (`peers.journal.store`). A file that nobody has taken is deleted by the next regrouper, or when the folder is
taken.

Which segments are done is written in their headers. Those that cannot be laid anew, as some of it is damaged, stay as
they are, and are tried again by the next process.

Owner: one process (`peers.journal.regroup.process`). Bound: one segment at a time, and so one file more in the folder.
Cost: `peers.journal.segments.laying`; to choose, a look at the folder and at the heads of segments it has not seen.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from enum import Enum, auto

from hub.errors import JournalCorruptError, JournalUnavailableError, StorageError
from hub.journal.segment.header import HEADER_BYTES, Header
from peers.journal.segments.codec import Compressor
from peers.journal.segments.folder import firsts, identity, segment_path, stands, translated
from peers.journal.segments.laying import FORM, LEAST_BYTES, Laid, check_laid, lay_anew
from peers.journal.segments.segment import Segment
from peers.journal.whole_file import MAKING

__all__ = ["Regrouper", "Stage"]

_SPARE_BYTES = 64 * 1024 * 1024
"""What must be free beside a segment's length before it is laid anew: the hub records on meanwhile."""

_OURS = ".anew.seg" + MAKING
"""How the names of our files end, so that those that were left behind are known."""


class Stage(Enum):
    """What a step has come to."""

    OFFERED = auto()
    """A segment waits to be given its place."""
    DONE = auto()
    """All segments are laid anew that can be."""
    SETTLED = auto()
    """What was offered has its place, or was not wanted, or a segment was passed over: there may be more to do."""


class Regrouper:
    """Lays the segments of one journal anew.

    Args:
        path: Path of the journal.
        compresses: Whether blocks are compressed.
        least_bytes: Shorter segments stay as they are.

    Raises:
        JournalUnavailableError: It cannot be read.
    """

    def __init__(self, path: str, *, compresses: bool, least_bytes: int = LEAST_BYTES) -> None:
        self._path = path
        self._compresses = compresses
        self._least_bytes = least_bytes
        self.offered: Laid | None = None
        """A segment that waits for its place."""
        # Length of what it was made of, bytes.
        self._offered_from_bytes = 0
        # Segments that are not looked at again, by their first offset and what the file is known by.
        self._seen: set[tuple[int, tuple[int, int]]] = set()
        self.laid = 0
        """How many were laid anew, and have their places."""
        self.before_bytes = 0
        """What these took before."""
        self.after_bytes = 0
        self.skipped = 0
        """How many were passed over, as they are damaged."""
        with translated(path):
            for name in os.listdir(path):  # noqa: PTH208 -- names alone
                if name.endswith(_OURS):
                    os.unlink(f"{path}/{name}")  # noqa: PTH108

    def close(self) -> None:
        """Delete what waits for its place: whoever would give it that has ended."""
        if self.offered is not None:
            with suppress(OSError):
                os.unlink(self.offered.path)  # noqa: PTH108
            self.offered = None

    def step(self, breathe: Callable[[], None]) -> Stage:
        """Lay one segment anew, or see what has become of the last one.

        Args:
            breathe: Called several times a second; it may raise, to give up.

        Raises:
            JournalUnavailableError: There is too little room, or the disk fails: it may be tried again.
        """
        with translated(self._path):
            if self.offered is not None:
                return self._settle(self.offered)
            first = self._choose()
            if first is None:
                return Stage.DONE
            return self._lay(first, breathe)

    def _settle(self, offered: Laid) -> Stage:
        """See whether what was offered has its place."""
        if stands(offered.path, offered.new):
            return Stage.OFFERED
        if stands(segment_path(self._path, offered.first), offered.new):
            self.laid += 1
            self.before_bytes += self._offered_from_bytes
            self.after_bytes += offered.size_bytes
        self.offered = None
        return Stage.SETTLED

    def _choose(self) -> int | None:
        """Return the first offset of a segment that is to be laid anew; None if there is none."""
        there: set[tuple[int, tuple[int, int]]] = set()
        chosen = None
        for first in reversed(firsts(self._path)[:-1]):  # the newest is written to
            try:
                known = first, identity(os.stat(segment_path(self._path, first)))  # noqa: PTH116
            except FileNotFoundError:
                continue
            there.add(known)
            if known not in self._seen and not self._is_done(first):
                chosen = first
                break
            self._seen.add(known)
        else:
            self._seen &= there
        return chosen

    def _is_done(self, first: int) -> bool:
        """Return whether there is nothing to do for a segment: it is laid anew, too short, or no segment at all."""
        with open(segment_path(self._path, first), "rb") as file:  # noqa: PTH123
            if os.fstat(file.fileno()).st_size < self._least_bytes:
                return True
            try:
                return Header.parse(file.read(HEADER_BYTES)).form == FORM
            except StorageError:
                return True

    def _lay(self, first: int, breathe: Callable[[], None]) -> Stage:
        try:
            segment = Segment(self._path, first)
        except FileNotFoundError:
            return Stage.SETTLED  # deleted, or joined with the one before it
        try:
            return self._laid(segment, breathe)
        except JournalCorruptError:
            self.skipped += 1
            self._seen.add((first, segment.id))
            return Stage.SETTLED
        finally:
            segment.close()

    def _laid(self, segment: Segment, breathe: Callable[[], None]) -> Stage:
        size_bytes = segment.size_bytes
        self._check_room(size_bytes)
        path = f"{self._path}/{segment.first}.{os.getpid()}{_OURS}"
        try:
            lay_anew(segment, path, Compressor(is_on=self._compresses, is_patient=True), breathe)
            check_laid(segment, path, breathe)
            made = os.stat(path)  # noqa: PTH116
        except BaseException:
            with suppress(OSError):
                os.unlink(path)  # noqa: PTH108
            raise
        self.offered = Laid(segment.first, segment.id, path, identity(made), made.st_size)
        self._offered_from_bytes = size_bytes
        return Stage.OFFERED

    def _check_room(self, size_bytes: int) -> None:
        """See to it that the hub has room left while a segment stands there twice.

        Raises:
            JournalUnavailableError: It would have too little.
        """
        room = os.statvfs(self._path)
        if room.f_bavail * room.f_frsize < size_bytes + _SPARE_BYTES:
            mib = (size_bytes + _SPARE_BYTES) >> 20
            raise JournalUnavailableError(f"{self._path}: less than {mib} MiB are free, which it takes meanwhile")
