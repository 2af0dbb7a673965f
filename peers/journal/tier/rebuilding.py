"""Rebuilding a manifest: sheets that were lost or damaged are written anew, from the files that they named.

```
sheet that cannot be read ──▶ the files of its offsets ─┐
file that no sheet names ───────────────────────────────┴─▶ read, compared with its own checksums ─▶ a sheet of its own
```

A file says of itself which journal and which offsets it is of, and has a checksum of each column of each row group; so
a sheet says afterwards what it said before. What a crash has left behind is not named: that is for the caller to know.

Owner: who copies the journal, or a person while nobody does. Cost: reading each of these files.
"""

from __future__ import annotations

from typing import NamedTuple

from hub.errors import JournalCorruptError
from hub.journal.manifest import Entry, range_name
from peers.journal.tier.parquet import entry_from
from peers.journal.tier.shelf import Shelf, file_name

__all__ = ["Rebuilt", "rebuild"]


class Rebuilt(NamedTuple):
    """What was done."""

    sheets: tuple[str, ...]
    """Sheets that could not be read, and are deleted now."""
    entries: tuple[Entry, ...]
    """Files that have a sheet again."""
    flaws: tuple[str, ...]
    """Files that cannot have one, and why: they are damaged, too."""


def rebuild(shelf: Shelf, first: int, following: int) -> Rebuilt:
    """Name all files of a range of offsets.

    Args:
        shelf: A journal in its tier.
        first: What ends here or before was deleted on purpose.
        following: What ends behind this was never named.

    Raises:
        JournalCorruptError: Two sheets contradict each other.
        TierUnavailableError: It cannot be read or written now; what was done stays so.
    """
    damaged = shelf.sheets.damaged()
    shelf.sheets.set_aside(damaged)
    entries: list[Entry] = []
    flaws: list[str] = []
    for reach in list(shelf.unnamed(first, following)):
        try:
            entry = _entry(shelf, reach)
        except JournalCorruptError as error:
            flaws.append(f"{range_name(*reach)}: {error}")
            continue
        shelf.sheets.write((entry,))
        entries.append(entry)
    named = {(entry.first, entry.next) for entry in entries}
    for sheet in damaged:  # last, so that what is interrupted can begin again
        if sheet[:2] not in named:
            shelf.sheets.delete(sheet)
    return Rebuilt(tuple(sheet.name for sheet in damaged), tuple(entries), tuple(flaws))


def _entry(shelf: Shelf, reach: tuple[int, int]) -> Entry:
    if any(entry.first < reach[1] for entry in _behind(shelf, reach[0])):
        raise JournalCorruptError("another file that is named holds some of its offsets")
    return entry_from(shelf.place.read(file_name(shelf.journal, reach)), reach, shelf.journal)


def _behind(shelf: Shelf, offset: int) -> tuple[Entry, ...]:
    """Return the first file that ends behind an offset."""
    entry = next(shelf.entries(offset), None)
    return () if entry is None else (entry,)
