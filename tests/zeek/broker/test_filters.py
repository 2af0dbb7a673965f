"""Filters: what is written is read again, what the hub cannot take is left out, and nothing else is believed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peers.zeek.broker.messages import (
    FILTER_LIMIT_PREFIXES,
    decode_filter,
    encode_filter,
    encode_varbyte,
    minimal_prefixes,
    read_varbyte,
)

PREFIXES = st.lists(st.text("/ab", max_size=5), max_size=8)


@pytest.mark.parametrize(
    ("number", "raw"),
    [(0, "00"), (127, "7f"), (128, "8001"), (300, "ac02"), (16384, "808001"), (2**32 - 1, "ffffffff0f")],
)
def test_varbytes(number: int, raw: str) -> None:
    assert encode_varbyte(number).hex() == raw
    assert read_varbyte(b"x" + bytes.fromhex(raw) + b"x", 1) == (number, 1 + len(raw) // 2)


@pytest.mark.parametrize("raw", ["", "80", "ff" * 10, "80" * 10 + "01"])
def test_varbytes_without_an_end(raw: str) -> None:
    with pytest.raises(ValueError, match="has no end"):
        read_varbyte(bytes.fromhex(raw), 0)


@given(PREFIXES, st.text("/ab", max_size=8))
def test_minimal_prefixes_mean_the_same(prefixes: list[str], topic: str) -> None:
    minimal = minimal_prefixes(prefixes)
    assert any(map(topic.startswith, minimal)) == any(map(topic.startswith, prefixes))
    assert list(minimal) == sorted(set(minimal))
    assert not any(one != other and one.startswith(other) for one in minimal for other in minimal)


@given(PREFIXES, st.binary(max_size=3), st.binary(max_size=3))
def test_filters_round_trip(prefixes: list[str], before: bytes, behind: bytes) -> None:
    minimal = minimal_prefixes(prefixes)
    raw = before + encode_filter(minimal)
    assert decode_filter(raw + behind, len(before), 10) == (minimal, len(raw))


@given(st.binary(max_size=40))
def test_any_bytes_are_a_filter_or_not(raw: bytes) -> None:
    try:
        found, end = decode_filter(raw, 0, 5)
    except ValueError as error:
        assert str(error)  # noqa: PT017 -- often there is none
    else:
        assert end <= len(raw)
        assert len(found) <= 5


@pytest.mark.parametrize("prefix", [b"a\nb", b"\xff", b"x" * 1025, b"\x7f"])
def test_prefixes_that_the_hub_refuses_are_left_out(prefix: bytes) -> None:
    raw = b"\x03\x02/a" + encode_varbyte(len(prefix)) + prefix + b"\x02/b"
    assert decode_filter(raw, 0, 10)[0] == ("/a", "/b")


def test_a_filter_of_the_limit_is_read() -> None:
    prefixes = tuple(f"/topic/{number:06}" for number in range(FILTER_LIMIT_PREFIXES))
    raw = encode_filter(prefixes)
    assert decode_filter(raw, 0, FILTER_LIMIT_PREFIXES) == (prefixes, len(raw))
    with pytest.raises(ValueError, match="filter of 100001 prefixes, the limit is 100000"):
        decode_filter(encode_filter((*prefixes, "x")), 0, FILTER_LIMIT_PREFIXES)


def test_the_empty_filter_and_the_filter_of_everything() -> None:
    assert decode_filter(b"\x00", 0, 10)[0] == ()
    assert decode_filter(b"\x02\x00\x02/a", 0, 10)[0] == ("",)
