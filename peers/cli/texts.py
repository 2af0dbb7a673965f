"""Values, counts and tables as text, for all commands. Escaped text cannot steer a terminal."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Any

import msgspec


def _plain(value: Any) -> Any:
    """Return a Zeek value in types that msgspec knows."""
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
    """Return `1 message`, `1,200 messages`."""
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

    That is control characters, but also what turns the direction of writing, and Unicode's other line ends.
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


def show(heads: Sequence[str], rows: Iterable[Sequence[str]], *, text_columns: Container[int] = (0,)) -> None:
    """Print a table of texts; columns that are not among `text_columns` are figures."""
    shown = [[escaped(cell) for cell in row] for row in rows]
    print(*_aligned(heads, shown, [place not in text_columns for place in range(len(heads))]), sep="\n")


def print_json(*objects: dict[str, Any]) -> None:
    """Print one object a line."""
    for one in objects:
        print(escaped(msgspec.json.encode(one).decode()))


def amount(count: int) -> str:
    """Return a number with thousands separators."""
    return f"{count:,}"


def kib(size_bytes: int) -> str:
    """Return a size in KiB."""
    return f"{size_bytes / _KIB:,.1f}"


def examples(*lines: str) -> str:
    """Return the end of a command's help: lines for a shell."""
    return "  \n".join(["Examples:", *(f"`{line}`" for line in lines)])
