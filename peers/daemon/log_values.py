"""Values of log lines: bounded, and without anything that would act on a terminal.

A value may come from a far side: it may be huge, nested or steer the terminal. So lists and maps are shown to a depth
and a number of items, texts to a length, and what does not print as an escape. No state, no I/O.
"""

from __future__ import annotations

import math
from typing import Any

__all__ = ["VALUE_CHARACTERS", "bounded", "escaped", "shortened"]

VALUE_CHARACTERS = 2048
"""A topic of the greatest length and a URL are shown in full."""

_ITEMS = 32
"""Most items shown of a list or map."""

_DEPTH = 3
"""How many levels of lists within lists are shown."""


def bounded(value: object) -> Any:
    """Turn a value into plain JSON of bounded size; a list or map that is still too long becomes text."""
    plain = _plain(value, _DEPTH)
    if isinstance(plain, (dict, list)) and len(text := repr(plain)) > VALUE_CHARACTERS:
        return shortened(text, VALUE_CHARACTERS)
    return plain


def _plain(value: object, depth: int) -> Any:
    """Turn a value into plain JSON, so many levels deep."""
    if depth and isinstance(value, dict):
        shown = {escaped(str(key)): _plain(item, depth - 1) for key, item in list(value.items())[:_ITEMS]}
        return shown if len(value) <= _ITEMS else {**shown, "...": f"{len(value) - _ITEMS} more"}
    if depth and isinstance(value, (list, tuple)):
        items = [_plain(item, depth - 1) for item in value[:_ITEMS]]
        return items if len(value) <= _ITEMS else [*items, f"... {len(value) - _ITEMS} more"]
    return _plain_scalar(value)


def _plain_scalar(value: object) -> Any:
    """Turn a value into plain JSON without looking into lists and maps."""
    match value:
        case None | bool():
            return value
        case int() if value.bit_length() <= 64:
            return int(value)
        case float() if math.isfinite(value):
            return value
        case int():
            text = hex(value)
        case str():
            text = str.__str__(value)  # of an enumeration its value, not its name
        case dict() | list() | tuple():  # too deep to look into: it may hold millions
            text = f"... {len(value)} items"
        case bytes() | bytearray() if len(value) > VALUE_CHARACTERS:
            text = f"{len(value)} bytes: {bytes(value[:_ITEMS])!r}..."
        case _:
            text = repr(value)
    return shortened(text, VALUE_CHARACTERS)


def escaped(text: str) -> str:
    """Write each character that does not print (controls, line ends, direction marks, halves of pairs) as an escape."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def shortened(text: str, most_characters: int) -> str:
    """Leave the middle out of a long text, and say so."""
    if len(text) <= most_characters:
        return text
    half = most_characters // 2
    return f"{text[:half]}... {len(text) - 2 * half} characters left out ...{text[-half:]}"
