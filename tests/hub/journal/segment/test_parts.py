"""The directory of a block in parts: what was written is read, and nothing else is believed."""

from __future__ import annotations

from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import JournalCorruptError
from hub.journal.layout import OFFSET_LIMIT, RECORDS_LIMIT
from hub.journal.segment.parts import Part, directory_bytes, encode_parts, parse_directory

stored = st.tuples(
    st.integers(0, 3), st.integers(0, RECORDS_LIMIT), st.binary(max_size=20), st.binary(min_size=1, max_size=50)
)


@given(st.integers(0, OFFSET_LIMIT - 1), st.integers(0, 2**32 - 1), st.lists(stored, min_size=2, max_size=20))
def test_reads_what_was_written(first: int, checksum: int, parts: list[tuple[int, int, bytes, bytes]]) -> None:
    """Each part stands where the directory says, behind the one before it."""
    payload = encode_parts(first, checksum, parts)
    directory = parse_directory(payload[: directory_bytes(payload)], len(payload))
    assert (directory.first, directory.checksum) == (first, checksum)
    found = [directory.order, *directory.parts]
    assert [part[2:] for part in found] == [
        (raw_bytes, crc32(data), codec, listing) for codec, raw_bytes, listing, data in parts
    ]
    assert [payload[part.place : part.place + part.stored_bytes] for part in found] == [data for *_, data in parts]
    assert found[-1].place + found[-1].stored_bytes == len(payload)


PAYLOAD = encode_parts(7, 9, [(0, 3, b"", b"\0\1\0"), (0, 4, b"/a", b"aaaa"), (1, 5, b"/b", b"bbb")])


@pytest.mark.parametrize("size", range(len(PAYLOAD)))
def test_what_is_cut_off(size: int) -> None:
    """A directory is whole, and so is what stands behind it."""
    with pytest.raises(JournalCorruptError, match="directory"):
        parse_directory(PAYLOAD[:size], size)


def test_damage() -> None:
    """A directory that says anything else than was written is not believed."""
    size = directory_bytes(PAYLOAD)
    for place in range(size):
        damaged = bytearray(PAYLOAD)
        damaged[place] ^= 0x10
        with pytest.raises(JournalCorruptError, match="directory"):
            parse_directory(bytes(damaged), len(PAYLOAD))


def _sealed(payload: bytes) -> bytes:
    return crc32(payload[4 : directory_bytes(payload)]).to_bytes(4, "little") + payload[4:]


@pytest.mark.parametrize(
    ("place", "value"),
    [(8, 0), (8, 3), (8, 2**31), (16, 2**62), (24, 4), (28, RECORDS_LIMIT + 1), (40, 1), (60, 0), (64, 2**32 - 1)],
)
def test_what_cannot_be(place: int, value: int) -> None:
    """Other parts than there are, offsets and lengths over the limits: though its checksum is right."""
    size = 8 if place == 16 else 4
    payload = PAYLOAD[:place] + value.to_bytes(size, "little") + PAYLOAD[place + size :]
    with pytest.raises(JournalCorruptError, match="does not fit what stands behind it"):
        parse_directory(_sealed(payload), len(payload))


def test_a_part_is_its_fields() -> None:
    """A part that holds little says all of it."""
    directory = parse_directory(PAYLOAD, len(PAYLOAD))
    assert directory.parts[0] == Part(directory.order.place + 3, 4, 4, crc32(b"aaaa"), 0, b"/a")
