"""A block is checked once, all of it; nothing that stands in it leads out of it; excerpts have what was asked for."""

from __future__ import annotations

import struct
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import JournalCorruptError
from hub.journal.block import Block, Record, merge, pack, select, to_frames
from hub.journal.layout import COLUMNS, Column, columns_of, excerpt_of, whole_of
from hub.messages.batch import Batch
from hub.messages.frame import BROKER_FLAGS, KIND_MESSAGES, encode_frame
from tests.hub.journal.twins import PURE, batch, both, single

FRAMES = batch(b"/a", 2, b"\1\2") + single(b"/bb", b"\3") + single(b"/a", b"\4")
(PLAIN,) = PURE.pack([(5, FRAMES)], 7)
(ENCODED,) = PURE.pack([(5, FRAMES + single(b"/z", b"xyz", encoding=1))], 7)
SPARSE = PURE.select(ENCODED, 0, 100, b"\1\0\1")
BLOCKS = [PLAIN, ENCODED, SPARSE]


def sealed(block: bytes) -> bytes:
    return block[:4] + struct.pack("<I", crc32(block[8:])) + block[8:]


def changed(block: bytes, place: int, form: str, number: int) -> bytes:
    data = bytearray(block)
    struct.pack_into(form, data, place, number)
    return sealed(bytes(data))


