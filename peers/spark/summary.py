"""What a job tells at its end: figures with their units on the terminal, in the look of `hub bench`.

Invariant: what stands in an archive cannot steer the terminal; what does not print is written as an escape.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from rich.console import Console
from rich.table import Table
from rich.text import Text

__all__ = ["Figure", "amount", "columns", "figures", "moment", "plain", "rate", "second", "show", "span"]

Figure = tuple[str, str, str]
"""What it is, its unit, how it is written."""

_PIPE_COLUMNS = 200
"""A pipe has no edge to wrap at."""


def figures(rows: Iterable[Figure]) -> Table:
    """Return a table of one figure a row."""
    table = Table("", "unit", box=None, pad_edge=False, header_style="bold")
    table.add_column("figure", justify="right")
    for label, unit, value in rows:
        table.add_row(Text(plain(label)), Text(unit, style="dim"), Text(plain(value)))
    return table


def columns(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """Return a table whose first column is text and whose others are figures; heads bear the units."""
    table = Table(heads[0], box=None, pad_edge=False, header_style="bold")
    for head in heads[1:]:
        table.add_column(head, justify="right")
    for row in rows:
        table.add_row(*(Text(plain(cell)) for cell in row))
    return table


def show(*parts: Table | str, console: Console | None = None) -> None:
    """Print tables and lines of text to standard output, one below the other."""
    console = console or Console()
    if not console.is_terminal:
        console.width = _PIPE_COLUMNS
    for part in parts:
        console.print(part if isinstance(part, Table) else Text(plain(part)))


def plain(text: str) -> str:
    """Return `text` if it prints, else with what does not as escapes."""
    return text if text.isprintable() else ascii(text)[1:-1]


def amount(value: float) -> str:
    """Write a whole number with its thousands apart."""
    return f"{value:,.0f}"


def rate(count: float, elapsed_s: float) -> str:
    """Write how many a second that is; small rates with their decimals."""
    value = count / elapsed_s if elapsed_s > 0 else 0
    return amount(value) if value >= 100 else f"{value:.3g}"


def moment(time_us: int) -> str:
    """Write a time of µs since 1970 UTC as RFC 3339."""
    return datetime.fromtimestamp(time_us // 1_000_000, UTC).replace(microsecond=time_us % 1_000_000).isoformat()


def second(time_us: int) -> str:
    """Write the second of such a time for people, who know that it is UTC: "2026-11-21 12:00:00"."""
    return f"{datetime.fromtimestamp(time_us // 1_000_000, UTC):%Y-%m-%d %H:%M:%S}"


def span(length_us: int) -> str:
    """Write a length of time in the two largest units that it has: "3 d 4 h", "12 min 5 s", "0.25 s"."""
    seconds = length_us / 1_000_000
    if seconds < 60:
        return f"{seconds:.3g} s"
    for size_s, unit, part_s, part in _UNITS:
        if seconds >= size_s:
            whole, rest = divmod(int(seconds), size_s)
            return f"{whole} {unit} {rest // part_s} {part}" if rest >= part_s else f"{whole} {unit}"
    raise AssertionError


_UNITS = ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s"))
