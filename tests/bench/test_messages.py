"""Messages of a benchmark: layouts, numbers and ready frames."""

from __future__ import annotations

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.batch import decode_values
from hub.frame import iterate_frames
from peers.bench.messages import BLOCK_BYTES, STAMP, Grid, Layout, Template, is_sequence, write_sequence

PUBLISHER = 7

starts = st.one_of(
    st.integers(0, (1 << 32) - 70_000),
    # Where bytes carry.
    st.builds(lambda power, before: max(0, (1 << power) - before), st.sampled_from([8, 16, 24]), st.integers(0, 300)),
)


@st.composite
def grids(draw: st.DrawFn) -> tuple[Grid, int]:
    """A grid with one byte for the publisher before each number, and the size of a buffer that holds it."""
    values = draw(st.integers(1, 12))
    value_stride = draw(st.integers(6, 20))
    frame_stride = values * value_stride + draw(st.integers(0, 9))
    frames = draw(st.integers(1, 40))
    first = draw(st.integers(1, 9))
    return Grid(first, frames, frame_stride, values, value_stride), first + frames * frame_stride + 8


def places(grid: Grid) -> list[int]:
    return [
        grid.first + frame * grid.frame_stride + value * grid.value_stride
        for frame in range(grid.frames)
        for value in range(grid.values)
    ]


def naive(grid: Grid, size: int, start: int) -> bytearray:
    buffer = bytearray(size)
    for number, place in enumerate(places(grid)):
        buffer[place - 1] = PUBLISHER
        buffer[place : place + 4] = (start + number).to_bytes(4, "big")
    return buffer


@given(grids(), starts)
def test_writing_is_writing_one_by_one(grid_and_size: tuple[Grid, int], start: int) -> None:
    grid, size = grid_and_size
    buffer = bytearray(size)
    for place in places(grid):
        buffer[place - 1] = PUBLISHER
    write_sequence(buffer, grid, start)
    assert buffer == naive(grid, size, start)


@given(grids(), starts)
def test_a_sequence_is_recognised(grid_and_size: tuple[Grid, int], start: int) -> None:
    grid, size = grid_and_size
    buffer = naive(grid, size, start)
    assert is_sequence(buffer, grid, start, PUBLISHER)
    assert not is_sequence(buffer, grid, start + 1, PUBLISHER)
    assert not is_sequence(buffer, grid, start, PUBLISHER + 1)


@given(grids(), starts, st.data())
def test_any_wrong_byte_is_noticed(grid_and_size: tuple[Grid, int], start: int, data: st.DataObject) -> None:
    grid, size = grid_and_size
    buffer = naive(grid, size, start)
    place = data.draw(st.sampled_from(places(grid))) + data.draw(st.integers(-1, 3))
    buffer[place] ^= data.draw(st.integers(1, 255))
    assert not is_sequence(buffer, grid, start, PUBLISHER)


PREFIX = "/bench/0000/"


def sent(template: Template, frames: int, first: int = 0) -> bytes:
    data = b""
    layout_frame = template.block_frames
    position = first
    while position < first + frames:
        piece = bytes(template.block(position, min(layout_frame, first + frames - position)))
        position += sum(1 for _ in iterate_frames(piece))
        data += piece
    return data


@pytest.mark.parametrize("size", [16, 100, 255, 256, 65_535, 65_536])
def test_a_value_is_a_msgpack_bin_of_its_size(size: int) -> None:
    layout = Layout(PREFIX, 1, size, 1)
    frame = next(iter(iterate_frames(layout.frame(0, 3))))
    (value,) = decode_values(frame)
    assert len(value) == size
    assert STAMP.unpack_from(value) == (3, 0, 0)
    assert len(msgpack.packb(value)) == layout.value_bytes
    assert len(layout.frame(0, 3)) == layout.frame_bytes


@pytest.mark.parametrize(
    ("topics", "batch", "size"), [(1, 1, 100), (16, 1, 100), (3000, 1, 64), (1, 16, 100), (7, 5, 33), (2, 1, 70_000)]
)
def test_messages_are_numbered_through_and_go_to_topics_in_turn(topics: int, batch: int, size: int) -> None:
    layout = Layout(PREFIX, topics, size, batch)
    template = Template(layout, publisher=5)
    count = 2 * topics + template.block_frames + 3
    number = 0
    for index, frame in enumerate(iterate_frames(sent(template, count))):
        assert frame.key.decode() == layout.topic(index % topics) == layout.topic(layout.topic_of(number))
        for value in decode_values(frame):
            assert STAMP.unpack_from(value) == (5, number, 0)
            number += 1
    assert number == count * batch


def test_numbering_goes_on_from_any_frame() -> None:
    layout = Layout(PREFIX, 3, 20, 2)
    template = Template(layout, publisher=0)
    first = 65_536 // 2 - 5
    values = [value for frame in iterate_frames(sent(template, 10, first)) for value in decode_values(frame)]
    assert [STAMP.unpack_from(value)[1] for value in values] == list(range(65_526, 65_546))


@pytest.mark.parametrize("batch", [1, 4])
def test_intended_times_are_in_every_value(batch: int) -> None:
    layout = Layout(PREFIX, 1, 32, batch)
    template = Template(layout, publisher=1)
    piece = bytes(template.block(0, 3, time_ns=123_456_789_000))
    stamps = [STAMP.unpack_from(value) for frame in iterate_frames(piece) for value in decode_values(frame)]
    assert stamps == [(1, number, 123_456_789_000) for number in range(3 * batch)]


def test_a_block_has_about_64_kib() -> None:
    layout = Layout(PREFIX, 10_000, 100, 1)
    template = Template(layout, publisher=0)
    size = len(template.block(0, 10_000))
    assert BLOCK_BYTES - layout.frame_bytes < size <= BLOCK_BYTES
