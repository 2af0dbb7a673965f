"""`span_of`: how long something lasts, as people write it: `90s`, `15m`, `12h`, `30d`, `4w`."""

from __future__ import annotations

import re
from datetime import timedelta

from peers.cli.errors import FlagError

__all__ = ["span_of"]

_SPAN = re.compile(r"([1-9][0-9]{0,7})([smhdw])")
_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}

_LONGEST = timedelta(days=36_525)
"""A hundred years: what is longer is a slip of the keyboard."""


def span_of(flag: str, text: str) -> timedelta:
    """Return the span that a text names.

    Args:
        flag: What it was given to, for the error.
        text: A whole number and a unit.

    Raises:
        FlagError: The text names none, or one of more than a hundred years.
    """
    found = _SPAN.fullmatch(text)
    span = timedelta(seconds=int(found[1]) * _UNITS_S[found[2]]) if found else timedelta()
    if not timedelta() < span <= _LONGEST:
        raise FlagError(f"{flag} {text!r}: give a number with s, m, h, d or w, such as 30d, and no more than 36525d")
    return span
