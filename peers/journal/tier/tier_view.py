"""`TierView`: the tier of a journal, open for reading by offsets and topics.

```
offset ─▶ manifest ─▶ file ─▶ stripe ─▶ groups that may hold wanted topics ─▶ table ─▶ blocks, by offset
```

An answer is a small part of a stripe, and the next one continues there, so the blocks of the last stripes are cached.
Only verified records are returned; a hole in a file is an error with its cause. Cost: 0.3 s for the first answer from a
stripe of 32 MiB, beside the time of the server.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from hub.errors import GoneError, JournalCorruptError
from hub.journal.block import Block, select
from hub.journal.manifest import Entry
from hub.journal.selection import Selection
from peers.journal.tier.files import TierFiles, data_name, file_errors
from peers.journal.tier.parquet import Opened, blocks_of
from peers.journal.tier.place import AbsentError, Place, TierUnavailableError
from peers.journal.view import LARGE_FACTOR, Damage, cut, offsets_text

_AWAY_S = 5.0  # after a failure, the tier is not tried for so long: other clients wait for this process, too
_FRESH_S = 5.0  # how old the manifest may be where its end matters, seconds

# Most that is kept of stripes, beside the 30 MiB of a reader process; the last one is kept in any size.
_KEPT_BYTES = 128 * 1024 * 1024
_OPEN_LIMIT = 16  # most files that are open: the end of each is in memory, 0.1 MiB
_STRIPES_LIMIT = 4  # most stripes that are decoded for one answer, so that others need not wait long
_FILES_LIMIT = 32  # most files that are looked into for one answer, for the same reason


class TierView:
    """The tier of one journal, open for reading."""

    def __init__(self, place: Place, journal: bytes, clock_s: Callable[[], float] = time.monotonic) -> None:
        self.files = TierFiles(place, journal)
        self._clock_s = clock_s
        self._trouble = ""  # why the tier could not be read, and when that was; empty while it can be
        self._trouble_s = 0.0
        self._read_s: float | None = None  # when the manifest was read last; None while it never was
        # Files that are open, by their first offsets; the one that was used last behind the others.
        self._open: OrderedDict[int, Opened] = OrderedDict()
        # Blocks of stripes, by file, stripe and groups; and how long they are.
        self._kept: OrderedDict[tuple[int, int, tuple[int, ...]], list[Block]] = OrderedDict()
        self._kept_bytes = 0

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Read the tier, unless that has just failed; raises `TierUnavailableError`."""
        if self._trouble and self._clock_s() - self._trouble_s < _AWAY_S:
            raise TierUnavailableError(self._trouble)
        try:
            yield
        except AbsentError:
            raise
        except TierUnavailableError as error:
            self._trouble, self._trouble_s = str(error), self._clock_s()
            raise
        self._trouble = ""

    def refresh(self, *, is_urgent: bool = False) -> None:
        """Read the manifest, unless it is fresh and this is not urgent; raises `TierUnavailableError`."""
        now_s = self._clock_s()
        if is_urgent or self._read_s is None or now_s - self._read_s >= _FRESH_S:
            self.files.refresh()
            self._read_s = now_s

    def look(self) -> None:
        """Read the manifest; if that fails, an earlier one will do. Raises `TierUnavailableError` without one."""
        try:
            with self.attempt():
                self.refresh()
        except TierUnavailableError:
            if self._read_s is None:
                raise

    def holds(self, offset: int) -> bool:
        """Return whether a file should hold an offset, according to the newest manifest."""
        if self.files.entry_of(offset) is None:
            self.refresh(is_urgent=True)
        return self.files.entry_of(offset) is not None

    def offset_at(self, time_us: int) -> int | None:
        """Return the offset of the first record that is not older; None if all are. Raises as `fetch`."""
        self.look()
        for entry in self.files.entries():
            if entry.latest_us >= time_us and entry.records:
                return self._offset_within(entry, time_us)
        return None

    def _offset_within(self, entry: Entry, time_us: int) -> int:
        for number, stripe in enumerate(self._file(entry).stripes):
            for hole in entry.holes:
                if hole.first < stripe.first:
                    raise JournalCorruptError(str(self._lack(entry, hole.first, stripe.first)))
            for block in self._blocks(entry, number, Selection([""])):
                for place, at_us in enumerate(block.times):
                    if at_us >= time_us:
                        return block.first + place
        raise JournalCorruptError(str(self._lack(entry, entry.first, entry.next)))

    def entries(self, end: int) -> Iterator[Entry]:
        """Yield the entry of each file that begins before an offset, in order; raises `StorageError`."""
        self.look()
        for entry in self.files.entries():
            if entry.first >= end:
                return
            yield entry

    def flaw_of(self, entry: Entry) -> str:
        """Verify a whole file; return the damage, or an empty text. Raises `TierUnavailableError`."""
        with self.attempt():
            return self.files.flaw_of(entry)

    def damage_at(self, position: int) -> Damage | None:
        """Return the damage at `position`; None if it can be read, or no file has it. Raises `TierUnavailableError`."""
        self.refresh(is_urgent=True)
        try:
            entry = self.files.entry_of(position)
        except JournalCorruptError as error:
            return Damage(position, None, str(error))
        if entry is None:
            return None
        try:
            return self._damage_within(entry, self._file(entry), position)
        except GoneError:
            return None
        except (AbsentError, JournalCorruptError) as error:
            return Damage(position, entry.next, str(error))

    def _damage_within(self, entry: Entry, file: Opened, position: int) -> Damage | None:
        for number, stripe in enumerate(file.stripes):
            if stripe.first > position:
                return self._lack(entry, position, stripe.first)._replace(first=position)
            if position < stripe.next:
                try:
                    self._blocks(entry, number, Selection([""]))
                except JournalCorruptError as error:
                    return Damage(position, stripe.next, str(error))
                return None
        return self._lack(entry, position, entry.next)._replace(first=position)

    def fetch(self, blocks: list[bytes], start: int, end: int | None, wanted: Selection, limit_bytes: int) -> int:
        """Append blocks with wanted topics from `start` on, which a file holds; return where to go on.

        If nothing was appended, it raises `GoneError` for a file deleted this moment, or `StorageError`.
        """
        piece = _Piece(blocks, start, end, wanted, limit_bytes)
        try:
            while not piece.is_done and not piece.is_long:
                entry = self.files.entry_of(piece.position)
                if entry is None:
                    break
                self._collect(piece, entry)
        except (GoneError, JournalCorruptError, TierUnavailableError):
            if piece.position == start:
                raise
        return piece.position

    def _collect(self, piece: _Piece, entry: Entry) -> None:
        if not entry.may_hold(piece.wanted):
            piece.move(entry.next)
            return
        file = self._file(entry)
        piece.files += 1
        for number, stripe in enumerate(file.stripes):
            if stripe.next <= piece.position:
                continue
            if piece.is_done or piece.is_long:
                return
            if stripe.first > piece.position:
                raise JournalCorruptError(str(self._lack(entry, piece.position, stripe.first)))
            if file.groups(number, piece.wanted):
                for block in self._blocks(entry, number, piece.wanted, piece):
                    piece.add(block)
            if not piece.is_done:
                piece.move(stripe.next)
        if not piece.is_done and piece.position < entry.next:  # behind the last stripe
            raise JournalCorruptError(str(self._lack(entry, piece.position, entry.next)))

    def _file(self, entry: Entry) -> Opened:
        opened = self._open.get(entry.first)
        if opened is None or opened.entry != entry:
            name = data_name(self.files.journal, entry)
            try:
                with file_errors(self.files.place.address, name):
                    opened = Opened(self.files.place.open(name), entry, self.files.journal)
            except AbsentError as error:
                self.refresh(is_urgent=True)
                if self.files.entry_of(entry.first) is None:
                    first = self.files.following(entry.first)
                    raise GoneError(f"offset {entry.first} was deleted", first or entry.next) from error
                raise
            self._open[entry.first] = opened
            while len(self._open) > _OPEN_LIMIT:
                self._open.popitem(last=False)
        self._open.move_to_end(entry.first)
        return opened

    def _blocks(self, entry: Entry, number: int, wanted: Selection, piece: _Piece | None = None) -> list[Block]:
        """Return the blocks of a stripe, of the groups that may hold wanted topics."""
        file = self._file(entry)
        groups = file.groups(number, wanted)
        key = entry.first, number, groups
        kept = self._kept.get(key)
        if kept is None:
            if piece is not None:
                piece.stripes += 1
            stripe = file.stripes[number]
            reach = offsets_text(stripe.first, stripe.next)
            with file_errors(self.files.place.address, data_name(self.files.journal, entry), reach):
                kept = [Block.parse(block, verify=False) for block in blocks_of(file.table(number, groups))]
            self._kept[key] = kept
            self._kept_bytes += sum(len(block.data) for block in kept)
            while self._kept_bytes > _KEPT_BYTES and len(self._kept) > 1:
                self._kept_bytes -= sum(len(block.data) for block in self._kept.popitem(last=False)[1])
        self._kept.move_to_end(key)
        return kept

    def _lack(self, entry: Entry, offset: int, following: int) -> Damage:
        for hole in entry.holes:
            if hole.first <= offset < hole.next:
                return Damage(hole.first, hole.next, f"could not be copied to the tier: {hole.cause}")
        name = data_name(self.files.journal, entry)
        return Damage(offset, following, f"{self.files.place.address}: {name}: no record has them")


