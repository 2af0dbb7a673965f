"""A journal as a killed hub leaves it, ways to hurt a copy of it, and what must hold of the copy then.

```
Sample: sealed segments, a growing one ─copy─▶ hurt ─▶ examine: by a reader, by a writer, by a reader again
        older half on the disk, newer half perhaps not; or all of it
```

Whoever opens the copy gets the records that were published, at their offsets, up to the end of some commit; or an error
of the storage that says so; and never anything else.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from random import Random

from hub.batch import Batch
from hub.errors import JournalCorruptError, StorageError
from hub.journal.block import Block, Record
from hub.journal.segment import Write
from peers.journal.store import Retention, Segmenting, Store
from peers.journal.view import View

__all__ = ["Found", "Sample", "cut_end", "examine", "flip_anywhere", "flip_headers", "zero_sector"]

_ALL = Retention(bytes=1 << 50, age_us=1 << 60)
_AT_US = 1_700_000_000_000_000
_EACH_US = 1_000
_TOPICS = 5
_QUERIES = 3
_SIZES_BYTES = [1] * 20 + [40] * 20 + [200] * 20 + [30_000] * 3
"""Of values: a few are so large that there are several blocks of a mebibyte."""

_PIECE_BYTES = 1024 * 1024
_STEP = 100
"""How many offsets further on a reader tries again where something is damaged."""

_SECTOR_BYTES = 512
_SEGMENTING = Segmenting(bytes=400_000, age_us=1 << 60)
"""So that there are several."""


class Found(Enum):
    """What became of a hurt copy."""

    ALL = "everything"
    """All of it was read, also by a writer, who could go on."""
    PREFIX = "a beginning"
    """The same of a beginning, up to some commit."""
    REPORTED = "places reported"
    """Errors in some places, the rest was read."""
    REFUSED = "refused"
    """It could not be opened, by a reader or a writer."""


@dataclass(frozen=True)
class State:
    """The journal after a commit."""

    next: int
    writes: tuple[Write, ...]


@dataclass
class Sample:
    """A journal that was killed in the middle of its work."""

    folder: Path
    records: list[Record] = field(default_factory=list)
    """By their offsets."""
    states: dict[int, State] = field(default_factory=dict)
    """After each commit, by the offset that comes next."""

    @classmethod
    def made(cls, folder: Path, random: Random, *, commits: int, segmenting: Segmenting = _SEGMENTING) -> Sample:
        """Write about 60 records of several topics with each commit; half of them are known to be on the disk."""
        folder.mkdir()
        sample = cls(folder)
        sample._note(0, ())
        work = folder / "work"
        with closing(_opened(work, segmenting)) as store:
            sample._fill(store, random, commits // 2)
        with closing(_opened(work, segmenting)) as store:
            sample._fill(store, random, commits // 2)
            shutil.copytree(work, sample.path)
        return sample

    @property
    def path(self) -> Path:
        """Of the journal."""
        return self.folder / "journal"

    def copy(self, to: Path) -> Path:
        """Copy it, also over what is left of another copy; return its path."""
        shutil.rmtree(to, ignore_errors=True)
        return Path(shutil.copytree(self.path, to))

    def settled(self, folder: Path) -> Sample:
        """Return the same, all of it known to be on the disk."""
        folder.mkdir()
        settled = Sample(folder, self.records, self.states)
        self.whole_copy(settled.path)
        return settled

    def whole_copy(self, to: Path) -> Path:
        """Copy it, all of it known to be on the disk: a commit without records says so."""
        with closing(_opened(self.copy(to))) as store:
            store.commit([max(store.writes, key=lambda write: write.next)], now_us=_AT_US)
        return to

    def _fill(self, store: Store, random: Random, commits: int) -> None:
        writes = {write.query: write for write in store.writes}
        for number in range(commits):
            first = store.next
            parts = [self._part(offset, random) for offset in range(first, first + random.choice([1, 3, 40, 200]))]
            store.add(parts)
            write = Write(f"query {number % _QUERIES}", number, first, store.next)
            writes.pop(write.query, None)
            writes[write.query] = write
            store.commit([write], now_us=_AT_US)
            self._note(store.next, tuple(writes.values()))

    def _part(self, offset: int, random: Random) -> tuple[int, bytes]:
        batch = Batch.of(f"/t/{random.randrange(_TOPICS)}/x", [[offset, random.randbytes(random.choice(_SIZES_BYTES))]])
        (frame,) = batch.parts()
        at_us = _AT_US + offset * _EACH_US
        self.records.append(Record(offset, at_us, frame.key.decode(), 0, frame.body))
        return at_us, batch.frames

    def _note(self, following: int, writes: tuple[Write, ...]) -> None:
        self.states[following] = State(following, writes)


def _opened(path: Path, segmenting: Segmenting = _SEGMENTING) -> Store:
    return Store(str(path), full_sync=False, retention=_ALL, segmenting=segmenting)


# Hurting.


def cut_end(path: Path, missing_bytes: int) -> None:
    """Cut the end off the newest segment."""
    newest = max(path.iterdir())
    with newest.open("r+b") as file:
        file.truncate(newest.stat().st_size - missing_bytes)


def flip_anywhere(path: Path, random: Random) -> str:
    """Flip a bit; return where."""
    file = random.choice(sorted(path.iterdir()))
    return _flip(file, random.randrange(file.stat().st_size), random)


def flip_headers(path: Path, random: Random) -> str:
    """The same in what the format says of itself: the header, the head of an entry, the end."""
    file = random.choice(sorted(path.iterdir()))
    data = file.read_bytes()
    starts = [place for place in range(0, len(data), 8) if data[place : place + 4] == b"HJE1"]
    where = random.choice(["header", "head", "end"])
    if where == "header":
        return _flip(file, random.randrange(64), random)
    if where == "head":
        return _flip(file, random.choice(starts) + random.randrange(80), random)
    return _flip(file, len(data) - 1 - random.randrange(200), random)


def zero_sector(path: Path, random: Random) -> str:
    """Lose what stood in a sector."""
    file = random.choice(sorted(path.iterdir()))
    position = random.randrange(file.stat().st_size // _SECTOR_BYTES) * _SECTOR_BYTES
    with file.open("r+b") as opened:
        opened.seek(position)
        opened.write(bytes(_SECTOR_BYTES))
    return f"{file.name}: zeroes from {position} on"


def _flip(file: Path, position: int, random: Random) -> str:
    bit = random.randrange(8)
    with file.open("r+b") as opened:
        opened.seek(position)
        (byte,) = opened.read(1)
        opened.seek(position)
        opened.write(bytes([byte ^ 1 << bit]))
    return f"{file.name}: bit {bit} of byte {position}"


# Looking.


def examine(path: Path, sample: Sample, *, is_torn: bool = False, writes: bool = True) -> Found:
    """Read a hurt copy, open it for writing, write to it, and read it again.

    Args:
        path: Of the copy.
        sample: What it was.
        is_torn: Whether no more has happened than that the end is missing: then it must not be refused.
        writes: Whether to write, too.

    Raises:
        AssertionError: Something else was read than what was written.
    """
    try:
        seen, whole = _read(path, sample.records, sample.states)
        with closing(_opened(path)) as store:
            assert store.first == 0
            following = store.next
            assert following == seen or (following < seen and not whole), "cut off behind what was on the disk"
            assert sorted(store.writes) == sorted(sample.states[following].writes)
            records = sample.records[:following]
            if writes:
                _append(store, records)
        if writes:
            whole = _read(path, records, None)[1] and whole
    except StorageError:
        if is_torn:
            raise
        return Found.REFUSED
    if not whole:
        assert not is_torn
        return Found.REPORTED
    return Found.ALL if following == len(sample.records) else Found.PREFIX


def _append(store: Store, records: list[Record]) -> None:
    """Write a little more, and note it."""
    random = Random(0)  # noqa: S311 -- always the same
    parts = []
    for offset in range(store.next, store.next + 300):
        batch = Batch.of("/new", [[offset, random.randbytes(1000)]])
        (frame,) = batch.parts()
        at_us = _AT_US + offset * _EACH_US
        records.append(Record(offset, at_us, "/new", 0, frame.body))
        parts.append((at_us, batch.frames))
    store.add(parts)
    store.commit(now_us=_AT_US)


def _read(path: Path, records: Sequence[Record], states: dict[int, State] | None) -> tuple[int, bool]:
    """Read everything that can be read, in several ways.

    Returns:
        The offset behind the end, and whether there was no error on the way.

    Raises:
        AssertionError: Something else was read than what was written.
        StorageError: It cannot be opened.
    """
    with closing(View(str(path))) as view:
        extent = view.extent
        assert extent.first == 0
        if states is not None:
            assert extent.next in states, f"{extent.next} is the end of no commit"
        else:
            assert extent.next == len(records)
        sound = [_read_range(view, records, extent.next, prefix) for prefix in ("", "/t/2/")]
        sound += [_read_time(view, records, offset, extent.next) for offset in range(0, extent.next + 1, 500)]
        if states is not None:
            sound.append(_agrees(lambda: sorted(view.writes), sorted(states[extent.next].writes)))
    return extent.next, all(sound)


def _read_range(view: View, records: Sequence[Record], end: int, prefix: str) -> bool:
    sound = True
    start = 0
    while start < end:
        try:
            found = view.fetch(start, None, (prefix,), _PIECE_BYTES)
        except JournalCorruptError:
            sound = False
            start += _STEP
            continue
        read = [record for block in found.blocks for record in Block.parse(block).records()]
        assert read == [record for record in records[start : found.next] if record.topic.startswith(prefix)]
        start = found.next
    return sound


def _read_time(view: View, records: Sequence[Record], offset: int, end: int) -> bool:
    at_us = records[offset].time_us if offset < len(records) else _AT_US + offset * _EACH_US
    return _agrees(lambda: view.offset_at(at_us), min(offset, end))


def _agrees(ask: Callable[[], object], expected: object) -> bool:
    try:
        found = ask()
    except JournalCorruptError:
        return False
    assert found == expected
    return True
