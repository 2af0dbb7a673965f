"""Files of a tier: what is written is read, in part or as a whole; whatever is damaged is an error."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hub.errors import JournalCorruptError
from hub.journal.block import Block, Record, pack
from hub.journal.layout import write_block
from hub.journal.manifest import Entry, Hole
from hub.journal.selection import Selection
from peers.journal.tier import parquet
from peers.journal.tier.parquet import SCHEMA, FileMaker, Opened, Stripe, blocks_of, digests, entry_from
from tests.cli.programs import PATIENCE_S
from tests.journal.files import AT_US, frames, records
from tests.journal.tier.made import JOURNAL, blocks

EVERYTHING = Selection([""])


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


def _records(made: Sequence[Block]) -> list[Record]:
    return [record for block in made for record in block.records()]


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
    with pytest.raises(ValueError, match="should follow"):
        maker.add(blocks(5, 23)[0])
    for hurt, journal, text in (
        (bytes(data)[:-1], JOURNAL, "bytes, and should have"),
        (data, bytes(16), "is of the journal"),
    ):
        with pytest.raises(JournalCorruptError, match=text):
            opened(hurt, entry, journal)


def test_no_entry_for_what_is_not_as_it_was() -> None:
    data, entry = holed()
    tail = data[-entry.tail_bytes :]
    lying = data[: -entry.tail_bytes] + tail.replace(b'[["/t/0', b'[["/t/-', 1)
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


def test_forged_types_of_columns() -> None:
    """Arrow ends the process when it is asked for the statistics of such a column."""
    data, entry = made()
    body, tail = bytes(data[: -entry.tail_bytes]), bytes(data[-entry.tail_bytes :])
    types = re.compile(rb"\x15(.)\x19.{1,6}\x19\x18.(%s)" % "|".join(SCHEMA.names).encode(), re.DOTALL)
    places = {found[2]: found.start(1) for found in types.finditer(tail)}
    assert len(places) == len(SCHEMA)
    for place in places.values():
        forged = body + tail[:place] + b"\0" + tail[place + 1 :]
        with suppress(JournalCorruptError):  # Arrow reads texts and bytes all the same
            assert entry_from(forged, (entry.first, entry.next), JOURNAL).topics == entry.topics


_READER = """
import os, sys
import msgspec
import pyarrow as pa
from hub.journal.manifest import Entry
from peers.journal.tier.parquet import Opened

path, entry = sys.argv[1], msgspec.json.decode(sys.argv[2], type=Entry)
before = set(os.listdir("/proc/self/task"))
for file in (pa.BufferReader(open(path, "rb").read()), pa.OSFile(path)):
    Opened(file, entry, bytes(range(16))).check()
