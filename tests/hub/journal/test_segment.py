"""Segments as bytes: what is written is read again, all else is refused, and what has happened is found."""

from __future__ import annotations

from zlib import crc32

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import JournalCorruptError, JournalUnavailableError
from hub.journal.block import Block
from hub.journal.segment import (
    EPOCHS_LIMIT,
    HEAD,
    HEADER_BYTES,
    TRAILER_BYTES,
    Epoch,
    Footer,
    Head,
    Header,
    Kind,
    Recovered,
    Row,
    Write,
    begun,
    encode_entry,
    encode_footer,
    end_of,
    entry_parts,
    footer_place,
    parse_footer,
    payload_of,
    read_head,
    recover,
    row_of,
)
from tests.hub.journal.twins import START, block_entry, mark_entry, segment

BLOCK = Head(Kind.BLOCK, 1, 7, 0, 500, 0, 10, 17, 1, 2, b"/a\n/b")


def test_layout() -> None:
    assert HEAD.size == 64
    entry = encode_entry(BLOCK, b"payload")
    assert len(entry) == 64 + 8 + 8
    assert entry[:4] == b"HJE1"
    assert entry[8:16] == bytes([1, 1, 0, 0, 7, 0, 0, 0])
    assert entry[16:20] == (7).to_bytes(4, "little")
    assert entry[20:24] == (500).to_bytes(4, "little")
    assert entry[64:69] == b"/a\n/b"
    assert entry[72:79] == b"payload"


@given(listing=st.binary(max_size=100), payload=st.binary(max_size=100), before=st.binary(max_size=20))
def test_round_trip_of_an_entry(listing: bytes, payload: bytes, before: bytes) -> None:
    expected = BLOCK._replace(listing=listing)
    entry = encode_entry(expected, payload)
    data = before + entry + b"more"
    head = read_head(data, len(before))
    assert head._replace(stored_bytes=0, crc=0) == expected
    assert head.size_bytes == len(entry)
    assert len(entry) % 8 == 0
    assert payload_of(head, data[len(before) + head.payload_from :]) == payload
    parts = entry_parts(expected, payload, crc32(payload))
    assert b"".join(parts) == entry
    assert any(part is payload for part in parts)


def test_each_byte_of_the_head_matters() -> None:
    entry = encode_entry(BLOCK, b"payload")
    for place in range(64 + len(BLOCK.listing)):
        for damaged in (entry[:place] + bytes([entry[place] ^ 1]) + entry[place + 1 :], entry[:place]):
            with pytest.raises(JournalCorruptError):
                read_head(damaged)
    head = read_head(entry[:-8])
    with pytest.raises(JournalCorruptError, match="it is cut off"):
        payload_of(head, entry[head.payload_from : -8])


