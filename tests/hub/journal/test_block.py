"""A block is checked once, all of it; what is damaged is found."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.batch import Batch
from hub.errors import JournalCorruptError
from hub.frame import BROKER_FLAGS, KIND_MESSAGES, encode_frame
from hub.journal.block import Block, Record, merge, pack, select, to_frames

FRAMES = Batch.of("/a", [1, "two"]).frames + Batch.of("/ä", [None]).frames
BROKER = encode_frame(KIND_MESSAGES, b"\3abc", key=b"/z", flags=BROKER_FLAGS)

(PLAIN,) = pack([(1_000, FRAMES)], 7)
(ENCODED,) = pack([(1_000, FRAMES), (1_001, BROKER)], 7)
SPARSE = select(ENCODED, 0, 100, b"\1\0\1")

blocks = pytest.mark.parametrize("block", [PLAIN, ENCODED, SPARSE], ids=["plain", "encoded", "sparse"])


def test_shows_its_columns() -> None:
    block = Block.parse(ENCODED)
    assert (block.data, block.count, block.first, block.next) == (ENCODED, 4, 7, 11)
    assert block.offsets is None
    assert list(block.times) == [1_000, 1_000, 1_000, 1_001]
    assert list(block.topic_nos) == [0, 0, 1, 2]
    assert block.topics == ["/a", "/ä", "/z"]
    assert list(block.value_ends) == [0, 1, 5, 6, 10]
    assert block.encodings is not None
    assert list(block.encodings) == [0, 0, 0, 1]
    assert bytes(block.values) == b"\1\xa3two\xc0\3abc"
    assert repr(block) == f"<Block of 4 records from 7 on, {len(ENCODED)} bytes>"


def test_shows_its_records() -> None:
    assert list(Block.parse(ENCODED).records()) == [
        Record(7, 1_000, "/a", 0, b"\1"),
        Record(8, 1_000, "/a", 0, b"\xa3two"),
        Record(9, 1_000, "/ä", 0, b"\xc0"),
        Record(10, 1_001, "/z", 1, b"\3abc"),
    ]
    assert Block.parse(PLAIN).encodings is None


def test_shows_the_offsets_of_a_sparse_block() -> None:
    block = Block.parse(SPARSE)
    assert block.offsets is not None
    assert list(block.offsets) == [7, 8, 10]
    assert (block.first, block.next) == (7, 11)
    assert [record.offset for record in block.records()] == [7, 8, 10]


@blocks
def test_takes_bytes_from_anywhere(block: bytes) -> None:
    """A block within a larger buffer is read in place, whether it is aligned there or not."""
    for shift in range(9):
        view = memoryview(bytes(shift) + block)[shift:]
        assert list(Block.parse(view).records()) == list(Block.parse(block).records())


@blocks
def test_finds_any_flipped_bit(block: bytes) -> None:
    for place in range(8 * len(block)):
        damaged = bytearray(block)
        damaged[place // 8] ^= 1 << place % 8
        with pytest.raises(JournalCorruptError):
            Block.parse(bytes(damaged))


@blocks
def test_finds_any_missing_end(block: bytes) -> None:
    for length in range(len(block)):
        with pytest.raises(JournalCorruptError):
            Block.parse(block[:length])
    with pytest.raises(JournalCorruptError):
        Block.parse(block + bytes(8))


def test_trusts_a_checksum_that_was_verified() -> None:
    """Whoever has looked at it need not pay for it twice; the columns are looked at all the same."""
    damaged = PLAIN[:4] + bytes(4) + PLAIN[8:]
    assert list(Block.parse(damaged, verify=False).records()) == list(Block.parse(PLAIN).records())
    with pytest.raises(JournalCorruptError, match="damaged"):
        Block.parse(damaged)


@given(data=st.binary(max_size=200))
def test_takes_no_rubbish(data: bytes) -> None:
    for rubbish in (data, PLAIN[:40] + data, PLAIN[:8] + data):
        if rubbish != PLAIN:
            with pytest.raises(JournalCorruptError):
                Block.parse(rubbish)


def test_says_that_a_block_is_damaged() -> None:
    with pytest.raises(JournalCorruptError, match="HJB1"):
        select(b"x" * 40, 0, 1)
    with pytest.raises(JournalCorruptError, match="begins at 7"):
        merge([PLAIN, PLAIN])
    with pytest.raises(JournalCorruptError, match="shorter than a header"):
        to_frames(PLAIN[:39])


def test_keeps_its_functions_apart_from_its_bytes() -> None:
    small = pack([(1_000, FRAMES)], 7, limit_records=1)
    assert merge(small) == PLAIN
    assert select(PLAIN, 8, 9) == small[1]
    assert to_frames(PLAIN) == [(FRAMES, 3)]