@dataclass(slots=True)
class _Piece:
    """One answer."""

    blocks: list[bytes]
    position: int
    end: int | None
    wanted: Selection
    limit_bytes: int
    files: int = 0  # files opened
    stripes: int = 0  # stripes decoded
    size: int = 0
    is_full: bool = False

    @property
    def is_done(self) -> bool:
        is_full = self.is_full or self.size >= self.limit_bytes
        return is_full or (self.end is not None and self.position >= self.end)

    @property
    def is_long(self) -> bool:
        return self.stripes >= _STRIPES_LIMIT or self.files > _FILES_LIMIT

    def move(self, position: int) -> None:
        self.position = position if self.end is None else min(position, self.end)

    def add(self, block: Block) -> None:
        """Append the wanted records of a block, if it is still needed."""
        if block.next <= self.position or self.is_done:
            return
        end = block.next if self.end is None else min(self.end, block.next)
        marks = self.wanted.marks(block.topics)
        found = bytes(block.data)
        if 0 in marks or self.position > block.first or end < block.next:
            found = select(found, self.position, end, marks)
        if len(found) > LARGE_FACTOR * self.limit_bytes:
            self.position = cut(self.blocks, found, self.position, end, self.limit_bytes)
            self.is_full = True
            return
        if found:
            self.blocks.append(found)
        self.size += len(found)
        self.position = end
