"""`Shelf`: the files of one journal in a tier, and the manifest that names them (`peers.journal.tier.sheets`).

```
put(file, entry)     data/A-B.parquet ─ read back, compared ─▶ manifest/A-B.json        from now on it counts
join()               [A-B][B-C] ... of 256 sheets ─▶ [A-Z]     then the 256 are deleted
drop(before)         the sheets without them, written ─▶ the old sheets deleted ─▶ the files deleted
sweep(named)         files that no sheet names are deleted: what a crash has left behind
```

Whatever step is the last one before a crash, the manifest names files that are whole, and no more than twice.

Owner: of what is written, one process (`peers.journal.tier.copier`); readers have shelves of their own, which only
read.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from itertools import groupby

import pyarrow as pa

from hub.errors import JournalCorruptError
from hub.journal.manifest import Entry, range_name, range_of
from peers.journal.tier.parquet import Opened
from peers.journal.tier.place import AbsentError, Place
from peers.journal.tier.sheets import Part, Sheets, Totals
from peers.journal.whole_file import MAKING

__all__ = ["JOINED_SHEETS", "Shelf", "data_name", "file_name"]

JOINED_SHEETS = 256
"""So many sheets of one file each become one: a reader that comes asks for as many at most, and one more for each so
many files."""

_JOINED_BYTES = 2 * 1024 * 1024
"""The same of their text, bytes: where files have thousands of topics, fewer of them become one."""

_DATA = ".parquet"


def data_name(journal: bytes, entry: Entry) -> str:
    """Return the name of a file, within the tier."""
    return file_name(journal, (entry.first, entry.next))


def file_name(journal: bytes, reach: tuple[int, int]) -> str:
    """The same of a file that no sheet may name.

    Args:
        journal: Id of the journal.
        reach: The offset that it begins with, and the one that it ends before.
    """
    return f"{journal.hex()}/data/{range_name(*reach)}{_DATA}"


class Shelf:
    """The files of one journal in a tier.

    Args:
        place: Where the tier stands.
        journal: Id of the journal.
    """

    def __init__(self, place: Place, journal: bytes) -> None:
        self.place = place
        self.journal = journal
        self.sheets = Sheets(place, journal)
        """What it holds, as of the last look."""

    def refresh(self) -> None:
        """See what there is now.

        Raises:
            TierUnavailableError: It cannot be read now.
        """
        self.sheets.refresh()

    @property
    def first(self) -> int | None:
        """The oldest offset that it holds; None if there is none."""
        return self.sheets.first

    @property
    def next(self) -> int | None:
        """The offset behind the newest; None if there is none."""
        return self.sheets.next

    def entries(self, start: int = 0) -> Iterator[Entry]:
        """Yield what is known of each file that ends behind an offset, in order.

        Raises:
            JournalCorruptError: The manifest is damaged.
            TierUnavailableError: It cannot be read now.
        """
        return self.sheets.entries(start)

    def totals(self) -> Totals:
        """Return what the manifest says of all files together. Raises as `entries`."""
        found = Totals()
        for part in self.sheets.parts:
            found = found.plus(self.sheets.totals(part))
        return found

    def flaw_of(self, entry: Entry) -> str:
        """Read all of a file; return what is wrong with it, empty if nothing is.

        Raises:
            TierUnavailableError: It cannot be read now.
        """
        try:
            self._check(entry)
        except AbsentError:
            return "there is no such file"
        except JournalCorruptError as error:
            return str(error)
        return ""

    def _check(self, entry: Entry) -> None:
        """Read all of a file.

        Raises:
            JournalCorruptError: It is not what was written.
            TierUnavailableError: It cannot be read now.
        """
        read = self.place.read(data_name(self.journal, entry))
        if sha256(read).hexdigest() != entry.sha256:
            raise JournalCorruptError("the checksum of the file does not match")
        Opened(pa.BufferReader(read), entry, self.journal).check()

    # What only the owner does.

    def put(self, data: bytes | memoryview, entry: Entry) -> None:
        """Put a file there, see that it is what it should be, and name it in the manifest.

        Args:
            data: The file.
            entry: What is known of it; it follows what is there.

        Raises:
            JournalCorruptError: What stands there is not what was written; no sheet names it.
            TierUnavailableError: It cannot be written or read now; no sheet names it, as far as is known.
        """
        name = data_name(self.journal, entry)
        self.place.write(name, data)
        try:
            self._check(entry)
        except JournalCorruptError as error:
            raise JournalCorruptError(f"{self.place.address}: {name}: reads as something else: {error}") from error
        self.sheets.write((entry,))

    def join(self) -> None:
        """Make one sheet of many small ones, where there are enough of them.

        Raises:
            JournalCorruptError: One of them is damaged.
            TierUnavailableError: They cannot be written now; the manifest is as it was.
        """
        for part in [part for part in self.sheets.parts if len(part.sheets) > 1]:
            self._replace([part], 0)  # what a crash has left behind
        for is_small, found in groupby(list(self.sheets.parts), self._is_small):
            small = list(found) if is_small else []
            while (count := _joined(small)) > 1:
                self._replace(small[:count], 0)
                small = small[count:]

    def _is_small(self, part: Part) -> bool:
        return self.sheets.totals(part).files == 1

    def _replace(self, parts: list[Part], start: int) -> None:
        """Write what some parts say of files that end behind an offset as one sheet, in place of theirs."""
        entries = [entry for part in parts for entry in self.sheets.manifest(part).entries if entry.next > start]
        new = (entries[0].first, entries[-1].next) if entries else None
        if entries:
            self.sheets.write(tuple(entries))
        for sheet in [sheet for part in parts for sheet in part.sheets]:
            if sheet[:2] != new:
                self.sheets.delete(sheet)

    def drop(self, before: int) -> None:
        """Leave out the files that end before an offset, or there, and delete them.

        Raises:
            JournalCorruptError: The manifest is damaged there.
            TierUnavailableError: Not all of that could be done; `sweep` does the rest.
        """
        sheets = self.sheets
        dropped: list[Entry] = []
        for part in [part for part in sheets.parts if part.first < before]:
            dropped += [entry for entry in sheets.manifest(part).entries if entry.next <= before]
            self._replace([part], before)
        for entry in dropped:
            self.place.delete(data_name(self.journal, entry))

    def sweep(self, first: int) -> int:
        """Delete what a crash has left behind; return how many files.

        These are files before what is kept, and behind what the manifest names. One in its midst was named once, and
        its sheet is lost: it stays.

        Args:
            first: What ends here or before was deleted on purpose.

        Raises:
            TierUnavailableError: Not all of that could be done.
        """
        following = self.next or 0
        stray = [name for name in self.place.sizes(self._folder) if _is_stray(name, first, following)]
        for name in stray:
            self.place.delete(f"{self._folder}/{name}")
        return len(stray)

    def unnamed(self, first: int, following: int) -> Iterator[tuple[int, int]]:
        """Yield the files within a range of offsets that no sheet names, by their offsets, in order.

        Raises:
            JournalCorruptError: The manifest is damaged.
            TierUnavailableError: It cannot be read now.
        """
        for reach in sorted(filter(None, map(_reach_of, self.place.sizes(self._folder)))):
            if first <= reach[0] and reach[1] <= following:
                entry = self.sheets.entry_of(reach[0])
                if entry is None or (entry.first, entry.next) != reach:
                    yield reach

    @property
    def _folder(self) -> str:
        return f"{self.journal.hex()}/data"


def _joined(small: list[Part]) -> int:
    """Return how many sheets of one file each become one, as the next step; 0 or 1: there are too few."""
    size_bytes = 0
    for count, part in enumerate(small, 1):
        size_bytes += part.size_bytes
        if count >= JOINED_SHEETS or size_bytes >= _JOINED_BYTES:
            return max(count, 2) if len(small) > 1 else 0
    return 0


def _reach_of(name: str) -> tuple[int, int] | None:
    """Return the offsets of a file of records; None if it is no such file."""
    return range_of(name.removesuffix(_DATA)) if name.endswith(_DATA) else None


def _is_stray(name: str, first: int, following: int) -> bool:
    reach = _reach_of(name)
    if reach is None:
        return name.endswith(_DATA + MAKING)
    return reach[0] >= following or reach[1] <= first
