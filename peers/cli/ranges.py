"""What the numbers on a command line must be: each check raises `FlagError`, in the same words for all commands.

Not a number (`nan`) is within no range; without these checks it would be compared with a clock, and never be reached.
"""

from __future__ import annotations

from hub.sizes import parse_size
from peers.cli.errors import FlagError

__all__ = ["check_count", "check_positive", "size_of"]

_WIRE_LIMIT = 2**63 - 1
"""The largest number that a hub can be asked for."""


def check_count(flag: str, count: int | None) -> None:
    """Check that a count is 1 or more, where one was given.

    Raises:
        FlagError: It is not.
    """
    if count is None:
        return
    if count < 1:
        raise FlagError(f"{flag} {count}: give 1 or more")
    if count > _WIRE_LIMIT:
        raise FlagError(f"{flag} {count}: give {_WIRE_LIMIT} or less")


def check_positive(flag: str, number: float | None, unit: str = "", hint: str = "") -> None:
    """Check that a number is above 0, where one was given.

    Args:
        flag: What it was given to.
        number: The number.
        unit: What it counts, such as "seconds".
        hint: What else helps, after a semicolon.

    Raises:
        FlagError: It is not.
    """
    if number is not None and not number > 0:
        raise FlagError(f"{flag} {number:g}: give more than 0{' ' * bool(unit)}{unit}{'; ' * bool(hint)}{hint}")


def size_of(flag: str, text: str) -> int:
    """Return how many bytes a text such as `64MiB` means.

    Raises:
        FlagError: It means none, or less than 1.
    """
    try:
        size_bytes = parse_size(text)
    except ValueError as error:
        raise FlagError(f"{flag} {text!r}: {error}") from error
    if size_bytes < 1:
        raise FlagError(f"{flag} {text!r}: give 1 or more")
    if size_bytes > _WIRE_LIMIT:
        raise FlagError(f"{flag} {text!r}: give {_WIRE_LIMIT} bytes or less")
    return size_bytes
