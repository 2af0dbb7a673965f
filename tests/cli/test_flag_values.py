"""Numbers and times on a command line."""

from __future__ import annotations

import math

import pytest

from peers.cli.flag_values import FlagError, check_count, check_positive, size_of


def test_what_was_not_given_is_not_checked() -> None:
    """None stands for a flag that was left out."""
    check_count("--limit", None)
    check_positive("--timeout", None)


@pytest.mark.parametrize("count", [1, 2**63 - 1])
def test_counts_that_a_hub_takes(count: int) -> None:
    """From 1 to what fits into the numbers of the protocol."""
    check_count("--limit", count)


@pytest.mark.parametrize("count", [0, -1, 2**63])
def test_counts_that_no_hub_takes(count: int) -> None:
    """The error repeats flag and value."""
    with pytest.raises(FlagError, match=f"^--limit {count}: give "):
        check_count("--limit", count)


@pytest.mark.parametrize("number", [0.001, 5, math.inf])
def test_numbers_above_0(number: float) -> None:
    """Infinity is one: it stands for as long, or as fast, as can be."""
    check_positive("--timeout", number)


@pytest.mark.parametrize("number", [0, -0.5, math.nan])
def test_numbers_that_are_not_above_0(number: float) -> None:
    """Not a number is none of them: no clock would ever reach it."""
    with pytest.raises(FlagError, match=f"^--speed {number:g}: give more than 0 seconds; 1 is as recorded$"):
        check_positive("--speed", number, "seconds", "1 is as recorded")


def test_sizes() -> None:
    """With a unit or without one, as settings have them."""
    assert size_of("--queue-bytes", "64KiB") == 65536


@pytest.mark.parametrize("text", ["many", "0", "9999999TiB"])
def test_sizes_that_are_none(text: str) -> None:
    """The error repeats flag and value."""
    with pytest.raises(FlagError, match=f"^--queue-bytes '{text}': "):
        size_of("--queue-bytes", text)
