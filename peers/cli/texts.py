"""Values, counts and tables as text, for all commands. Escaped text cannot steer a terminal."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

import msgspec

from hub.errors import UsageError


def _plain(value: Any) -> Any:
    from peers.values.conversion import untyped  # noqa: PLC0415 -- rarely needed

    made = untyped(value)
    if made is value:
        raise TypeError(f"{type(value).__name__} has no JSON form")
    return made


encoder = msgspec.json.Encoder(enc_hook=_plain)
"""Writes values as JSON, those of Zeek too; raises one of `NO_FORM`."""

NO_FORM = (TypeError, ValueError, OverflowError, RecursionError)

_ELLIPSIS = "…"


def counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + "s" * (count != 1)


def json_text(value: Any) -> bytes | None:
    r"""Return the JSON text of a value, None if it has none; bytes that are no UTF-8 as `\xff`, as Zeek does."""
    try:
        return encoder.encode(value)
    except NO_FORM:
        from peers.values.conversion import json_of  # noqa: PLC0415 -- rarely needed

        try:
            return json_of(msgspec.msgpack.encode(_readable(value)))
        except NO_FORM:
            return None


def _readable(value: Any) -> Any:
    """Return a value without strings that are no UTF-8, and without Zeek's types."""
    from peers.values.conversion import untyped  # noqa: PLC0415 -- rarely needed

    if isinstance(value, dict):
        return {_readable(key) if isinstance(key, str) else key: _readable(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_readable(member) for member in value]
    return untyped(value)


def escaped(text: str) -> str:
    r"""Return `text` with everything that does not print written as `\uXXXX`.

    That is control characters, but also marks that turn the direction of writing, and Unicode's other line ends.
    """
    if text.isprintable():
        return text
    return "".join([character if character.isprintable() else _escape(character) for character in text])


def escaped_lines(lines: bytes) -> bytes:
    """Escape lines of JSON text; their line ends stay."""
    return "\n".join(map(escaped, lines.decode().split("\n"))).encode()


def _escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def cut(line: str, width: int) -> str:
    """Return as much of `line` as fits into so many columns, with an ellipsis if it was cut."""
    if line.isascii():
        return line if len(line) <= width else line[: max(0, width - 1)] + _ELLIPSIS
    from rich.cells import cell_len, set_cell_size  # noqa: PLC0415 -- only wide characters need it

    shown = line[: width + 1]  # characters without a width of their own count as one column: that bounds the work
    if cell_len(shown) <= width and len(shown) == len(line):
        return line
    return set_cell_size(shown, max(0, width - 1)).rstrip(" ") + _ELLIPSIS


Cell = str | int | float | None


def columns(headings: Sequence[str], rows: Sequence[Sequence[Cell]]) -> list[str]:
    """Return the lines of a table, numbers to the right and `-` for nothing; none if there are no rows."""
    if not rows:
        return []
    is_number = [any(isinstance(cell, int | float) for cell in column) for column in zip(*rows, strict=True)]
    return _aligned(headings, [[_cell_text(cell) for cell in row] for row in rows], is_number)


def _aligned(headings: Sequence[str], rows: Sequence[Sequence[str]], is_number: Sequence[bool]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    lines = []
    for row in (headings, *rows):
        cells = zip(row, widths, is_number, strict=True)
        lines.append("  ".join(cell.rjust(width) if right else cell.ljust(width) for cell, width, right in cells))
    return [line.rstrip() for line in lines]


def _cell_text(cell: Cell) -> str:
    match cell:
        case int():
            return f"{cell:,}"
        case float():
            return f"{cell:,.2f}"
    return escaped(cell or "") or "-"


_KIB = 1024


def show(
    heads: Sequence[str], rows: Iterable[Sequence[str]], *, text_columns: Container[int] = (0,), most: int | None = None
) -> None:
    """Print a table of texts, of `most` rows; columns that are not among `text_columns` are figures."""
    every = list(rows)
    shown = [[escaped(cell) for cell in row] for row in every[:most]]
    print(*_aligned(heads, shown, [place not in text_columns for place in range(len(heads))]), sep="\n")
    if len(every) > len(shown):
        print(f"and {len(every) - len(shown):,} more")


def print_json(*objects: dict[str, Any]) -> None:
    for one in objects:
        print(escaped((json_text(one) or b"").decode()))


def amount(count: int) -> str:
    return f"{count:,}"


def kib(size_bytes: int) -> str:
    return f"{size_bytes / _KIB:,.1f}"


def examples(*lines: str) -> str:
    return "  \n".join(["Examples:", *(f"`{line}`" for line in lines)])


class FlagError(UsageError):
    """A flag or an argument that makes no sense, alone or beside others."""


_WIRE_LIMIT = 2**63 - 1


def check_count(flag: str, count: int | None) -> None:
    """Raise `FlagError` unless a count, if given, is 1 or more."""
    if count is None:
        return
    if count < 1:
        raise FlagError(f"{flag} {count}: give 1 or more")
    if count > _WIRE_LIMIT:
        raise FlagError(f"{flag} {count}: give {_WIRE_LIMIT} or less")


def check_positive(flag: str, number: float | None, unit: str = "", hint: str = "") -> None:
    """Raise `FlagError`, with a hint, unless a number, if given, is above 0 (not `nan`)."""
    if number is not None and not number > 0:
        raise FlagError(f"{flag} {number:g}: give more than 0{' ' * bool(unit)}{unit}{'; ' * bool(hint)}{hint}")


_SECOND_US = 1_000_000

_BEGIN = datetime(1970, 1, 1, tzinfo=UTC)


def moment(time_us: int) -> str:
    """Return the text of a time in µs since 1970 UTC."""
    seconds, rest_us = divmod(time_us, _SECOND_US)
    return f"{_second(seconds)}.{rest_us:06}Z"


@lru_cache(4096)
def _second(seconds: int) -> str:
    return (_BEGIN + timedelta(seconds=seconds)).replace(tzinfo=None).isoformat()


def time_us_of(flag: str, text: str) -> int:
    """Return a time in ISO 8601 as µs since 1970 UTC, or raise `FlagError`."""
    try:
        given = datetime.fromisoformat(text)
    except ValueError:
        problem = f"{flag} {text!r}: give an offset, or a time such as 2026-11-21T12:00:00Z"
        raise FlagError(problem) from None
    return (with_zone(given) - _BEGIN) // timedelta(microseconds=1)


def check_from(offset: int | None, time: datetime | None) -> datetime | None:
    """Check --from-offset and --from-time; return the time with a zone."""
    if offset is not None and (offset < 0 or time is not None):
        raise FlagError("--from-offset: give 0 or more, and not --from-time as well")
    since = None if time is None else with_zone(time)
    if since is not None and since.timestamp() < 0:
        raise FlagError(f"--from-time {time}: give a time of 1970 or later")
    return since


def with_zone(given: datetime) -> datetime:
    return given if given.tzinfo else given.replace(tzinfo=UTC)
