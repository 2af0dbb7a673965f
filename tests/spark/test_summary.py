"""Figures with units, on a terminal and in a pipe."""

from __future__ import annotations

import pytest

from peers.spark.summary import amount, plain, rate, second, span


def test_what_does_not_print_is_escaped() -> None:
    assert plain("a\u202eb\n") == "a\\u202eb\\n"
    assert plain("é'\"") == "é'\""


@pytest.mark.parametrize(
    ("length_us", "text"),
    [
        (0, "0 s"),
        (250_000, "0.25 s"),
        (59_900_000, "59.9 s"),
        (60_000_000, "1 min"),
        (725_000_000, "12 min 5 s"),
        (3_600_000_000, "1 h"),
        (100 * 3_600_000_000, "4 d 4 h"),
    ],
)
def test_lengths_of_time(length_us: int, text: str) -> None:
    assert span(length_us) == text


def test_numbers_and_times() -> None:
    assert amount(1234567.0) == "1,234,567"
    assert rate(100, 0.5) == "200"
    assert rate(100, 0) == "0"
    assert rate(1, 3) == "0.333"
    assert second(1_763_722_800_999_999) == "2025-11-21 11:00:00"
