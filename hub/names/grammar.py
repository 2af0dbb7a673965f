"""Service names: what they may look like.

As D-Bus's well-known names: two elements or more, joined by dots, such as `org.example.Player`; an element has ASCII
letters, digits, `_` and `-`, and begins with a letter or `_`. At most 255 bytes: its length stands in one byte on the
wire.

Cost: O(length).
"""

from __future__ import annotations

import re

from hub.errors import InvalidNameError
from hub.topics import printable

__all__ = ["NAME_LIMIT_BYTES", "check_name", "decode_name"]

NAME_LIMIT_BYTES = 255
"""Longest name, bytes."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*(?:\.[A-Za-z_][A-Za-z0-9_-]*)+")


def check_name(name: str) -> str:
    """Return `name` if a client may claim it.

    Raises:
        InvalidNameError: It is too long, or does not follow the grammar.
    """
    if len(name) > NAME_LIMIT_BYTES:
        text = f"name {printable(name)} is {len(name)} characters long, the limit is {NAME_LIMIT_BYTES}"
        raise InvalidNameError(text)
    if _NAME.fullmatch(name) is None:
        raise InvalidNameError(
            f"name {printable(name)} is none: it takes two or more elements such as org.example.Player, of letters,"
            " digits, _ and -, none of which begins with a digit or -"
        )
    return name


def decode_name(raw: bytes) -> str:
    """Return the name that `raw` spells.

    Raises:
        InvalidNameError: See `check_name`.
    """
    return check_name(raw.decode("ascii", "backslashreplace"))
