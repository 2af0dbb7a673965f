"""The header of a segment."""

from __future__ import annotations

from zlib import crc32

import pytest

from hub.errors import JournalCorruptError, JournalUnavailableError
from hub.journal.segment.header import HEADER_BYTES, Header

HEADER = Header(bytes(range(16)), 12_345, 1_700_000_000_000_000)


def test_round_trip() -> None:
    """64 bytes, as they are drawn."""
    data = HEADER.encode()
    assert len(data) == HEADER_BYTES == 64
    assert data[:4] == b"HJS1"
    assert data[16:32] == HEADER.id
    assert Header.parse(data + b"more") == HEADER


def test_each_byte_matters() -> None:
    """A bit that has turned is found."""
    for place in range(HEADER_BYTES):
        damaged = bytearray(HEADER.encode())
        damaged[place] ^= 0x10
        with pytest.raises(JournalCorruptError):
            Header.parse(bytes(damaged))


def test_cut_off() -> None:
    """An empty file, and less than a header."""
    for size in range(HEADER_BYTES):
        with pytest.raises(JournalCorruptError, match="does not begin as a segment"):
            Header.parse(HEADER.encode()[:size])


def test_another_version() -> None:
    """It is named, so that nobody takes it for damage."""
    data = bytearray(HEADER.encode())
    data[8] = 2
    data[4:8] = crc32(data[8:]).to_bytes(4, "little")
    with pytest.raises(JournalUnavailableError, match="a segment of format 2, this version reads format 1"):
        Header.parse(bytes(data))
