"""Files of a tier: what is written is read, in part or as a whole; whatever is damaged is an error."""

from __future__ import annotations

import random
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hub.errors import JournalCorruptError
from hub.journal.block import Block, pack
from hub.journal.manifest import Entry, Hole
from hub.journal.wanted import Wanted
from peers.journal.tier import parquet
from peers.journal.tier.parquet import FileMaker, Opened, blocks_of, entry_from
from tests.cli.programs import PATIENCE_S
from tests.journal.files import AT_US, frames, records
from tests.journal.tier.made import JOURNAL, blocks

EVERYTHING = Wanted([""])


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "STRIPE_RECORDS", 64)
    monkeypatch.setattr(parquet, "GROUP_RECORDS", 8)


def made(count: int = 150, first: int = 0, **wanted: Any) -> tuple[memoryview, Entry]:
    maker = FileMaker(JOURNAL, first)
    for block in blocks(count, first, **wanted):
        maker.add(block)
    return maker.finish()


def opened(data: bytes | memoryview, entry: Entry, journal: bytes = JOURNAL) -> Opened:
    return Opened(pa.BufferReader(data), entry, journal)


def test_what_is_known_of_a_file() -> None:
    data, entry = made(100, 50)
    assert (entry.first, entry.next, entry.records) == (50, 150, 100)
    assert (entry.earliest_us, entry.latest_us) == (AT_US + 50_000_000, AT_US + 149_000_000)
    assert entry.topics == (("/t/0", 33), ("/t/1", 33), ("/t/2", 34))
    assert entry.are_topics_whole
    assert entry.size_bytes == len(data)
    assert entry.sha256 == sha256(data).hexdigest()
    assert entry.raw_bytes == sum(len(block.values) for block in blocks(100, 50))


def holed() -> tuple[bytes, Entry]:
    maker = FileMaker(JOURNAL, 0)
    for block in blocks(40):
        maker.add(block)
    maker.pass_over(50, "hurt")
    for block in blocks(30, 50):
        maker.add(block)
    maker.pass_over(90, "hurt, too")
    data, entry = maker.finish()
    return bytes(data), entry


def test_a_file_says_what_the_manifest_says() -> None:
    data, entry = holed()
    assert entry_from(data, (0, 90), JOURNAL) == entry
    maker = FileMaker(JOURNAL, 7)
    maker.pass_over(9, "hurt")
    nothing, known = maker.finish()
    assert entry_from(bytes(nothing), (7, 9), JOURNAL) == known


def test_no_entry_for_what_is_not_as_it_was() -> None:
    """Other offsets than its name says, half a file, other values, statistics that readers would believe."""
    data, entry = holed()
    tail = data[-entry.tail_bytes :]
    lying = data[: -entry.tail_bytes] + tail.replace(b"/t/0", b"/t/1", 1)
    assert lying != data
    for hurt, reach, journal in (
        (data, (0, 91), JOURNAL),
        (data[:-50], (0, 90), JOURNAL),
        (data[:3], (0, 90), JOURNAL),
        (b"", (0, 90), JOURNAL),
        (data, (0, 90), bytes(16)),
        (lying, (0, 90), JOURNAL),
    ):
        with pytest.raises(JournalCorruptError):
            entry_from(hurt, reach, journal)


def test_stripes_and_groups_come_back() -> None:
    data, entry = made()
    file = opened(data, entry)
    file.check()
    assert [(stripe.first, stripe.next) for stripe in file.stripes] == [(0, 64), (64, 128), (128, 150)]
    found = [
        record
        for number in range(3)
        for record in records(blocks_of(file.table(number, file.groups(number, EVERYTHING))))
    ]
    assert found == [record for block in blocks(150) for record in block.records()]


_READER = """
import os, sys
from pathlib import Path
import pyarrow as pa
from peers.journal.tier.parquet import Opened
from tests.journal.tier.test_parquet import JOURNAL, made

data, entry = made()
Path(sys.argv[1]).write_bytes(data)
before = set(os.listdir("/proc/self/task"))
for file in (pa.BufferReader(data), pa.OSFile(sys.argv[1])):
    Opened(file, entry, JOURNAL).check()
print(len(set(os.listdir("/proc/self/task")) - before))
"""


