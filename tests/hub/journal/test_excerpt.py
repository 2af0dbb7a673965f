"""An excerpt has what was asked for, nothing else; what is damaged is found."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.batch import Batch
from hub.errors import JournalCorruptError
from hub.frame import BROKER_FLAGS, KIND_MESSAGES, encode_frame
from hub.journal.block import Block, Record, pack, select
from hub.journal.excerpt import excerpt_of, whole_of
from hub.journal.layout import COLUMNS, Column
from tests.hub.journal.test_layout import changed, sealed

FRAMES = Batch.of("/a", [1, "two"]).frames + Batch.of("/ä", [None]).frames
BROKER = encode_frame(KIND_MESSAGES, b"\3abc", key=b"/z", flags=BROKER_FLAGS)

(PLAIN,) = pack([(1_000, FRAMES)], 7)
(ENCODED,) = pack([(1_000, FRAMES), (1_001, BROKER)], 7)
SPARSE = select(ENCODED, 0, 100, b"\1\0\1")
BLOCKS = [PLAIN, ENCODED, SPARSE]

some_columns = st.sets(st.sampled_from(COLUMNS))


@given(st.sampled_from(BLOCKS), some_columns)
def test_what_was_asked_for(block: bytes, columns: set[Column]) -> None:
    """Is in it as in the block; of all else there is nothing, but as many records."""
    whole = list(Block.parse(block).records())
    found = list(Block.parse(whole_of(excerpt_of(block, columns))).records())
    first = whole[0].offset
    assert found == [
        Record(
            record.offset if "offset" in columns else first + number,
            record.time_us if "time" in columns else 0,
            record.topic if "topic" in columns else "",
            record.encoding if "value" in columns else 0,
            record.body if "value" in columns else b"",
        )
        for number, record in enumerate(whole)
    ]


@pytest.mark.parametrize("block", BLOCKS)
def test_all_columns_are_the_block(block: bytes) -> None:
    assert excerpt_of(block, COLUMNS) is block
    assert whole_of(block) is block


def test_its_size() -> None:
    """What is left out takes no bytes: a count is a header, and times are eight bytes each."""
    (block,) = pack([(5, Batch.of("/long/topic", ["x" * 100] * 1000).frames)], 0)
    assert len(excerpt_of(block, ())) == 40
    assert len(excerpt_of(block, ("offset",))) == 40
    assert len(excerpt_of(block, ("time",))) == 40 + 8 * 1000
    assert len(excerpt_of(block, ("topic",))) == 40 + 4 * 1000 + 2 * 4 + 16
    assert len(excerpt_of(select(block, 0, 1000, None), ("value",))) > 100 * 1000


@given(st.sampled_from(BLOCKS), some_columns, st.data())
def test_damage_is_found(block: bytes, columns: set[Column], data: st.DataObject) -> None:
    excerpt = excerpt_of(block, columns - {"value"})
    place = data.draw(st.integers(0, len(excerpt) - 1))
    flipped = excerpt[:place] + bytes([excerpt[place] ^ data.draw(st.integers(1, 255))]) + excerpt[place + 1 :]
    for damaged in (flipped, excerpt[: data.draw(st.integers(4, len(excerpt) - 1))]):
        with pytest.raises(JournalCorruptError):
            Block.parse(whole_of(damaged))


@given(st.sampled_from(BLOCKS), some_columns, st.data())
def test_what_a_header_says_is_not_believed(block: bytes, columns: set[Column], data: st.DataObject) -> None:
    excerpt = excerpt_of(block, columns - {"value"})
    place = 8 + 4 * data.draw(st.integers(0, 7))
    number = data.draw(st.sampled_from([0, 1, 2, 3, 4, 5, 255, 2**16 + 1, 2**31 - 1, 2**31, 2**32 - 1]))
    with suppress(JournalCorruptError):
        list(Block.parse(whole_of(changed(excerpt, place, "<I", number))).records())
    assert sealed(excerpt) == excerpt
