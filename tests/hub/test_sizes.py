"""Sizes as people say them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.sizes import parse_size


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("65536", 65_536),
        ("65_536", 65_536),
        ("12 B", 12),
        ("64KiB", 65_536),
        ("16 MiB", 16 * 1024**2),
        ("2gib", 2 * 1024**3),
        ("1TiB", 1024**4),
        ("1KB", 1000),
        ("1MB", 10**6),
        ("1GB", 10**9),
        (" 1TB ", 10**12),
    ],
)
def test_sizes(text: str, expected: int) -> None:
    assert parse_size(text) == expected


@pytest.mark.parametrize("text", ["", "KiB", "1K", "1 M", "1.5MiB", "-1", "+1", "1  MiB", "1MiB/s", "٣", "9" * 5000])
def test_not_sizes(text: str) -> None:
    with pytest.raises(ValueError, match="expected a size"):
        parse_size(text)


@given(st.integers(0, 10**12), st.sampled_from([("KiB", 1024), ("MiB", 1024**2), ("MB", 10**6), ("", 1)]))
def test_sizes_round_trip(number: int, unit: tuple[str, int]) -> None:
    assert parse_size(f"{number}{unit[0]}") == number * unit[1]
