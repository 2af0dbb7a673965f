"""A journal whose records are in its tier alone, ways to hurt a file of the tier, and what must hold of the rest then.

```
TierSample: files, a manifest ─▶ hurt one of them ─▶ examine: read all of it, by offset, topic and time ─▶ mended
```

Whoever reads gets the records that were published, at their offsets; or an error that names the file that was hurt, and
only for offsets that this file speaks of. What it does not speak of is read as if nothing had happened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from enum import Enum
from pathlib import Path
from random import Random
from typing import NamedTuple

from hub.batch import Batch
from hub.errors import GoneError, JournalCorruptError, JournalUnavailableError, StorageError
from hub.journal.block import Block, Record
from hub.journal.manifest import range_of
from peers.journal.history import History
from peers.journal.store import Retention, Segmenting, Store
from peers.journal.tier import parquet
from peers.journal.tier.copier import Copier, TierRetention
from peers.journal.tier.place import place_at

__all__ = ["DATA", "MANIFEST", "WAYS", "Outcome", "TierSample", "Way", "small_files"]

DATA = "*/data/*.parquet"
MANIFEST = "*/manifest.json"

_ALL = Retention(bytes=1 << 50, age_us=1 << 60)
_AT_US = 1_700_000_000_000_000
_SECOND_US = 1_000_000
_RECORDS = 600
_TOPICS = 5
_SIZES_BYTES = [1] * 20 + [40] * 20 + [300] * 5 + [3_000]
_PIECE_BYTES = 10_000
_SECTOR_BYTES = 512
_LOTS = 1 << 30


class Outcome(Enum):
    ALL = "everything was read"
    REPORTED = "told, the rest was read"


class Way(NamedTuple):
    name: str
    pattern: str
    """Which files may be."""
    hurt: Callable[[Path, Random], None]


def _flip(file: Path, random: Random) -> None:
    data = bytearray(file.read_bytes())
    data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    file.write_bytes(data)


def _flip_end(file: Path, random: Random) -> None:
    data = bytearray(file.read_bytes())
    data[-1 - random.randrange(int.from_bytes(data[-8:-4], "little") + 8)] ^= 1 << random.randrange(8)
    file.write_bytes(data)


def _zero(file: Path, random: Random) -> None:
    data = bytearray(file.read_bytes())
    start = random.randrange(max(1, len(data) // _SECTOR_BYTES)) * _SECTOR_BYTES
    end = min(start + _SECTOR_BYTES, len(data))
    data[start:end] = bytes(end - start)
    file.write_bytes(data)


def _cut(file: Path, random: Random) -> None:
    data = file.read_bytes()
    file.write_bytes(data[: random.randrange(len(data))])


def _delete(file: Path, random: Random) -> None:  # noqa: ARG001 -- as the others
    file.unlink()


def _replace(file: Path, random: Random) -> None:
    others = [other for other in sorted(file.parent.iterdir()) if other != file]
    file.write_bytes(random.choice(others).read_bytes())


WAYS = (
    Way("bit flipped in a file", DATA, _flip),
    Way("bit flipped in its end", DATA, _flip_end),
    Way("sector of zeroes in a file", DATA, _zero),
    Way("file cut off", DATA, _cut),
    Way("file lost", DATA, _delete),
    Way("another file in its place", DATA, _replace),
    Way("bit flipped in the manifest", MANIFEST, _flip),
    Way("manifest cut off", MANIFEST, _cut),
    Way("manifest lost", MANIFEST, _delete),
)


@contextmanager
def small_files() -> Iterator[None]:
    """Make files of about a hundred records, stripes of 32, groups of 8, for as long as the block lasts."""
    before = parquet.FILE_BYTES, parquet.STRIPE_RECORDS, parquet.GROUP_RECORDS
    parquet.FILE_BYTES, parquet.STRIPE_RECORDS, parquet.GROUP_RECORDS = 12_000, 32, 8
    try:
        yield
    finally:
        parquet.FILE_BYTES, parquet.STRIPE_RECORDS, parquet.GROUP_RECORDS = before


class TierSample:
    """A journal of which nothing but the newest segment is here, and its tier.

    Args:
        folder: Where both stand.
        random: Decides what is recorded.
    """

    def __init__(self, folder: Path, random: Random) -> None:
        self.path = folder / "journal"
        self.tier = folder / "tier"
        self.tier.mkdir()
        self.records: list[Record] = []
        """By their offsets."""
        with closing(
            Store(str(self.path), full_sync=False, retention=_ALL, segmenting=Segmenting(1, 1 << 60))
        ) as store:
            while store.next < _RECORDS:
                first = store.next
                store.add([self._part(offset, random) for offset in range(first, first + random.choice([1, 7, 40]))])
                store.commit(now_us=_AT_US)
        with small_files(), closing(Copier(str(self.path), place_at(str(self.tier)), TierRetention(0, 0))) as copier:
            while copier.step(_AT_US):
                pass
        *older, newest = sorted(self.path.glob("*.seg"))
        self._sealed = int(newest.stem)
        for segment in older:
            segment.unlink()

    def _part(self, offset: int, random: Random) -> tuple[int, bytes]:
        value = [offset, random.randbytes(random.choice(_SIZES_BYTES))]
        batch = Batch.of(f"/t/{random.randrange(_TOPICS)}/x", [value])
        (frame,) = batch.parts()
        at_us = _AT_US + offset * _SECOND_US
        self.records.append(Record(offset, at_us, frame.key.decode(), 0, frame.body))
        return at_us, batch.frames

    @contextmanager
    def hurt(self, way: Way, random: Random) -> Iterator[Path]:
        file = random.choice(sorted(self.tier.glob(way.pattern)))
        before = file.read_bytes()
        way.hurt(file, random)
        try:
            yield file
        finally:
            file.write_bytes(before)

    def examine(self, hurt: Path) -> Outcome:
        """Read everything.

        Args:
            hurt: What was hurt.

        Raises:
            AssertionError: Something else was read than what was written, or something is missing that was not hurt.
            StorageError: An error that names no place.
        """
        bad = range(*(range_of(hurt.stem) or (0, self._sealed)))  # of the manifest, all
        is_whole = True
        for prefix in ("", "/t/2/"):
            is_whole &= self._read(prefix, hurt, bad)
        for offset in range(0, len(self.records), 50):
            is_whole &= self._read_time(offset, hurt, bad)
        return Outcome.ALL if is_whole else Outcome.REPORTED

    def _read(self, prefix: str, hurt: Path, bad: range) -> bool:
        is_whole = True
        with closing(History(str(self.path), str(self.tier))) as history:
            position = 0
            while position < len(self.records):
                try:
                    found = history.fetch(position, None, (prefix,), _PIECE_BYTES)
                except _TOLD as error:
                    is_whole = False
                    _check_told(error, hurt)
                    assert position in bad
                    position = bad.stop if _is_version(error) else self._behind(history, position, error)
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


_TOLD = (GoneError, JournalCorruptError, JournalUnavailableError)


def _is_version(error: StorageError | GoneError) -> bool:
    """Return whether the manifest seems to be of another version, for a bit in the number of its version."""
    return isinstance(error, JournalUnavailableError) and "this version reads" in str(error)


def _check_told(error: StorageError | GoneError, hurt: Path) -> None:
    assert isinstance(error, GoneError) or hurt.stem in str(error), error
