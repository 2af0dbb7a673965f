"""Sequence numbers in columns are the same as written and read one by one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from peers.bench.sequence import Grid, is_sequence, write_sequence

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
    """Offsets of all numbers, in their order."""
    return [
        grid.first + frame * grid.frame_stride + value * grid.value_stride
        for frame in range(grid.frames)
        for value in range(grid.values)
    ]


def naive(grid: Grid, size: int, start: int) -> bytearray:
    """A buffer with numbers written one by one."""
    buffer = bytearray(size)
    for number, place in enumerate(places(grid)):
        buffer[place - 1] = PUBLISHER
        buffer[place : place + 4] = (start + number).to_bytes(4, "big")
    return buffer


@given(grids(), starts)
def test_writing_is_writing_one_by_one(grid_and_size: tuple[Grid, int], start: int) -> None:
    """All four bytes of every number are right, also where they carry, and nothing else is touched."""
    grid, size = grid_and_size
    buffer = bytearray(size)
    for place in places(grid):
        buffer[place - 1] = PUBLISHER
    write_sequence(buffer, grid, start)
    assert buffer == naive(grid, size, start)


@given(grids(), starts)
def test_a_sequence_is_recognised(grid_and_size: tuple[Grid, int], start: int) -> None:
    """Numbers that count up are a sequence; from another start, or of another publisher, they are none."""
    grid, size = grid_and_size
    buffer = naive(grid, size, start)
    assert is_sequence(buffer, grid, start, PUBLISHER)
    assert not is_sequence(buffer, grid, start + 1, PUBLISHER)
    assert not is_sequence(buffer, grid, start, PUBLISHER + 1)


@given(grids(), starts, st.data())
def test_any_wrong_byte_is_noticed(grid_and_size: tuple[Grid, int], start: int, data: st.DataObject) -> None:
    """One changed byte of one number or its publisher, and it is no sequence."""
    grid, size = grid_and_size
    buffer = naive(grid, size, start)
    place = data.draw(st.sampled_from(places(grid))) + data.draw(st.integers(-1, 3))
    buffer[place] ^= data.draw(st.integers(1, 255))
    assert not is_sequence(buffer, grid, start, PUBLISHER)
