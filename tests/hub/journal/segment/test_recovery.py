"""What of a segment has happened: cut off anywhere, damaged anywhere, with pages missing at its end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import JournalCorruptError
from hub.journal.block import Block
from hub.journal.segment.entry import payload_of, read_head
from hub.journal.segment.header import HEADER_BYTES
from hub.journal.segment.mark import Write
from hub.journal.segment.recovery import Recovered, recover
from tests.hub.journal.segment.segments import START, block_entry, mark_entry, segment

COMMITS = st.lists(st.lists(st.integers(1, 20), max_size=3), max_size=4)


def readable(data: bytes, found: Recovered) -> list[int]:
    """Offsets of the records that can be read."""
    offsets: list[int] = []
    for place, head in found.blocks:
        try:
            payload = payload_of(read_head(data, place), data[place + head.payload_from :])
            block = Block.parse(payload)
        except JournalCorruptError:
            continue
        offsets += range(block.first, block.next)
    return offsets


@given(COMMITS)
def test_whole(commits: list[list[int]]) -> None:
    """All of it has happened."""
    data, ends = segment(*commits, first=100)
    found = recover(data, 100)
    records = sum(map(sum, commits))
    assert (found.size_bytes, found.next) == (len(data), 100 + records)
    assert readable(data, found) == list(range(100, 100 + records))
    assert [write.batch for write in found.writes[1:]] == list(range(len(commits)))
    assert not found.lacks_writes
    assert ends[-1] == len(data)


@given(COMMITS, st.data())
def test_cut_off(commits: list[list[int]], data: st.DataObject) -> None:
    """All commits that are there as a whole have happened, and nothing else."""
    whole, ends = segment(*commits)
    size = data.draw(st.integers(HEADER_BYTES, len(whole)))
    found = recover(whole[:size], 0)
    if size < ends[0]:
        assert found == Recovered(HEADER_BYTES, [], 0, [], lacks_writes=True, marks=[])
        return
    kept = max(end for end in ends if end <= size)
    assert found.size_bytes == kept
    assert not found.lacks_writes
    assert found.next == sum(map(sum, commits[: ends.index(kept)]))
    assert len(found.writes) == 1 + ends.index(kept)


@given(COMMITS.filter(lambda commits: any(map(sum, commits))), st.data())
def test_pages_that_were_never_written(commits: list[list[int]], data: st.DataObject) -> None:
    """After a loss of power zeros may stand before what was written later: everything from there on did not happen."""
    whole, ends = segment(*commits)
    place = data.draw(st.integers(ends[0], len(whole) - 1))
    size = data.draw(st.integers(1, 200))
    hurt = whole[:place] + bytes(min(size, len(whole) - place)) + whole[place + size :]
    found = recover(hurt, 0)
    if hurt == whole:
        assert found.size_bytes == len(whole)
        return
    first_lost = next(number for number, end in enumerate(ends) if hurt[:end] != whole[:end])
    assert found.size_bytes == ends[first_lost - 1]
    assert found.next == sum(map(sum, commits[: first_lost - 1]))


@given(
    st.lists(st.lists(st.integers(1, 20), min_size=1, max_size=3), min_size=2, max_size=4),
    st.data(),
)
def test_damage_of_what_was_on_the_disk(commits: list[list[int]], data: st.DataObject) -> None:
    """What a later mark says was on the disk is damage: what stands around it stays, at its offsets."""
    _, ends = segment(*commits)
    whole, ends = segment(*commits, synced=[0, *ends[1:]])
    known = ends[-2]
    place = data.draw(st.integers(HEADER_BYTES, known - 1))
    hurt = bytearray(whole)
    hurt[place] ^= 0xFF
    found = recover(bytes(hurt), 0, START)
    records = sum(map(sum, commits))
    assert found.next == records
    assert found.size_bytes == len(whole)
    offsets = readable(bytes(hurt), found)
    assert offsets == sorted(set(offsets))
    lost = set(range(records)) - set(offsets)
    assert len(lost) <= max(count for commit in commits for count in commit)
    known = [START[0], *(Write("q", number, 0, sum(map(sum, commits[: number + 1]))) for number in range(len(commits)))]
    assert found.lacks_writes or found.writes == known
    assert found.lacks_writes or recover(bytes(hurt), 0).lacks_writes == (place < ends[0])


def test_a_block_that_looks_like_an_entry() -> None:
    """What a value holds is not taken for an entry behind damage."""
    inner = block_entry(5, 3)
    whole, _ = segment([2], [2], synced=[0, 10_000])
    hurt = whole[:HEADER_BYTES] + b"?" * 8 + whole[HEADER_BYTES + 8 :]
    assert recover(hurt, 0).next == 4
    assert recover(whole + inner, 0).next == 4, "nothing without a mark has happened"


@pytest.mark.parametrize("tail", [b"", b"\0" * 100, b"HJE1", b"HJE1" * 50, b"\xff" * 64])
def test_anything_behind(tail: bytes) -> None:
    """It is cut off."""
    whole, _ = segment([3], [4])
    found = recover(whole + tail, 0)
    assert (found.size_bytes, found.next) == (len(whole), 7)
    assert found.writes == [*START, Write("q", 0, 0, 3), Write("q", 1, 0, 7)]


@given(st.binary(max_size=300))
def test_any_bytes(data: bytes) -> None:
    """Nothing has happened, and nothing is raised."""
    assert recover(bytes(HEADER_BYTES) + data, 7) == Recovered(HEADER_BYTES, [], 7, [], lacks_writes=True, marks=[])


def test_a_mark_that_is_lost() -> None:
    """Nobody takes what is left for all that writers have committed; one that has nothing to say may be lost."""
    whole, ends = segment([2], [2], [2], synced=[0, 0, 10_000])
    for end in ends[:2]:
        hurt = bytearray(whole)
        hurt[end - 20] ^= 1
        assert recover(bytes(hurt), 0).lacks_writes
    found = recover(whole[: ends[0]] + mark_entry(0, 0, (), 1) + mark_entry(0, 10_000, (), 1), 0)
    assert not found.lacks_writes
    quiet = bytearray(whole[: ends[0]] + mark_entry(0, 0, (), 1) + mark_entry(0, 10_000, (), 1))
    quiet[ends[0] + 66] ^= 1
    assert not recover(bytes(quiet), 0).lacks_writes