def outcome(function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except ValueError:
        return ValueError


@both
@pytest.mark.parametrize("block", BLOCKS, ids=["plain", "encoded", "sparse"])
def test_sections_stand_where_they_can_be_mapped(twin: SimpleNamespace, block: bytes) -> None:
    layout = twin.read_layout(block)
    places = layout[6:]
    assert layout == PURE.read_layout(block)
    assert places[0] == 40
    assert sorted(places) == list(places)
    assert all(place % 8 == 0 for place in (*places, len(block)))
    columns = columns_of(memoryview(block), layout)
    assert columns.topic(0) == b"/a"
    assert columns.value(1) == b"\2"
    assert not any(block[layout.values + layout.value_bytes :])


@both
@pytest.mark.parametrize(
    ("place", "form", "number"),
    [
        pytest.param(0, "<I", 0, id="magic"),
        pytest.param(8, "<I", 0, id="no records"),
        pytest.param(8, "<I", 3, id="fewer records"),
        pytest.param(8, "<I", 65_537, id="too many records"),
        pytest.param(8, "<I", 2**32 - 1, id="most records"),
        pytest.param(12, "<I", 0, id="no topics"),
        pytest.param(12, "<I", 5, id="more topics than records"),
        pytest.param(12, "<I", 1, id="a topic that is not there"),
        pytest.param(16, "<I", 4, id="topics of fewer bytes"),
        pytest.param(16, "<I", 2**32 - 1, id="topics of too many bytes"),
        pytest.param(20, "<I", 4, id="unknown flag"),
        pytest.param(20, "<I", 1, id="sparse, but nothing there"),
        pytest.param(24, "<Q", 3, id="fewer bytes of values"),
        pytest.param(24, "<Q", 2**31, id="too many bytes of values"),
        pytest.param(24, "<Q", 2**64 - 8, id="bytes of values that overflow"),
        pytest.param(32, "<q", -1, id="negative offset"),
        pytest.param(32, "<q", 2**62, id="offset over the limit"),
        pytest.param(72, "<i", -1, id="negative topic"),
        pytest.param(84, "<i", 2, id="topic over the dictionary"),
        pytest.param(88, "<i", 1, id="values begin late"),
        pytest.param(92, "<i", 4, id="an end before its start"),
        pytest.param(92, "<i", -4, id="a negative end"),
        pytest.param(96, "<i", 2**31 - 1, id="an end behind the values"),
        pytest.param(104, "<i", 5, id="the last value ends too late"),
        pytest.param(112, "<i", 1, id="topics begin late"),
        pytest.param(116, "<i", 6, id="a topic ends too late"),
        pytest.param(120, "<i", 4, id="the last topic ends too early"),
    ],
)
def test_refuses_what_contradicts_itself(twin: SimpleNamespace, place: int, form: str, number: int) -> None:
    damaged = changed(PLAIN, place, form, number)
    for function, *arguments in (
        *((twin.read_layout, damaged), (twin.to_frames, damaged)),
        *((twin.select, damaged, 8, 9, None), (twin.merge, [PLAIN, damaged])),
    ):
        with pytest.raises(ValueError, match=r"\w"):
            function(*arguments)


(TWO_LONG,) = PURE.pack([(0, single(b"a" * 65_535, b"\1") + single(b"b" * 65_535, b"\2"))], 0)
"""Two topics of 65,535 bytes are two; the same bytes are not one of 65,536 and another."""


@both
def test_refuses_what_no_frame_bears(twin: SimpleNamespace) -> None:
    at, encodings = PURE.read_layout(SPARSE).offsets, PURE.read_layout(ENCODED).encodings
    ends = PURE.read_layout(TWO_LONG).topic_ends
    assert twin.read_layout(TWO_LONG).topic_bytes == 131_070
    assert twin.read_layout(changed(ENCODED, encodings, "<B", 3))
    offsets = ((at, 6), (at + 8, 7), (at + 8, 11), (at + 24, 2**62), (at + 24, -1), (at, -1))
    for block, text in (
        *((changed(SPARSE, place, "<q", offset), "offsets") for place, offset in offsets),
        (changed(ENCODED, encodings, "<B", 4), "two bits"),
        (changed(TWO_LONG, ends + 4, "<i", 65_536), "longer than a frame can bear"),
    ):
        with pytest.raises(ValueError, match=text):
            twin.read_layout(block)


@both
@given(
    block=st.sampled_from(BLOCKS),
    changes=st.lists(st.tuples(st.integers(8, 200), st.integers(0, 255)), min_size=1, max_size=4),
)
def test_no_damage_does_harm(twin: SimpleNamespace, block: bytes, changes: list[tuple[int, int]]) -> None:
    """Any bytes changed, with the checksum that fits: refused, or read as the other twin reads it."""
    data = bytearray(block)
    for place, byte in changes:
        data[place % len(data)] = byte
    damaged = sealed(bytes(data))
    layout = outcome(twin.read_layout, damaged)
    assert layout == outcome(PURE.read_layout, damaged)
    assert outcome(twin.to_frames, damaged, 10) == outcome(PURE.to_frames, damaged, 10)
    assert outcome(twin.merge, [PLAIN, damaged]) == outcome(PURE.merge, [PLAIN, damaged])
    assert outcome(twin.select, damaged, 8, 10, None) == outcome(PURE.select, damaged, 8, 10, None)
    wanted = b"\1\0\0"[: layout.topics] if layout is not ValueError else b""
    assert outcome(twin.select, damaged, 0, 100, wanted) == outcome(PURE.select, damaged, 0, 100, wanted)


MIXED_FRAMES = Batch.of("/a", [1, "two"]).frames + Batch.of("/ä", [None]).frames
BROKER = encode_frame(KIND_MESSAGES, b"\3abc", key=b"/z", flags=BROKER_FLAGS)
(MIXED,) = pack([(1_000, MIXED_FRAMES)], 7)
(MIXED_ENCODED,) = pack([(1_000, MIXED_FRAMES), (1_001, BROKER)], 7)
MIXED_SPARSE = select(MIXED_ENCODED, 0, 100, b"\1\0\1")


def test_shows_its_columns() -> None:
    block, sparse = Block.parse(MIXED_ENCODED), Block.parse(MIXED_SPARSE)
    assert (block.data, block.count, block.first, block.next) == (MIXED_ENCODED, 4, 7, 11)
    assert block.topics == ["/a", "/ä", "/z"]
    columns = (block.times, block.topic_nos, block.value_ends, block.encodings or (), sparse.offsets or ())
    assert list(map(list, columns)) == [
        *([1_000, 1_000, 1_000, 1_001], [0, 0, 1, 2], [0, 1, 5, 6, 10], [0, 0, 0, 1], [7, 8, 10])
    ]
    assert bytes(block.values) == b"\1\xa3two\xc0\3abc"
    assert repr(block) == f"<Block of 4 records from 7 on, {len(MIXED_ENCODED)} bytes>"
    assert (block.offsets, sparse.first, sparse.next) == (None, 7, 11)
    assert [record.offset for record in sparse.records()] == [7, 8, 10]


MIXED_BLOCKS = [MIXED, MIXED_ENCODED, MIXED_SPARSE]


@pytest.mark.parametrize("block", MIXED_BLOCKS, ids=["plain", "encoded", "sparse"])
def test_finds_any_flipped_bit(block: bytes) -> None:
    for place in range(8 * len(block)):
        damaged = bytearray(block)
        damaged[place // 8] ^= 1 << place % 8
        with pytest.raises(JournalCorruptError):
            Block.parse(bytes(damaged))


def test_a_damaged_block() -> None:
    """Whoever has looked at its checksum need not pay for it twice; the columns are looked at all the same."""
    damaged = MIXED[:4] + bytes(4) + MIXED[8:]
    assert list(Block.parse(damaged, verify=False).records()) == list(Block.parse(MIXED).records())
    for act, text in (
        (lambda: Block.parse(damaged), "damaged"),
        (lambda: select(b"x" * 40, 0, 1), "HJB1"),
        (lambda: merge([MIXED, MIXED]), "begins at 7"),
        (lambda: to_frames(MIXED[:39]), "shorter than a header"),
    ):
        with pytest.raises(JournalCorruptError, match=text):
            act()


some_columns = st.sets(st.sampled_from(COLUMNS))


@given(st.sampled_from(MIXED_BLOCKS), some_columns)
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


def test_its_size() -> None:
    """What is left out takes no bytes: a count is a header, and times are eight bytes each."""
    (block,) = pack([(5, Batch.of("/long/topic", ["x" * 100] * 1000).frames)], 0)
    assert len(excerpt_of(block, ())) == 40
    assert len(excerpt_of(block, ("offset",))) == 40
    assert len(excerpt_of(block, ("time",))) == 40 + 8 * 1000
    assert len(excerpt_of(block, ("topic",))) == 40 + 4 * 1000 + 2 * 4 + 16
    assert len(excerpt_of(select(block, 0, 1000, None), ("value",))) > 100 * 1000


@given(st.sampled_from(MIXED_BLOCKS), some_columns, st.data())
def test_damage_is_found(block: bytes, columns: set[Column], data: st.DataObject) -> None:
    excerpt = excerpt_of(block, columns - {"value"})
    place = data.draw(st.integers(0, len(excerpt) - 1))
    flipped = excerpt[:place] + bytes([excerpt[place] ^ data.draw(st.integers(1, 255))]) + excerpt[place + 1 :]
    for damaged in (flipped, excerpt[: data.draw(st.integers(4, len(excerpt) - 1))]):
        with pytest.raises(JournalCorruptError):
            Block.parse(whole_of(damaged))
