"""Entries of a segment: what is written is read again, and whatever else stands there is refused."""

from __future__ import annotations

from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import JournalCorruptError
from hub.journal.segment.entry import HEAD, Head, Kind, encode, parts_of, payload_of, read_head

BLOCK = Head(Kind.BLOCK, 1, 7, 0, 500, 0, 10, 17, 1, 2, b"/a\n/b")


def test_layout() -> None:
    """As it is drawn."""
    assert HEAD.size == 64
    entry = encode(BLOCK, b"payload")
    assert len(entry) == 64 + 8 + 8
    assert entry[:4] == b"HJE1"
    assert entry[8:16] == bytes([1, 1, 0, 0, 7, 0, 0, 0])
    assert entry[16:20] == (7).to_bytes(4, "little")
    assert entry[20:24] == (500).to_bytes(4, "little")
    assert entry[64:69] == b"/a\n/b"
    assert entry[72:79] == b"payload"


@given(listing=st.binary(max_size=100), payload=st.binary(max_size=100), before=st.binary(max_size=20))
def test_round_trip(listing: bytes, payload: bytes, before: bytes) -> None:
    """Wherever it stands, and whatever follows."""
    entry = encode(BLOCK._replace(listing=listing), payload)
    data = before + entry + b"more"
    head = read_head(data, len(before))
    assert head._replace(stored_bytes=0, crc=0) == BLOCK._replace(listing=listing)
    assert head.size_bytes == len(entry)
    assert len(entry) % 8 == 0
    assert payload_of(head, data[len(before) + head.payload_from :]) == payload


@given(listing=st.binary(max_size=100), payload=st.binary(max_size=100))
def test_in_parts(listing: bytes, payload: bytes) -> None:
    """The same bytes, and the payload is not copied for it."""
    head = BLOCK._replace(listing=listing)
    parts = parts_of(head, payload, crc32(payload))
    assert b"".join(parts) == encode(head, payload)
    assert any(part is payload for part in parts)


def test_each_byte_of_the_head_matters() -> None:
    """A bit that has turned is found."""
    entry = encode(BLOCK, b"payload")
    for place in range(64 + len(BLOCK.listing)):
        damaged = bytearray(entry)
        damaged[place] ^= 1
        with pytest.raises(JournalCorruptError):
            read_head(damaged)


def test_each_byte_of_the_payload_matters() -> None:
    """The same, by whoever looks at it."""
    entry = encode(BLOCK, b"payload")
    head = read_head(entry)
    for place in range(head.payload_from, head.payload_from + 7):
        damaged = bytearray(entry)
        damaged[place] ^= 1
        assert read_head(damaged) == head
        with pytest.raises(JournalCorruptError, match="its checksum does not match"):
            payload_of(head, damaged[head.payload_from :])


def test_cut_off() -> None:
    """At any place."""
    entry = encode(BLOCK, b"payload")
    for size in range(64 + len(BLOCK.listing)):
        with pytest.raises(JournalCorruptError):
            read_head(entry[:size])
    head = read_head(entry[:-8])
    with pytest.raises(JournalCorruptError, match="it is cut off"):
        payload_of(head, entry[head.payload_from : -8])


@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    """What is none is refused, with one kind of error."""
    with pytest.raises(JournalCorruptError):
        read_head(b"HJE1" + data)


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
    """Also where its checksum is right."""
    with pytest.raises(JournalCorruptError, match="cannot be"):
        read_head(encode(head, b""))