@pytest.mark.parametrize(
    "head",
    [
        BLOCK._replace(first=17),
        BLOCK._replace(first=-1),
        BLOCK._replace(records=0),
        BLOCK._replace(records=65_537),
        BLOCK._replace(next=2**62),
        BLOCK._replace(kind=Kind.MARK),
        BLOCK._replace(kind=4),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be(head: Head) -> None:
    with pytest.raises(JournalCorruptError, match="cannot be"):
        read_head(encode_entry(head, b""))


# The header of a segment.


HEADER = Header(bytes(range(16)), 12_345, 1_700_000_000_000_000)


def test_a_header() -> None:
    data = HEADER.encode()
    assert len(data) == HEADER_BYTES == 64
    assert (data[:4], data[16:32]) == (b"HJS1", HEADER.id)
    assert Header.parse(data + b"more") == HEADER
    for place in range(HEADER_BYTES):
        with pytest.raises(JournalCorruptError):
            Header.parse(data[:place] + bytes([data[place] ^ 0x10]) + data[place + 1 :])
    later = data[:8] + b"\2" + data[9:]
    with pytest.raises(JournalUnavailableError, match="a segment of format 2, this version reads format 1"):
        Header.parse(later[:4] + crc32(later[8:]).to_bytes(4, "little") + later[8:])


# The footer of a sealed segment.


ROWS = [Row(64, 200, 150, 0, 10, 5, 9, b"/a"), Row(264, 100, 80, 10, 11, 7, 7, b"/a\n/b")]
FOOTER = Footer(ROWS, [Write("q", 3, 0, 11)])
PLACE = 1_000


def test_a_footer() -> None:
    footer = encode_footer(FOOTER, PLACE, 11)
    data, trailer = bytes(PLACE) + footer, footer[-TRAILER_BYTES:]
    assert footer_place(trailer) == PLACE
    head = read_head(data, PLACE)
    assert (head.kind, head.first, head.next, head.earliest_us, head.latest_us) == (Kind.FOOTER, 11, 11, 5, 9)
    assert parse_footer(payload_of(head, data[PLACE + head.payload_from :]), PLACE) == FOOTER
    damaged = [trailer[:place] + bytes([trailer[place] ^ 1]) + trailer[place + 1 :] for place in range(16)]
    assert {footer_place(bad) for bad in (b"", footer[-TRAILER_BYTES - 1 : -1], *damaged)} == {None}


@pytest.mark.parametrize(
    "rows",
    [
        ROWS[::-1],
        [ROWS[0], ROWS[0]],
        [ROWS[0]._replace(place=0)],
        [ROWS[0]._replace(stored_bytes=2_000)],
        [ROWS[0]._replace(next=-1)],
        [ROWS[0], ROWS[1]._replace(first=9)],
    ],
)
def test_rows_that_cannot_be(rows: list[Row]) -> None:
    data = encode_footer(FOOTER._replace(rows=rows), PLACE, 11)
    head = read_head(data)
    with pytest.raises(JournalCorruptError, match="do not follow one another"):
        parse_footer(payload_of(head, data[head.payload_from :]), PLACE)


@pytest.mark.parametrize("times", [{"latest_us": 2**63}, {"earliest_us": 2**62}])
def test_times_that_cannot_be(times: dict[str, int]) -> None:
    rows = [ROWS[0]._replace(**times)]
    with pytest.raises(JournalCorruptError, match="that cannot be"):
        parse_footer(msgspec.msgpack.encode(FOOTER._replace(rows=rows)), PLACE)


def test_row_of_an_entry() -> None:
    entry = block_entry(7, 4)
    row = row_of(64, read_head(entry))
    assert (row.place, row.stored_bytes, row.first, row.next) == (64, len(entry), 7, 11)
    assert row.topics == b"/t/0\n/t/1\n/t/2"


# What of a segment has happened: cut off anywhere, damaged anywhere, with pages missing at its end.


COMMITS = st.lists(st.lists(st.integers(1, 20), max_size=3), max_size=4)


def readable(data: bytes, found: Recovered) -> list[int]:
    offsets: list[int] = []
    for place, head in found.blocks:
        try:
            payload = payload_of(read_head(data, place), data[place + head.payload_from :])
            block = Block.parse(payload)
        except JournalCorruptError:
            continue
        offsets += range(block.first, block.next)
    return offsets


@given(COMMITS, st.data())
def test_cut_off_of_a_segment(commits: list[list[int]], data: st.DataObject) -> None:
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


@pytest.mark.parametrize("tail", [b"", b"\0" * 100, b"HJE1", b"HJE1" * 50, b"\xff" * 64])
def test_anything_behind(tail: bytes) -> None:
    whole, _ = segment([3], [4])
    found = recover(whole + tail, 0)
    assert (found.size_bytes, found.next) == (len(whole), 7)
    assert found.writes == [*START, Write("q", 0, 0, 3), Write("q", 1, 0, 7)]


def test_a_mark_that_is_lost() -> None:
    """Nobody takes what is left for all that writers have committed; one that has nothing to say may be lost."""
    whole, ends = segment([2], [2], [2], synced=[0, 0, 10_000])
    quiet = whole[: ends[0]] + mark_entry(0, 0, (), 1) + mark_entry(0, 10_000, (), 1)
    assert not recover(quiet, 0).lacks_writes
    for data, place, lacks in ((whole, ends[0] - 20, True), (whole, ends[1] - 20, True), (quiet, ends[0] + 66, False)):
        hurt = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        assert recover(hurt, 0).lacks_writes is lacks


# Which positions hold, after any lives of a journal that end with a loss of what came last.


# Of each: how far the clock goes, how many records it adds, how many of the last records it loses at its end
lives = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 20), st.integers(0, 8)), min_size=1, max_size=12)


@given(lives)
def test_a_position_holds_as_far_as_what_was_read_is_there(lives: list[tuple[int, int, int]]) -> None:
    """Each life has its records; a position that was told anywhere is cut back to the records that are the same."""
    epochs: tuple[Epoch, ...] = ()
    kept: list[int] = []  # of each record, in which life it was added
    told: list[tuple[int, list[int]]] = []  # epoch, and what was there
    now_s = 100
    for life, (later_s, added, lost) in enumerate(lives):
        now_s += later_s
        before = epochs
        epochs = begun(before, len(kept), now_s)
        assert epochs[-1].number > max([one.number for one in before], default=0)
        for number, seen in told:
            end = end_of(epochs, number)
            assert end is not None
            held = min(end, len(seen))
            assert seen[:held] == kept[:held]
        for _ in range(added):
            kept.append(life)
            told.append((epochs[-1].number, kept.copy()))
        del kept[max(epochs[-1].first, len(kept) - lost) :]
    assert end_of(epochs, epochs[-1].number) is None


def test_epochs() -> None:
    epochs = begun(begun((), 0, 100), 50, 200)
    assert epochs == ((100, 0), (200, 50))
    assert (end_of(epochs, 100), end_of(epochs, 0)) == (50, 0)
    assert begun((Epoch(200, 0),), 5, 100) == ((200, 0), (201, 5)), "a clock that was set back"
    empty, many = begun((), 0, 1), begun((), 0, 1)
    for number in range(1, EPOCHS_LIMIT + 10):
        empty, many = begun(empty, 7, number + 1), begun(many, number, number + 1)
    assert empty == ((1, 0), (EPOCHS_LIMIT + 10, 7)), "lives without records leave nothing"
    assert len(many) == EPOCHS_LIMIT
    assert many[-1] == (EPOCHS_LIMIT + 10, EPOCHS_LIMIT + 9)
    assert end_of(many, 1) == many[0].first