def test_who_reads_a_file_that_is_near_starts_no_threads(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _READER, str(tmp_path / "file")]
    assert subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE_S).stdout == b"0\n"


def test_only_groups_that_may_hold_a_topic_are_read() -> None:
    data, entry = made(60, topics=4)
    file = opened(data, entry)
    groups = file.groups(0, Wanted(["/t/2"]))
    assert len(groups) == 1
    assert {record.topic for record in records(blocks_of(file.table(0, groups)))} == {"/t/2"}
    assert file.groups(0, Wanted(["/t/9"])) == ()
    assert len(file.groups(0, Wanted(["/t/"]))) == 4


def test_some_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    data, entry = made(60, padding=1_000)
    file = opened(data, entry)
    groups = file.groups(0, EVERYTHING)
    found = file.table(0, groups, ["offset", "topic"])
    assert found.column_names == ["offset", "topic"]
    assert sorted(found["offset"].to_pylist()) == list(range(60))
    monkeypatch.setattr(parquet, "digests", lambda table: (0,) * table.num_columns)
    with pytest.raises(JournalCorruptError, match="does not match"):
        file.table(0, groups, ["topic"])


def test_topics_too_long_for_statistics() -> None:
    (block,) = [Block.parse(one) for one in pack([(AT_US, frames("/long/" + "x" * 5_000, 1))], 0)]
    maker = FileMaker(JOURNAL, 0)
    maker.add(block)
    data, entry = maker.finish()
    assert opened(data, entry).groups(0, Wanted(["/none"])) == (0,)


def test_any_tool_reads_it() -> None:
    data, _ = made(20)
    columns, wanted = ["offset", "topic", "timestamp"], [("topic", "=", "/t/1")]
    found = pq.read_table(pa.BufferReader(data), columns=columns, filters=wanted)
    assert sorted(found["offset"].to_pylist()) == [1, 4, 7, 10, 13, 16, 19]
    assert str(found.schema.field("timestamp").type) == "timestamp[us, tz=UTC]"


def test_holes() -> None:
    maker = FileMaker(JOURNAL, 10)
    maker.pass_over(12, "lost")
    for block in blocks(5, 12):
        maker.add(block)
    maker.pass_over(20, "lost again")
    data, entry = maker.finish()
    assert (entry.first, entry.next, entry.records) == (10, 20, 5)
    assert entry.holes == (Hole(10, 12, "lost"), Hole(17, 20, "lost again"))
    file = opened(data, entry)
    file.check()
    assert [(stripe.first, stripe.next) for stripe in file.stripes] == [(12, 17)]


def test_a_block_that_does_not_follow() -> None:
    maker = FileMaker(JOURNAL, 0)
    with pytest.raises(ValueError, match="should follow"):
        maker.add(blocks(5, 3)[0])


def test_a_file_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "FILE_BYTES", 500)
    maker = FileMaker(JOURNAL, 0)
    assert not maker.is_full
    maker.add(blocks(32, padding=50)[0])
    assert maker.is_full


def test_flipped_bits_are_noticed() -> None:
    data, entry = made(100)
    expected = [record for block in blocks(100) for record in block.records()]
    noticed = 0
    chance = random.Random(5)  # noqa: S311
    for place in chance.sample(range(len(data)), 400):
        hurt = bytearray(data)
        hurt[place] ^= 1 << chance.randrange(8)
        try:
            file = opened(bytes(hurt), entry)
            file.check()
            tables = [file.table(at, file.groups(at, EVERYTHING)) for at in range(len(file.stripes))]
        except (JournalCorruptError, OSError) as error:
            assert isinstance(error, JournalCorruptError), error  # noqa: PT017
            noticed += 1
            continue
        assert [record for each in tables for record in records(blocks_of(each))] == expected
    assert noticed > 300


def test_a_file_of_another_length() -> None:
    data, entry = made(20)
    with pytest.raises(JournalCorruptError, match="bytes, and should have"):
        opened(bytes(data)[:-1], entry)


def test_a_file_of_another_journal() -> None:
    data, entry = made(20)
    with pytest.raises(JournalCorruptError, match="is of the journal"):
        opened(data, entry, bytes(16))
