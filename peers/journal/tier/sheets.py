"""`Sheets`: the manifest of a journal's tier, read sheet by sheet: of a large tier, a small part is in memory.

```
names of sheets ─▶ [part][part] ... [part]     of each: offsets, from its name       0.5 KiB, all of them in memory
                      │
                      └─▶ its sheets, read and compared ─▶ entries                   the last ones that were used
```

A *part* is a sheet; or, while sheets are written anew (`hub.journal.manifest`), those that speak of the same offsets. A
sheet that is damaged costs what it speaks of, and nothing else.

Owner: one thread or process. Invariants: parts ascend and do not overlap; no more than `KEPT_BYTES` of sheets are kept,
and one part however large it is. Cost: a listing at each look; of a part that is not kept, reading and 15 µs an entry.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

from hub.errors import JournalCorruptError, StorageError
from hub.journal.manifest import Entry, Manifest, encode_sheet, parse_sheet, range_name, range_of
from peers.journal.tier.place import AbsentError, Place

__all__ = ["KEPT_BYTES", "Part", "Sheet", "Sheets", "Totals"]

KEPT_BYTES = 8 * 1024 * 1024
"""Most sheets that are kept, bytes of their text; in memory they take about six times as much."""

_LOOKS = 3
"""How often it is looked which sheets there are, for one that is not there any more."""

_SUFFIX = ".json"


class Sheet(NamedTuple):
    """A sheet, as a listing has it."""

    first: int
    next: int
    """The offset behind the last that it speaks of."""
    size_bytes: int

    @property
    def name(self) -> str:
        """What its file is called."""
        return f"{range_name(self.first, self.next)}{_SUFFIX}"


class Part(NamedTuple):
    """Sheets that speak of the same offsets: as a rule one."""

    first: int
    next: int
    sheets: tuple[Sheet, ...]

    @property
    def size_bytes(self) -> int:
        """Length of its sheets."""
        return sum(sheet.size_bytes for sheet in self.sheets)


class Totals(NamedTuple):
    """What is said of some files together."""

    files: int = 0
    size_bytes: int = 0
    offsets: int = 0
    """How many they have, or should have."""
    latest_us: int = 0

    def plus(self, other: Totals) -> Totals:
        """Return both together."""
        files, size_bytes, offsets = self.files + other.files, self.size_bytes + other.size_bytes, self.offsets
        return Totals(files, size_bytes, offsets + other.offsets, max(self.latest_us, other.latest_us))


class Sheets:
    """The manifest of one journal.

    Args:
        place: Where the tier stands.
        journal: Id of the journal.
        kept_bytes: Most sheets that are kept, bytes of their text.
    """

    def __init__(self, place: Place, journal: bytes, kept_bytes: int = KEPT_BYTES) -> None:
        self._place = place
        self._journal = journal
        self._folder = f"{journal.hex()}/manifest"
        self._limit_bytes = kept_bytes
        self.parts: list[Part] = []
        """What there is, as of the last look, in the order of offsets."""
        # Parts that were read; the one that was used last behind the others; and the length of their sheets.
        self._kept: OrderedDict[Part, Manifest] = OrderedDict()
        self._kept_bytes = 0
        # What each part that was ever read says of its files together.
        self._totals: dict[Part, Totals] = {}
        self.reads_total = 0
        """How many parts were read so far."""

    def refresh(self) -> None:
        """See which sheets there are now.

        Raises:
            TierUnavailableError: They cannot be listed now.
        """
        found = []
        for name, size in self._place.sizes(self._folder).items():
            reach = range_of(name.removesuffix(_SUFFIX))
            if name.endswith(_SUFFIX) and reach is not None and reach[0] < reach[1]:
                found.append(Sheet(*reach, size))
        self._set(found)

    def _set(self, sheets: Iterable[Sheet]) -> None:
        """Take these for all that there are."""
        self.parts = list(_parts(sorted(sheets)))
        present = set(self.parts)
        self._totals = {part: totals for part, totals in self._totals.items() if part in present}
        for part in [part for part in self._kept if part not in present]:
            self._forget(part)

    def _forget(self, part: Part) -> None:
        del self._kept[part]
        self._kept_bytes -= part.size_bytes

    @property
    def first(self) -> int | None:
        """The oldest offset that it speaks of; None if there is none."""
        return self.parts[0].first if self.parts else None

    @property
    def next(self) -> int | None:
        """The offset behind the newest; None if there is none."""
        return self.parts[-1].next if self.parts else None

    def place_of(self, offset: int) -> int:
        """Return the place in `parts` of the first one that ends behind an offset; their number if none does."""
        return bisect_right(self.parts, offset, key=_next_of)

    def manifest(self, part: Part) -> Manifest:
        """Return what a part says.

        Raises:
            JournalCorruptError: It is damaged.
            TierUnavailableError: It cannot be read now.
        """
        found = self._kept.get(part)
        if found is None:
            self.reads_total += 1
            found = Manifest(chain.from_iterable(self._read(sheet) for sheet in part.sheets))
            self._keep(part, found)
        self._kept.move_to_end(part)
        return found

    def _keep(self, part: Part, manifest: Manifest) -> None:
        self._kept[part] = manifest
        self._kept_bytes += part.size_bytes
        self._totals[part] = _totals_of(manifest.entries)
        while self._kept_bytes > self._limit_bytes and len(self._kept) > 1:
            self._forget(next(iter(self._kept)))

    def _read(self, sheet: Sheet) -> tuple[Entry, ...]:
        path = f"{self._folder}/{sheet.name}"
        try:
            entries = parse_sheet(self._place.read(path), self._journal)
            if not entries or (entries[0].first, entries[-1].next) != (sheet.first, sheet.next):
                raise JournalCorruptError("a sheet of other offsets than its name says")
        except StorageError as error:
            raise type(error)(f"{self._place.address}: {path}: {error}") from error
        return entries

    def _found(self, offset: int) -> tuple[Part, Manifest] | None:
        """Return the first part that ends behind an offset, and what it says; None if none does. Raises as `manifest`.

        A sheet may have become part of another one since the last look: then there is another look.
        """
        for _ in range(_LOOKS):
            place = self.place_of(offset)
            if place == len(self.parts):
                return None
            try:
                return self.parts[place], self.manifest(self.parts[place])
            except AbsentError as error:
                absent = error
                self.refresh()
        raise absent

    def entry_of(self, offset: int) -> Entry | None:
        """Return the file that holds an offset, or should; None if none does. Raises as `manifest`."""
        place = self.place_of(offset)
        if place == len(self.parts) or self.parts[place].first > offset:
            return None
        entry = next(self.entries(offset), None)
        return entry if entry is not None and entry.first <= offset else None

    def following(self, offset: int) -> int | None:
        """Return the first offset from this one on that there is a file of; None if there is none.

        A part that is damaged is taken to have one of each.

        Raises:
            TierUnavailableError: It cannot be read now.
        """
        try:
            entry = next(self.entries(offset), None)
        except JournalCorruptError:
            return max(offset, self.parts[self.place_of(offset)].first)
        return None if entry is None else max(offset, entry.first)

    def entries(self, start: int = 0, since_us: int = 0) -> Iterator[Entry]:
        """Yield what is known of each file that ends behind an offset, in order. Raises as `manifest`.

        Args:
            start: The offset.
            since_us: Parts may be left out all of whose records are older.
        """
        position = start
        while (place := self.place_of(position)) < len(self.parts):
            known = self._totals.get(self.parts[place])
            if known is not None and known.latest_us < since_us:
                position = self.parts[place].next
                continue
            found = self._found(position)
            if found is None:
                return
            part, manifest = found
            yield from manifest.entries[manifest.place_of(position) :]
            position = part.next

    def totals(self, part: Part) -> Totals:
        """Return what a part says of its files together. Raises as `manifest`."""
        if part not in self._totals:
            self.manifest(part)
        return self._totals[part]

    def damaged(self) -> list[Sheet]:
        """Return the sheets that cannot be what was written; all of them are read.

        Raises:
            TierUnavailableError: They cannot be read now.
        """
        return [sheet for sheet in self._sheets() if self._is_damaged(sheet)]

    def _is_damaged(self, sheet: Sheet) -> bool:
        try:
            self._read(sheet)
        except JournalCorruptError:
            return True
        return False

    # What only the owner does.

    def set_aside(self, sheets: Iterable[Sheet]) -> None:
        """Go on as if these were not there, until the next look."""
        gone = set(sheets)
        self._set([sheet for sheet in self._sheets() if sheet not in gone])

    def write(self, entries: tuple[Entry, ...]) -> None:
        """Write a sheet.

        Raises:
            TierUnavailableError: It cannot be written now.
        """
        data = encode_sheet(self._journal, entries)
        sheet = Sheet(entries[0].first, entries[-1].next, len(data))
        self._place.write(f"{self._folder}/{sheet.name}", data)
        others = [other for other in self._sheets() if other[:2] != sheet[:2]]
        self._set([*others, sheet])

    def delete(self, sheet: Sheet) -> None:
        """Delete a sheet.

        Raises:
            TierUnavailableError: That cannot be done now.
        """
        self._place.delete(f"{self._folder}/{sheet.name}")
        self._set([other for other in self._sheets() if other != sheet])

    def _sheets(self) -> Iterator[Sheet]:
        return chain.from_iterable(part.sheets for part in self.parts)


def _parts(sheets: Iterable[Sheet]) -> Iterator[Part]:
    """Yield parts of sheets that are in the order of their offsets."""
    together: list[Sheet] = []
    end = 0
    for sheet in sheets:
        if together and sheet.first >= end:
            yield Part(together[0].first, end, tuple(together))
            together = []
        together.append(sheet)
        end = max(end, sheet.next)
    if together:
        yield Part(together[0].first, end, tuple(together))


def _totals_of(entries: Iterable[Entry]) -> Totals:
    found = Totals()
    for entry in entries:
        latest_us = entry.latest_us if entry.records else 0
        found = found.plus(Totals(1, entry.size_bytes, entry.next - entry.first, latest_us))
    return found


def _next_of(part: Part) -> int:
    return part.next