print(len(set(os.listdir("/proc/self/task")) - before))
"""


def test_who_reads_a_file_that_is_near_starts_no_threads(tmp_path: Path) -> None:
    data, entry = made()
    (tmp_path / "file").write_bytes(data)
    command = [sys.executable, "-c", _READER, str(tmp_path / "file"), msgspec.json.encode(entry).decode()]
    assert subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE_S).stdout == b"0\n"


def test_only_groups_that_may_hold_a_topic_are_read() -> None:
    data, entry = made(60, topics=4)
    file = opened(data, entry)
    groups = file.groups(0, Selection(["/t/2"]))
    assert len(groups) == 1
    assert {record.topic for record in records(blocks_of(file.table(0, groups)))} == {"/t/2"}
    assert file.groups(0, Selection(["/t/9"])) == ()
    assert len(file.groups(0, Selection(["/t/"]))) == 4
    # Also by topics that are too long for Parquet's statistics.
    maker = FileMaker(JOURNAL, 0)
    maker.add(Block.parse(pack([(AT_US, frames("/long/" + "x" * 5_000, 1))], 0)[0]))
    data, entry = maker.finish()
    assert opened(data, entry).groups(0, Selection(["/none"])) == ()


def test_a_file_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "FILE_BYTES", 500)
    maker = FileMaker(JOURNAL, 0)
    assert not maker.is_full
    maker.add(blocks(32, padding=50)[0])
    assert maker.is_full


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


def test_other_engines_skip_row_groups_by_offset_time_and_topic() -> None:
    group = pq.read_metadata(pa.BufferReader(made()[0])).row_group(0)
    columns = {group.column(place).path_in_schema: group.column(place) for place in range(group.num_columns)}
    assert {name for name, column in columns.items() if column.is_stats_set} == {
        *("offset", "timestamp", "topic", "encoding")
    }
    packed = {name for name, column in columns.items() if "DELTA_BINARY_PACKED" in column.encodings}
    assert packed == {"offset", "timestamp"}


def test_flipped_bits_are_noticed() -> None:
    data, entry = made(100)
    expected = _records(blocks(100))
    noticed = 0
    chance = random.Random(5)  # noqa: S311
    for place in chance.sample(range(len(data)), 150):
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
    assert noticed > 110


TOPICS = st.one_of(st.sampled_from(["/a", "/b", "/zeek/dns", "/ü", ""]), st.text(max_size=20))
ROW = st.tuples(st.integers(-(2**60), 2**60), TOPICS, st.integers(0, 3), st.binary(max_size=30))


def block_of(first: int, rows: Sequence[tuple[int, str, int, bytes]]) -> Block:
    times, topics, encodings, values = zip(*rows, strict=True)
    names = list(dict.fromkeys(topics))
    offsets, numbers = range(first, first + len(rows)), [names.index(topic) for topic in topics]
    encoded = [name.encode() for name in names]
    return Block.parse(write_block(times, offsets, numbers, encodings, encoded, values))


@settings(max_examples=100, deadline=None)
@given(first=st.integers(0, 2**61), parts=st.lists(st.lists(ROW, min_size=1, max_size=40), min_size=1, max_size=4))
def test_records_come_back_byte_for_byte(first: int, parts: list[list[tuple[int, str, int, bytes]]]) -> None:
    made, position = [], first
    for rows in parts:
        made.append(block_of(position, rows))
        position = made[-1].next
    stripe = Stripe(made)
    assert (stripe.first, stripe.next) == (first, position)
    assert records(blocks_of(pa.concat_tables(stripe.groups()))) == _records(made)


def test_a_digest_tells_rows_apart() -> None:
    rows = [(1, "/a", 0, b"x"), (2, "/b", 0, b"yy"), (3, "/c", 0, b"")]
    table = Stripe([block_of(5, rows)]).table
    others = [
        block_of(6, rows),
        block_of(5, [(9, "/a", 0, b"x"), *rows[1:]]),
        block_of(5, [(1, "/A", 0, b"x"), *rows[1:]]),
        block_of(5, [(1, "/a", 1, b"x"), *rows[1:]]),
        block_of(5, [(1, "/a", 0, b"z"), *rows[1:]]),
        block_of(5, [(1, "/a", 0, b"xy"), (2, "/b", 0, b"y"), rows[2]]),
    ]
    found = {digests(Stripe([other]).table) for other in others} | {digests(table.take([1, 0, 2]))}
    assert len(found) == 7
    assert digests(table) not in found
    assert digests(table.slice(1, 2)) == digests(table.take([1, 2]))


def test_rows_and_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    types = {"offset": pa.int64(), "timestamp": pa.timestamp("us", "UTC"), "topic": pa.string(), "value": pa.binary()}
    assert {field.name: field.type for field in SCHEMA} == types | {"encoding": pa.int8()}
    made = blocks(100, topics=7)
    table = Stripe(made).table
    rows = list(zip(table["topic"].to_pylist(), table["offset"].to_pylist(), strict=True))
    assert rows == sorted(rows)
    some = table.filter(pc.equal(table["topic"], "/t/3"))
    assert records(blocks_of(some)) == [record for record in _records(made) if record.topic == "/t/3"]
    padded = Stripe(blocks(40, padding=50)).table
    monkeypatch.setattr(parquet, "_BLOCK_RECORDS", 16)
    assert [Block.parse(one).count for one in blocks_of(padded)] == [16, 16, 8]
    monkeypatch.setattr(parquet, "_BLOCK_BYTES", 10)
    assert len(blocks_of(padded)) == 40


def test_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "GROUP_RECORDS", 10)
    topics = [set(group["topic"].to_pylist()) for group in Stripe(blocks(100, topics=20)).groups()]
    assert [len(each) for each in topics] == [2] * 10
    assert len(set().union(*topics)) == 20
    assert [len(group) for group in Stripe(blocks(200, topics=1)).groups()] == [80, 80, 40]
    monkeypatch.setattr(parquet, "GROUP_RECORDS", 1_000)
    monkeypatch.setattr(parquet, "GROUP_BYTES", 100)
    assert max(len(group) for group in Stripe(blocks(200, topics=1, padding=90)).groups()) <= 9
