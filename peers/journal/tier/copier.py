"""`Copier`: copies what is sealed of a journal to its tier, each record exactly once, and checked.

```
step:  records behind what the manifest names, up to the newest segment ─▶ a file ─▶ read back ─▶ manifest ─▶ tier.json
                                                                                                   ▲ from now on
                                                                                                     it is copied
```

Files are ranges of offsets, not segments: segments may be joined, and read on from any offset. Where a crash comes
before the manifest names it, the file counts as not there, and the range is copied again; the manifest is what says
how far it is, and `tier.json` is only compared with it.

Damage here is not carried on: what cannot be read, or no block has, is left out, and the manifest says so; whoever
reads there later is told the same as here.

Owner: one process (`peers.journal.tier.process`). Memory: a file, and the blocks that it is made of, 0.3 GiB. Cost:
1 µs a record of 100 bytes, half of it reading back.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from hub.errors import JournalCorruptError, JournalUnavailableError
from hub.journal.block import Block, select
from hub.journal.layout import OFFSET_LIMIT
from hub.journal.segment import Row
from peers.journal.tier.files import TierFiles
from peers.journal.tier.owner import Copied, Ownership
from peers.journal.tier.parquet import FileMaker
from peers.journal.tier.place import Place
from peers.journal.tier.progress import Progress
from peers.journal.view import View

__all__ = ["Copier", "TierRetention"]

_ABSENT = "no block has them"


class TierRetention(NamedTuple):
    """How much the tier keeps, and for how long."""

    bytes: int
    """0: without end."""
    age_us: int
    """0: for ever."""


class Copier:
    """Copies one journal.

    Args:
        path: Path of the journal.
        place: Where its tier stands.
        retention: What the tier keeps.

    Raises:
        JournalUnavailableError: Another process copies it, or it cannot be read.
        JournalCorruptError: It is no journal.
    """

    def __init__(self, path: str, place: Place, retention: TierRetention) -> None:
        self._path = path
        self._place = place
        self._retention = retention
        self._ownership = Ownership(path)
        try:
            self._view = View(path)
        except BaseException:
            self._ownership.release()
            raise
        # What the tier holds; None until it was looked at, and after whatever went wrong.
        self._held: TierFiles | None = None

    def close(self) -> None:
        """Close the journal, and leave it to others."""
        self._view.close()
        self._ownership.release()

    def step(self, now_us: int) -> bool:
        """Copy one file, if there is enough for one; return whether there was.

        Raises:
            TierUnavailableError: The tier cannot be read or written now.
            JournalUnavailableError: The same of the journal.
            JournalCorruptError: The tier is not what it was.
        """
        held = self._held or self._looked_at()
        self._held = None  # whatever happens now, look at it again
        self._view.refresh()
        self._check(held)
        copied = self._copy(held)
        self._retire(held, now_us)
        self._held = held
        return copied

    def progress(self) -> Progress | None:
        """Return how far the tier is; None while that is not known."""
        if self._held is None:
            return None
        start = self._start(self._held)
        first, following = self._held.first, self._held.next
        if first is None or following is None:
            return Progress(start, start, 0, 0, 0)
        totals = self._held.totals()
        return Progress(first, start, totals.files, totals.size_bytes, following - first - totals.offsets)

    def _looked_at(self) -> TierFiles:
        """Look at the tier; make its manifest anew if it is lost, or take away what a crash has left there."""
        held = TierFiles(self._place, self._view.id)
        held.refresh()
        known = self._known(held)
        # Where nobody has noted what was deleted on purpose, nothing is taken for that.
        first = (None if known is None else known.first) or 0
        is_new = held.rebuild(first, OFFSET_LIMIT if known is None else known.next)
        self._check(held)
        if not is_new:
            held.sweep(min(first, held.first or 0))
        return held

    def _known(self, held: TierFiles) -> Copied | None:
        """Return how far the journal was copied to this tier; None if nobody knows."""
        known = self._ownership.read()
        is_it = known is not None and (known.tier, known.journal) == (self._place.address, held.journal.hex())
        return known if is_it else None

    def _note(self, held: TierFiles, first: int | None) -> None:
        """Note how far it was copied, and what is kept of that."""
        self._ownership.write(Copied(self._place.address, held.journal.hex(), held.next or 0, first))

    def _check(self, held: TierFiles) -> None:
        """See to it that tier and journal belong together.

        Raises:
            JournalCorruptError: They do not.
        """
        end = held.next or 0
        following = self._view.extent.next
        if end > following:
            text = (
                f"{self._place.address}: holds offsets up to {end}, the journal ends at {following}: it is an older "
                "copy of itself; start it in a new folder"
            )
            raise JournalCorruptError(text)
        known = self._known(held)
        if known is not None and known.next > end:
            text = (
                f"{self._place.address}: holds offsets up to {end}, {known.next} were copied: it is not the tier that "
                "it was; mount or restore it"
            )
            raise JournalCorruptError(text)

    def _start(self, held: TierFiles) -> int:
        """Return the offset that is to be copied next."""
        end = held.next
        return self._view.extent.first if end is None else max(end, self._view.extent.first)

    def _copy(self, held: TierFiles) -> bool:
        start, end = self._start(held), self._view.firsts[-1]
        if start >= end:
            return False
        maker = FileMaker(held.journal, start)
        while maker.next < end and not maker.is_full:
            self._add_some(maker, end)
        data, entry = maker.finish()
        held.put(data, entry)
        self._note(held, held.first)
        return True

    def _add_some(self, maker: FileMaker, end: int) -> None:
        """Add blocks until the file is full, or up to the next damage, which is left out."""
        try:
            for row in self._view.rows(maker.next):
                if row.first >= end or maker.is_full:
                    return
                self._add(maker, row, min(row.next, end))
        except JournalCorruptError as error:
            self._view.refresh()  # segments may have been joined meanwhile
            damage = self._view.damage_at(maker.next)
            if damage is None:
                raise JournalUnavailableError(f"the journal has changed while it was copied: {error}") from error
            maker.pass_over(end if damage.next is None else min(damage.next, end), damage.cause)

    def _add(self, maker: FileMaker, row: Row, end: int) -> None:
        """Add a block up to an offset. Of one that is sparse nothing else has what it lacks: blocks do not overlap."""
        block = self._view.block(row)
        for first, following in _runs(block, maker.next, end):
            if first > maker.next:
                maker.pass_over(first, _ABSENT)
            is_whole = (first, following) == (block.first, block.next) and block.offsets is None
            maker.add(block if is_whole else Block.parse(select(bytes(block.data), first, following), verify=False))
        if maker.next < end:
            maker.pass_over(end, _ABSENT)

    def _retire(self, held: TierFiles, now_us: int) -> None:
        """Leave out what is too old or too much; the newest file stays, however large it is."""
        totals = held.totals()
        size_bytes, files = totals.size_bytes, totals.files
        before = None
        for entry in held.entries():
            is_too_much = self._retention.bytes and size_bytes > self._retention.bytes
            is_old = self._retention.age_us and entry.latest_us < now_us - self._retention.age_us
            if files == 1 or (not is_too_much and not is_old):
                break
            size_bytes -= entry.size_bytes
            files -= 1
            before = entry.next
        if before is not None:
            self._note(held, before)
            held.drop(before)


def _runs(block: Block, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of offsets, from `start` to `end`, of which a block has each."""
    if block.offsets is None:
        if max(block.first, start) < min(block.next, end):
            yield max(block.first, start), min(block.next, end)
        return
    first = following = start
    for offset in block.offsets:
        if offset < start:
            continue
        if offset >= end:
            break
        if offset != following:
            if first < following:
                yield first, following
            first = offset
        following = offset + 1
    if first < following:
        yield first, following
