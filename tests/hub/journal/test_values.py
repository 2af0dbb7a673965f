"""Where a value of msgpack ends."""

from __future__ import annotations

import struct

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.journal.values import skip_value
from tests.hub.journal.twins import packed

EACH = [
    *(bytes([tag]) for tag in (0x00, 0x7F, 0xC0, 0xC2, 0xC3, 0xE0, 0xFF)),
    *(bytes([tag]) + bytes(size) for tag, size in ((0xCA, 4), (0xCB, 8), (0xCC, 1), (0xCD, 2), (0xCE, 4), (0xCF, 8))),
    *(bytes([tag]) + bytes(size) for tag, size in ((0xD0, 1), (0xD1, 2), (0xD2, 4), (0xD3, 8))),
    *(bytes([tag]) + bytes(size) for tag, size in ((0xD4, 2), (0xD5, 3), (0xD6, 5), (0xD7, 9), (0xD8, 17))),
    b"\xa0",
    b"\xbf" + bytes(31),
    *(struct.pack(form, tag, 3) + b"abc" for tag, form in ((0xC4, ">BB"), (0xC5, ">BH"), (0xC6, ">BI"))),
    *(struct.pack(form, tag, 3) + b"abc" for tag, form in ((0xD9, ">BB"), (0xDA, ">BH"), (0xDB, ">BI"))),
    *(struct.pack(form, tag, 3) + b"tabc" for tag, form in ((0xC7, ">BB"), (0xC8, ">BH"), (0xC9, ">BI"))),
    b"\x80",
    b"\x90",
    b"\x9f" + bytes(15),
    b"\x8f" + bytes(30),
    *(struct.pack(form, tag, 3) + bytes(3) for tag, form in ((0xDC, ">BH"), (0xDD, ">BI"))),
    *(struct.pack(form, tag, 3) + bytes(6) for tag, form in ((0xDE, ">BH"), (0xDF, ">BI"))),
]


@pytest.mark.parametrize("value", EACH, ids=lambda value: f"{value[0]:02x}")
def test_finds_the_end_of_each_kind(value: bytes) -> None:
    """Of all that msgpack has; and no end if one byte is missing."""
    assert skip_value(b"??" + value + b"??", 2, len(value) + 4) == len(value) + 2
    assert skip_value(value, 0, len(value)) == len(value)
    assert skip_value(value + b"?", 0, len(value) - 1) == -1


def test_there_is_a_case_for_each_kind() -> None:
    """All first bytes that are no short form, but the one that msgpack does not use."""
    assert {value[0] for value in EACH} >= set(range(0xC0, 0xE0)) - {0xC1}
    assert skip_value(b"\xc1", 0, 1) == -1


@given(value=packed, after=st.binary(max_size=3))
def test_agrees_with_msgpack(value: bytes, after: bytes) -> None:
    """Whatever the value."""
    assert skip_value(value + after, 0, len(value + after)) == len(value)


@given(data=st.binary(max_size=24))
def test_finds_no_end_where_msgpack_finds_none(data: bytes) -> None:
    """Whatever the bytes."""
    unpacker = msgpack.Unpacker(max_buffer_size=100)
    unpacker.feed(data)
    try:
        unpacker.skip()
        end = unpacker.tell()
    except (msgpack.UnpackException, ValueError):
        end = -1
    assert skip_value(data, 0, len(data)) == end


def test_counts_what_is_due() -> None:
    """However deep it is nested, however much it promises: no stack, no long walk."""
    deep = b"\x91" * 100_000
    assert skip_value(deep + b"\1", 0, 100_001) == 100_001
    assert skip_value(deep, 0, 100_000) == -1
    assert skip_value(b"\xdf\xff\xff\xff\xff" * 1_000, 0, 5_000) == -1
