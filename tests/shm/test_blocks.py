"""The ring, block by block, and who reads it: allotted in a circle, never torn, gone when it is taken back."""

from __future__ import annotations

import mmap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import BlockGoneError, BusyError, UsageError
from peers.shm.ring import Block, Ring
from peers.shm.views import KnownSegment, View
from peers.wire.shared import Handle

KIB = 1024


def ring_of(size_bytes: int = 64 * KIB, lease_s: float = 1.0) -> Ring:
    return Ring(size_bytes, lease_s)


def send(ring: Ring, block: Block, now_s: float = 0.0) -> Handle:
    handle = block.send(ring, now_s)
    assert handle is not None
    return handle


def reader_of(ring: Ring) -> tuple[KnownSegment, list[int]]:
    released: list[int] = []
    known = KnownSegment(1, ring.size_bytes, ring.descriptor, lambda segment: released.append(segment.released))
    return known, released


def test_nobody_else_can_write() -> None:
    ring = ring_of()
    with pytest.raises(PermissionError):
        mmap.mmap(ring.descriptor.number, 4096)
    block = ring.allocate(100, 0.0)
    block.memory[:] = b"x" * 100
    known, _ = reader_of(ring)
    with View(known.block(send(ring, block))) as view:
        assert view == b"x" * 100
        with pytest.raises(TypeError):
            view[0] = 1


def test_blocks_are_taken_back_in_order() -> None:
    ring = ring_of()
    blocks = [ring.allocate(15 * KIB, 0.0) for _ in range(4)]
    first, second, third, _ = (send(ring, block) for block in blocks)
    with pytest.raises(BusyError, match="4 blocks"):
        ring.allocate(15 * KIB, 0.5)
    known, _ = reader_of(ring)
    held = known.block(first)
    ring.released(0)
    with pytest.raises(BusyError):
        ring.allocate(15 * KIB, 0.5)
    ring.released(second.generation)
    ring.allocate(15 * KIB, 0.5)
    with pytest.raises(BlockGoneError):
        held.memory()
    assert third.generation == 3


def test_what_is_held_for_too_long_is_taken_back() -> None:
    ring = ring_of(lease_s=1.0)
    blocks = [ring.allocate(15 * KIB, 0.0) for _ in range(4)]
    handles = [send(ring, block) for block in blocks]
    known, released = reader_of(ring)
    view = View(known.block(handles[0]))
    with pytest.raises(BlockGoneError), view as found:  # noqa: PT012 -- at its end
        assert len(found) == 15 * KIB
        assert ring.due_s() == 1.0
        again = ring.allocate(15 * KIB, 1.0)
        again.memory[:] = b"y" * 15 * KIB
    assert released == []
    assert "View of 0 bytes" in repr(view)
    del view
    assert released == [1]


def test_a_block_that_is_let_go_without_being_sent_is_free() -> None:
    ring = ring_of()
    blocks = [ring.allocate(15 * KIB, 0.0) for _ in range(4)]
    with pytest.raises(BusyError):
        ring.allocate(15 * KIB, 99.0)
    del blocks[0]
    block = ring.allocate(15 * KIB, 99.0)
    assert len(block) == 15 * KIB
    assert block.send(ring_of(), 0.0) is None
    assert ring.due_s() == float("inf")


@pytest.mark.parametrize("size", [-1, 64 * KIB, 1 << 40])
def test_blocks_that_never_fit(size: int) -> None:
    with pytest.raises(UsageError):
        ring_of().allocate(size, 0.0)


def test_a_reader_releases_up_to_the_oldest_that_it_has() -> None:
    ring = ring_of()
    handles = [send(ring, ring.allocate(100, 0.0)) for _ in range(4)]
    known, released = reader_of(ring)
    blocks = [known.block(handle) for handle in handles]
    with pytest.raises(ValueError, match="is not a block"):
        known.block(handles[1])
    with pytest.raises(ValueError, match="is not a block"):
        known.block(Handle(64 * KIB, 1, 0, 9))
    for place in (1, 0, 3, 2):
        blocks[place] = None  # type: ignore[call-overload]
    assert released == [2, 4]
    known.close()


@given(st.lists(st.tuples(st.integers(1, 20_000), st.booleans()), max_size=60))
def test_blocks_never_overlap(wanted: list[tuple[int, bool]]) -> None:
    """Whatever their sizes and whoever releases them: what is in one stays there until it is taken back."""
    ring = ring_of(lease_s=1e9)
    known, _ = reader_of(ring)
    waiting: list[tuple[Handle, int]] = []
    for number, (size, release) in enumerate(wanted):
        fill = number % 256
        try:
            block = ring.allocate(size, 0.0)
        except BusyError:
            assert waiting
        else:
            block.memory[:] = bytes([fill]) * size
            waiting.append((send(ring, block), fill))
        for handle, filled in waiting:
            read = known.block(handle)
            assert set(read.memory()[5:]) == {filled}
            read.check()
            del read
        if release and waiting:
            handle, _ = waiting.pop(0)
            ring.released(handle.generation)


def test_what_is_torn_is_not_given() -> None:
    ring = ring_of(lease_s=0.0)
    handle = send(ring, ring.allocate(60 * KIB, 0.0))
    known, _ = reader_of(ring)
    view = View(known.block(handle))
    assert view.copy() == bytes(60 * KIB)
    ring.allocate(60 * KIB, 1.0)
    with pytest.raises(BlockGoneError):
        view.copy()
