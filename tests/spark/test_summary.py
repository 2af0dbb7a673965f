"""Figures with units, on a terminal and in a pipe."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from peers.spark.summary import amount, columns, figures, moment, plain, rate, second, show, span


def shown(*parts: object) -> list[str]:
    """Lines in a pipe."""
    console = Console(file=io.StringIO())
    show(*parts, console=console)  # type: ignore[arg-type]
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def test_a_table_of_figures() -> None:
    """One a row: what, unit, value; nothing is wrapped or taken for markup."""
    lines = shown("[bold]", figures([("messages", "messages", "1,000"), ("[red]topic" + "x" * 100, "", "a\x1b[31m")]))
    assert lines[0] == "[bold]"
    assert lines[1].split() == ["unit", "figure"]
    assert lines[2].split() == ["messages", "messages", "1,000"]
    assert lines[3].split() == ["[red]topic" + "x" * 100, "a\\x1b[31m"]


def test_a_table_of_columns() -> None:
    """Text first, figures behind it."""
    lines = shown(columns(("topic", "messages"), [("/a", "1"), ("/b", "23")]))
    assert [line.split() for line in lines] == [["topic", "messages"], ["/a", "1"], ["/b", "23"]]


def test_what_does_not_print_is_escaped() -> None:
    """Control characters and what turns the direction of writing; other scripts stay."""
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
    """In the two largest units."""
    assert span(length_us) == text


def test_numbers_and_times() -> None:
    """Thousands apart, rates of nothing, times in UTC to the microsecond."""
    assert amount(1234567.0) == "1,234,567"
    assert rate(100, 0.5) == "200"
    assert rate(100, 0) == "0"
    assert rate(1, 3) == "0.333"
    assert second(1_763_722_800_999_999) == "2025-11-21 11:00:00"
    assert moment(1_763_722_800_000_001) == "2025-11-21T11:00:00.000001+00:00"
    assert moment(-1) == "1969-12-31T23:59:59.999999+00:00"
