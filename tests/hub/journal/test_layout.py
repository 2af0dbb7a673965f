"""Nothing that stands in a block leads out of it, pure and compiled: the same law for both."""

from __future__ import annotations

import struct
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.journal.layout import columns_of
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
    for function in (
        twin.read_layout,
        twin.to_frames,
        lambda block: twin.select(block, 8, 9, None),
        lambda block: twin.merge([PLAIN, block]),
    ):
        with pytest.raises(ValueError, match=r"\w"):
            function(damaged)


@both
def test_refuses_offsets_that_do_not_ascend(twin: SimpleNamespace) -> None:
    at = PURE.read_layout(SPARSE).offsets
    for place, offset in ((at, 6), (at + 8, 7), (at + 8, 11), (at + 24, 2**62), (at + 24, -1), (at, -1)):
        with pytest.raises(ValueError, match="offsets"):
            twin.read_layout(changed(SPARSE, place, "<q", offset))


@both
def test_refuses_an_encoding_that_no_frame_bears(twin: SimpleNamespace) -> None:
    place = PURE.read_layout(ENCODED).encodings
    assert twin.read_layout(changed(ENCODED, place, "<B", 3))
    with pytest.raises(ValueError, match="two bits"):
        twin.read_layout(changed(ENCODED, place, "<B", 4))


@both
def test_refuses_a_topic_that_no_frame_bears(twin: SimpleNamespace) -> None:
    """Two topics of 65,535 bytes are two; the same bytes are not one of 65,536 and another."""
    (block,) = PURE.pack([(0, single(b"a" * 65_535, b"\1") + single(b"b" * 65_535, b"\2"))], 0)
    assert twin.read_layout(block).topic_bytes == 131_070
    with pytest.raises(ValueError, match="longer than a frame can bear"):
        twin.read_layout(changed(block, PURE.read_layout(block).topic_ends + 4, "<i", 65_536))


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


@both
@given(data=st.binary(max_size=300))
def test_no_bytes_do_harm(twin: SimpleNamespace, data: bytes) -> None:
    for block in (data, PLAIN[:40] + data, ENCODED[:40] + data, SPARSE[:40] + data):
        assert outcome(twin.read_layout, block) == outcome(PURE.read_layout, block)
        assert outcome(twin.to_frames, block) == outcome(PURE.to_frames, block)


@both
@given(data=st.binary(max_size=60))
def test_no_frames_do_harm(twin: SimpleNamespace, data: bytes) -> None:
    for frames in (data, FRAMES + data, FRAMES[:13] + data, b"\0\0\0\x20\2\1\0\2/a\0\0\0\4" + data):
        assert outcome(twin.pack, [(0, frames)], 0) == outcome(PURE.pack, [(0, frames)], 0)
