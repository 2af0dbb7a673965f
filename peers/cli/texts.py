"""Texts: how values, counts and whatever a far side has said are written, for all commands.

Invariant: what went through `escaped` or `escaped_lines` cannot steer a terminal: whatever does not print is written as
its JSON escape. No state, no I/O.
"""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["NO_FORM", "counted", "cut", "encoder", "escaped", "escaped_lines", "json_text"]


def _plain(value: Any) -> Any:
    """Bring into JSON what msgspec does not know: Zeek's values."""
    from peers.values.untyped import untyped  # noqa: PLC0415 -- rarely needed

    made = untyped(value)
    if made is value:
        raise TypeError(f"{type(value).__name__} has no JSON form")
    return made


encoder = msgspec.json.Encoder(enc_hook=_plain)
"""Writes values as JSON, those of Zeek too; raises one of `NO_FORM` for what has no such form."""

NO_FORM = (TypeError, ValueError, OverflowError, RecursionError)

_ELLIPSIS = "…"


def counted(count: int, noun: str) -> str:
    """Write how many there are: `1 message`, `1,200 messages`."""
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
    """Return a value without what msgpack has no form for: strings that are no UTF-8, and Zeek's types."""
    from peers.values.untyped import untyped  # noqa: PLC0415 -- rarely needed

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
    """Return lines of JSON text as `escaped` writes them; their line ends stay."""
    return "\n".join(map(escaped, lines.decode().split("\n"))).encode()


def _escape(character: str) -> str:
    r"""Write a character as JSON does, with a pair of surrogates beyond U+FFFF."""
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def cut(line: str, width: int) -> str:
    """Return as much of `line` as fits into so many columns, with an ellipsis where something is missing."""
    if line.isascii():
        return line if len(line) <= width else line[: max(0, width - 1)] + _ELLIPSIS
    from rich.cells import cell_len, set_cell_size  # noqa: PLC0415 -- only wide characters need it

    shown = line[: width + 1]  # characters without a width of their own count as one column: that bounds the work
    if cell_len(shown) <= width and len(shown) == len(line):
        return line
    return set_cell_size(shown, max(0, width - 1)).rstrip(" ") + _ELLIPSIS
