"""Numbers and times as the jobs show them, on the terminal and in the page of a report."""

from __future__ import annotations

from datetime import UTC, datetime

Figure = tuple[str, str, str]
"""Label, unit, value."""

_UNITS = ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s"))


def plain(text: str) -> str:
    """Return a text with escapes for what does not print, so that an archive cannot steer a terminal or a page."""
    return text if text.isprintable() else ascii(text)[1:-1]


def amount(value: float) -> str:
    """Write a whole number with its thousands apart."""
    return f"{value:,.0f}"


def rate(count: float, elapsed_s: float) -> str:
    """Write how many a second that is; small rates with decimals."""
    value = count / elapsed_s if elapsed_s > 0 else 0
    return amount(value) if value >= 100 else f"{value:.3g}"


def second(time_us: int) -> str:
    """Write the second of µs since 1970 UTC: "2026-11-21 12:00:00"."""
    return f"{datetime.fromtimestamp(time_us // 1_000_000, UTC):%Y-%m-%d %H:%M:%S}"


def span(length_us: int) -> str:
    """Write a length of time in its two largest units: "3 d 4 h", "12 min 5 s", "0.25 s"."""
    seconds = length_us / 1_000_000
    for size_s, unit, part_s, part in _UNITS:
        if seconds >= size_s:
            whole, rest = divmod(int(seconds), size_s)
            return f"{whole} {unit} {rest // part_s} {part}" if rest >= part_s else f"{whole} {unit}"
    return f"{seconds:.3g} s"
