"""Journals and tiers that are hurt, and what must hold of what is left: it is what was written, or an error says so."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from hub.errors import GoneError, JournalCorruptError, JournalUnavailableError, StorageError
from hub.journal.block import Block, Record
from hub.journal.manifest import range_of
from hub.journal.segment import Write
from hub.messages.batch import Batch
from peers.journal.history import History
from peers.journal.store import Retention, Segmenting, Store
from peers.journal.tier import parquet
from peers.journal.tier.place import place_at
from peers.journal.view import View
from tests.journal.tier.made import copy as tier_copy

_ALL = Retention(bytes=1 << 50, age_us=1 << 60)
_AT_US = 1_700_000_000_000_000
_EACH_US = 1_000
_TOPICS = 5
_QUERIES = 3
_SIZES_BYTES = [1] * 20 + [40] * 20 + [200] * 20 + [30_000] * 3
"""Of values: a few are so large that there are several blocks of a mebibyte."""

_PIECE_BYTES = 1024 * 1024
_STEP = 100  # how many offsets further on a reader tries again where something is damaged
_SECTOR_BYTES = 512
_SEGMENTING = Segmenting(bytes=400_000, age_us=1 << 60)  # so that there are several


class Found(Enum):
    ALL = "everything"  # all of it was read, also by a writer, who could go on
    PREFIX = "a beginning"  # the same of a beginning, up to some commit
    REPORTED = "places reported"  # errors in some places, the rest was read
    REFUSED = "refused"  # it could not be opened, by a reader or a writer


@dataclass
class Sample:
    folder: Path
    records: list[Record] = field(default_factory=list)  # by their offsets
    # What writers had committed after each commit, by the offset that comes next.
    states: dict[int, tuple[Write, ...]] = field(default_factory=lambda: {0: ()})

    @classmethod
    def made(cls, folder: Path, random: Random, *, commits: int, segmenting: Segmenting = _SEGMENTING) -> Sample:
        folder.mkdir()
        sample = cls(folder)
        work = folder / "work"
        with closing(_opened(work, segmenting)) as store:
            sample._fill(store, random, commits // 2)
        with closing(_opened(work, segmenting)) as store:
            sample._fill(store, random, commits // 2)
            shutil.copytree(work, sample.path)
        return sample

    @property
    def path(self) -> Path:
        return self.folder / "journal"

    def copy(self, to: Path) -> Path:
        shutil.rmtree(to, ignore_errors=True)
        return Path(shutil.copytree(self.path, to))

    def settled(self, folder: Path) -> Sample:
        folder.mkdir()
        settled = Sample(folder, self.records, self.states)
        self.whole_copy(settled.path)
        return settled

    def whole_copy(self, to: Path) -> Path:
        with closing(_opened(self.copy(to))) as store:
            store.commit([max(store.writes, key=lambda write: write.next)], now_us=_AT_US)
        return to

    def _fill(self, store: Store, random: Random, commits: int) -> None:
        writes = {write.query: write for write in store.writes}
        for number in range(commits):
            first = store.next
            end = first + random.choice([1, 3, 40, 200])
            parts = [_part(self.records, offset, random, _SIZES_BYTES) for offset in range(first, end)]
            store.add(parts)
            write = Write(f"query {number % _QUERIES}", number, first, store.next)
            writes.pop(write.query, None)
            writes[write.query] = write
            store.commit([write], now_us=_AT_US)
            self.states[store.next] = tuple(writes.values())


def _part(records: list[Record], offset: int, random: Random, sizes_bytes: list[int]) -> tuple[int, bytes]:
    topic = f"/t/{random.randrange(_TOPICS)}/x"
    batch = Batch.of(topic, [[offset, random.randbytes(random.choice(sizes_bytes))]])
    (frame,) = batch.parts()
    at_us = _AT_US + offset * _EACH_US
    records.append(Record(offset, at_us, topic, 0, frame.body))
    return at_us, batch.frames


def _opened(path: Path, segmenting: Segmenting = _SEGMENTING) -> Store:
    return Store(str(path), full_sync=False, retention=_ALL, segmenting=segmenting)


def cut_end(path: Path, missing_bytes: int) -> None:
    newest = max(path.iterdir())
    os.truncate(newest, newest.stat().st_size - missing_bytes)


def flip_anywhere(path: Path, random: Random) -> str:
    return _flip_somewhere(random.choice(sorted(path.iterdir())), random)


def flip_headers(path: Path, random: Random) -> str:
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
    return _zero(random.choice(sorted(path.iterdir())), random)


def _zero(file: Path, random: Random) -> str:
    size_bytes = file.stat().st_size
    position = random.randrange(max(1, size_bytes // _SECTOR_BYTES)) * _SECTOR_BYTES
    with file.open("r+b") as opened:
        opened.seek(position)
        opened.write(bytes(min(_SECTOR_BYTES, size_bytes - position)))
    return f"{file.name}: zeroes from {position} on"


def _flip_somewhere(file: Path, random: Random) -> str:
    return _flip(file, random.randrange(file.stat().st_size), random)


def _flip(file: Path, position: int, random: Random) -> str:
    bit = random.randrange(8)
    with file.open("r+b") as opened:
        opened.seek(position)
        (byte,) = opened.read(1)
        opened.seek(position)
        opened.write(bytes([byte ^ 1 << bit]))
    return f"{file.name}: bit {bit} of byte {position}"


def examine(path: Path, sample: Sample, *, is_torn: bool = False, writes: bool = True) -> Found:
    try:
        seen, whole = _read(path, sample.records, sample.states)
        with closing(_opened(path)) as store:
            assert store.first == 0
            following = store.next
            assert following == seen or (following < seen and not whole), "cut off behind what was on the disk"
            assert sorted(store.writes) == sorted(sample.states[following])
            records = sample.records[:following]
            if writes:
                numbers, same = range(following, following + 300), Random(0)  # noqa: S311 -- always the same
                store.add([_part(records, offset, same, [1000]) for offset in numbers])
                store.commit(now_us=_AT_US)
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


def _read(path: Path, records: Sequence[Record], states: dict[int, tuple[Write, ...]] | None) -> tuple[int, bool]:
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
            sound.append(_agrees(lambda: sorted(view.writes), sorted(states[extent.next])))
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


_DATA, _MANIFEST = "*/data/*.parquet", "*/manifest.json"
_RECORDS = 600
_TIERED_SIZES_BYTES = [1] * 20 + [40] * 20 + [300] * 5 + [3_000]
_TIERED_PIECE_BYTES = 10_000
_TOLD = (GoneError, JournalCorruptError, JournalUnavailableError)


class Way(NamedTuple):
    name: str
    pattern: str  # which files may be
    hurt: Callable[[Path, Random], object]


def _flip_end(file: Path, random: Random) -> None:
    data = file.read_bytes()
    _flip(file, len(data) - 1 - random.randrange(int.from_bytes(data[-8:-4], "little") + 8), random)


def _cut(file: Path, random: Random) -> None:
    os.truncate(file, random.randrange(file.stat().st_size))


def _replace(file: Path, random: Random) -> None:
    others = [other for other in sorted(file.parent.iterdir()) if other != file]
    file.write_bytes(random.choice(others).read_bytes())


WAYS = (
    Way("bit flipped in a file", _DATA, _flip_somewhere),
    Way("bit flipped in its end", _DATA, _flip_end),
    Way("sector of zeroes in a file", _DATA, _zero),
    Way("file cut off", _DATA, _cut),
    Way("file lost", _DATA, lambda file, _: file.unlink()),
    Way("another file in its place", _DATA, _replace),
    Way("bit flipped in the manifest", _MANIFEST, _flip_somewhere),
    Way("manifest cut off", _MANIFEST, _cut),
    Way("manifest lost", _MANIFEST, lambda file, _: file.unlink()),
)


class TierSample:
    def __init__(self, folder: Path, random: Random) -> None:
        self.path = folder / "journal"
        self.tier = folder / "tier"
        self.tier.mkdir()
        self.records: list[Record] = []  # by their offsets
        with closing(
            Store(str(self.path), full_sync=False, retention=_ALL, segmenting=Segmenting(1, 1 << 60))
        ) as store:
            while store.next < _RECORDS:
                first = store.next
                end = first + random.choice([1, 7, 40])
                store.add([_part(self.records, offset, random, _TIERED_SIZES_BYTES) for offset in range(first, end)])
                store.commit(now_us=_AT_US)
        with pytest.MonkeyPatch.context() as patch:
            for name, number in (("FILE_BYTES", 12_000), ("STRIPE_RECORDS", 32), ("GROUP_RECORDS", 8)):
                patch.setattr(parquet, name, number)
            tier_copy(self.path, place_at(str(self.tier)), now_us=_AT_US)
        *older, newest = sorted(self.path.glob("*.seg"))
        self._sealed = int(newest.stem)
        for segment in older:
            segment.unlink()

    @contextmanager
    def hurt(self, way: Way, random: Random) -> Iterator[Path]:
        file = random.choice(sorted(self.tier.glob(way.pattern)))
        before = file.read_bytes()
        way.hurt(file, random)
        try:
            yield file
        finally:
            file.write_bytes(before)

    def is_whole(self, hurt: Path) -> bool:
        bad = range(*(range_of(hurt.stem) or (0, self._sealed)))  # of the manifest, all
        found = [self._read(prefix, hurt, bad) for prefix in ("", "/t/2/")]
        return all(found + [self._read_time(offset, hurt, bad) for offset in range(0, len(self.records), 50)])

    def _read(self, prefix: str, hurt: Path, bad: range) -> bool:
        is_whole = True
        with closing(History(str(self.path), str(self.tier))) as history:
            position = 0
            while position < len(self.records):
                try:
                    found = history.fetch(position, None, (prefix,), _TIERED_PIECE_BYTES)
                except _TOLD as error:
                    is_whole = False
                    _check_told(error, hurt)
                    assert position in bad
                    is_version = isinstance(error, JournalUnavailableError) and "this version reads" in str(error)
                    position = bad.stop if is_version else self._behind(history, position, error)
                    assert position <= bad.stop
                    continue
                read = [record for block in found.blocks for record in Block.parse(block).records()]
                assert found.next > position
                assert read == [one for one in self.records[position : found.next] if one.topic.startswith(prefix)]
                position = found.next
        return is_whole

    def _behind(self, history: History, position: int, error: StorageError | GoneError) -> int:
        if isinstance(error, GoneError):
            assert error.first is not None
            return error.first
        damage = history.damage_at(position)
        assert damage is not None
        assert damage.next is not None
        assert damage.first == position < damage.next
        return damage.next

    def _read_time(self, offset: int, hurt: Path, bad: range) -> bool:
        with closing(History(str(self.path), str(self.tier))) as history:
            try:
                found = history.fetch(0, None, ("",), 0, time_us=self.records[offset].time_us).start
            except _TOLD as error:
                _check_told(error, hurt)
                return False
        assert found == offset or (offset in bad and found == bad.stop and not hurt.exists())
        return found == offset


def _check_told(error: StorageError | GoneError, hurt: Path) -> None:
    assert isinstance(error, GoneError) or hurt.stem in str(error), error
