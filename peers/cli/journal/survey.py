"""Finds out what of a journal is sound, block by block, behind damage too.

```
segment ─ header, footer ─────────────────────────────────────▶ Flaw
   └─ row ─┬─ that it follows the one before ─────────────────▶ Stretch(first, next, flaw)
           └─ its block: there, its checksums, and what the row says of it
```

A hub that reads stops at the first damage; this goes on.

A hub may write meanwhile: what it has deleted is no damage, and what comes later than the survey began is left out.

Cost: reading, and a checksum: about 1 GiB/s from memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from hub.errors import JournalUnavailableError
from hub.journal.block import Block
from hub.journal.listing import listed_texts
from hub.journal.wanted import Wanted
from peers.journal.history import History
from peers.journal.segments.segment import Segment
from peers.journal.view import BlockRow, View

__all__ = ["Flaw", "Stretch", "survey", "survey_of_tier"]


_NOWHERE = "missing: neither here nor in the tier, where they were deleted, or their sheet is lost"


class Stretch(NamedTuple):
    """A range of offsets, and whether its records can be read."""

    first: int
    next: int | None
    """The offset behind the last; None where nobody knows."""
    flaw: str
    """What is wrong with the range; empty if it is sound."""
    is_there: bool = False
    """Whether it stands in the tier."""


class Flaw(NamedTuple):
    """Something that is damaged beside records."""

    text: str


def survey(view: View) -> Iterator[Stretch | Flaw]:
    """Yield what each block of a journal is, in order, what is missing between them, and what else is damaged.

    Raises:
        JournalUnavailableError: It cannot be read now, for another reason than damage.
    """
    catalog = view.catalog
    journal_id = view.id
    position = catalog.firsts[0]
    for number, first in enumerate(catalog.firsts):
        try:
            segment = catalog.segment(number)
        except JournalUnavailableError:
            if Path(f"{catalog.path}/{first:020}.seg").exists():
                raise
            position = catalog.end_of(number) or position  # a hub has deleted it
            continue
        yield from _flaws(segment, journal_id)
        if not segment.rows and catalog.end_of(number) is not None:
            yield Stretch(first, catalog.end_of(number), "no block of the segment can be found")
            position = catalog.end_of(number) or position
        if segment.next <= position and segment.rows:
            continue  # what the one before it was made of
        for row in segment.rows:
            if row.first > position:
                yield Stretch(position, row.first, "missing: no block has them")
            elif row.first < position:
                yield Stretch(row.first, position, "more than one block has them")
            yield Stretch(row.first, row.next, _flaw_of(view, BlockRow(first, row)))
            position = max(position, row.next)


def survey_of_tier(history: History) -> Iterator[Stretch]:
    """Yield what each file of the tier is that begins before what is here, in order, and what is missing.

    Raises:
        JournalCorruptError: The manifest is damaged.
        JournalUnavailableError: It cannot be read now, for another reason than damage.
    """
    here = history.view.extent.first
    position = history.extent.first
    for entry in history.files():
        if entry.first > position:
            yield Stretch(position, entry.first, _NOWHERE)
        flaw = history.tier.flaw_of(entry)
        position = entry.first
        for hole in () if flaw else entry.holes:
            if hole.first > position:
                yield Stretch(position, hole.first, "", is_there=True)
            yield Stretch(hole.first, hole.next, f"could not be copied to the tier: {hole.cause}")
            position = hole.next
        if position < entry.next:
            yield Stretch(position, entry.next, flaw and f"{history.address}: {entry.name}: {flaw}", is_there=True)
        position = entry.next
    if position < here:
        yield Stretch(position, here, _NOWHERE)


def _flaws(segment: Segment, journal_id: bytes) -> Iterator[Flaw]:
    """Yield what is wrong with a segment beside its blocks."""
    name = Path(segment.path).name
    if segment.flaw:
        yield Flaw(f"{name}: {segment.flaw}")
    if segment.header is not None and segment.header.id != journal_id:
        yield Flaw(f"{name}: a segment of another journal")


def _flaw_of(view: View, row: BlockRow) -> str:
    """Return what is wrong with a block, empty if nothing is."""
    flaw = view.flaw_of(row)
    return flaw or _contradiction(view.block(row), row)


def _contradiction(block: Block, row: BlockRow) -> str:
    times = row.earliest_us <= min(block.times) and max(block.times) <= row.latest_us
    listed = all(map(Wanted(listed_texts(row.topics)).holds, block.topics))
    if not times or not listed or len(block.data) != row.size_bytes:
        return "the index says something else of it than what it holds"
    return ""
