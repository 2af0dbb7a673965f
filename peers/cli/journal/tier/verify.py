"""`hub journal tier verify`: read all files of a tier, and tell what is not what was written.

| exit code | meaning |
|---|---|
| 0 | all is what was written, and nothing is missing in between |
| 3 | something is damaged or missing |
"""

from __future__ import annotations

from collections.abc import Iterator

from hub.journal.manifest import Entry
from peers.cli.journal.bar import shown_bar
from peers.cli.journal.tier.shelves import JournalId, TierAddress, shelves
from peers.cli.journal.verify import Soundness
from peers.cli.texts import amount, show
from peers.journal.damage import Damage

__all__ = ["verify"]

_HEADS = ("journal", "offsets", "records", "what")


def verify(tier: TierAddress, /, *, journal: JournalId = None) -> int:
    """Read everything in a tier and look for damage: exit code 0 if there is none, 3 if there is."""
    found: list[tuple[str, Damage]] = []
    files = records = damaged = 0
    with shown_bar() as tell:
        for shelf in shelves(tier, journal):
            begin, end = position, _ = shelf.first or 0, shelf.next or 0
            for entry in shelf.entries():
                tell(f"file {entry.name}", entry.first - begin, end - begin)
                found += [(shelf.journal.hex(), damage) for damage in _missing(entry, position)]
                position = entry.next
                flaw = shelf.flaw_of(entry)
                if flaw:
                    found.append((shelf.journal.hex(), Damage(entry.first, entry.next, flaw)))
                    damaged += 1
                else:
                    files += 1
                    records += entry.records
    if not found:
        print(f"sound: {records:,} records in {files:,} files")
        return Soundness.SOUND
    rows = ((name, f"{one.first} to {(one.next or 0) - 1}", _count(one), one.cause) for name, one in found)
    show(_HEADS, rows, text_columns=(0, 1, 3))
    print(f"\n{records:,} records can be read, in {files:,} of {files + damaged:,} files")
    return Soundness.DAMAGED


def _count(damage: Damage) -> str:
    return amount((damage.next or 0) - damage.first)


def _missing(entry: Entry, position: int) -> Iterator[Damage]:
    """Yield what no file holds between an offset and the end of a file."""
    if position < entry.first:
        yield Damage(position, entry.first, "deleted before they were copied, or their sheet is lost")
    for hole in entry.holes:
        yield Damage(hole.first, hole.next, f"could not be copied: {hole.cause}")
