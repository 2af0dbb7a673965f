"""`hub journal tier rebuild`: write sheets of the manifest anew that were lost or damaged, from the files themselves.

| exit code | meaning |
|---|---|
| 0 | each file has its sheet |
| 3 | a file is damaged, too, and has none |
"""

from __future__ import annotations

import sys

from hub.journal.layout import OFFSET_LIMIT
from peers.cli.journal.tier.shelves import JournalId, TierAddress, shelves
from peers.cli.journal.verify import Soundness
from peers.cli.texts import amount, escaped

__all__ = ["rebuild"]


def rebuild(tier: TierAddress, /, *, journal: JournalId = None) -> int:
    """Write lost or damaged sheets of a tier anew; while a hub copies there, it does so itself when it starts."""
    result = Soundness.SOUND
    for shelf in shelves(tier, journal):
        from peers.journal.tier.rebuilding import rebuild as rebuilt  # noqa: PLC0415 -- it needs an extra

        done = rebuilt(shelf, 0, OFFSET_LIMIT)
        records = sum(entry.records for entry in done.entries)
        print(
            f"{shelf.journal.hex()}: {amount(len(done.sheets))} damaged sheets; "
            f"named {amount(len(done.entries))} files, {amount(records)} records"
        )
        for flaw in done.flaws:
            print(escaped(f"hub journal tier rebuild: {flaw}"), file=sys.stderr)
            result = Soundness.DAMAGED
    return result
