"""The footer of a sealed segment."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import JournalCorruptError
from hub.journal.segment.entry import Kind, payload_of, read_head
from hub.journal.segment.footer import (
    TRAILER_BYTES,
    Footer,
    Row,
    encode_footer,
    footer_place,
    parse_footer,
    row_of,
)
from hub.journal.segment.mark import Mark, Write
from tests.hub.journal.segment.segments import block_entry

ROWS = [Row(64, 200, 150, 0, 10, 5, 9, b"/a"), Row(264, 100, 80, 10, 11, 7, 7, b"/a\n/b")]
FOOTER = Footer(ROWS, [("/a", 10), ("/b", 1)], are_topics_whole=True, writes=[Write("q", 3, 0, 11)])
PLACE = 1_000


def test_round_trip() -> None:
    """Found by the trailer, and its head has the ranges of all."""
    data = bytes(PLACE) + encode_footer(FOOTER, PLACE, 11)
    place = footer_place(data[-TRAILER_BYTES:])
    assert place == PLACE
    head = read_head(data, place)
    assert (head.kind, head.first, head.next, head.earliest_us, head.latest_us) == (Kind.FOOTER, 11, 11, 5, 9)
    assert parse_footer(payload_of(head, data[place + head.payload_from :]), place) == FOOTER


def test_a_segment_without_records() -> None:
    """It has a footer, too."""
    empty = Footer([], [], are_topics_whole=True, writes=[])
    data = encode_footer(empty, 64, 5)
    head = read_head(data)
    assert parse_footer(payload_of(head, data[head.payload_from :]), 64) == empty


def test_no_trailer() -> None:
    """A segment that goes on, or is damaged there."""
    data = encode_footer(FOOTER, PLACE, 11)
    assert footer_place(b"") is None
    assert footer_place(data[-TRAILER_BYTES - 1 : -1]) is None
    for place in range(16):
        damaged = bytearray(data[-TRAILER_BYTES:])
        damaged[place] ^= 1
        assert footer_place(bytes(damaged)) is None


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
    """Refused, though the checksum is right."""
    data = encode_footer(FOOTER._replace(rows=rows), PLACE, 11)
    head = read_head(data)
    with pytest.raises(JournalCorruptError, match="do not follow one another"):
        parse_footer(payload_of(head, data[head.payload_from :]), PLACE)


@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    """One kind of error."""
    with pytest.raises(JournalCorruptError):
        parse_footer(data, PLACE)


def test_row_of_an_entry() -> None:
    """The head of a block says what its row does."""
    entry = block_entry(7, 4)
    row = row_of(64, read_head(entry))
    assert (row.place, row.stored_bytes, row.first, row.next) == (64, len(entry), 7, 11)
    assert row.topics == b"/t/0\n/t/1\n/t/2"


@given(st.binary(max_size=100))
def test_a_mark_of_any_bytes(data: bytes) -> None:
    """It is one, or there is one kind of error."""
    try:
        mark = Mark.parse(data)
    except JournalCorruptError:
        return
    assert Mark.parse(mark.encode()) == mark
