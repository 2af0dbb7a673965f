"""`Damage`: offsets of a journal that cannot be read, and why."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Damage", "offsets_text"]


class Damage(NamedTuple):
    """A range of offsets that cannot be read, and why."""

    first: int
    next: int | None
    """The offset behind the last of them; None if nobody knows it."""
    cause: str

    def __str__(self) -> str:
        return f"{offsets_text(self.first, self.next)}: {self.cause}"


def offsets_text(first: int, following: int | None) -> str:
    """Name a range for people.

    Args:
        first: Its first offset.
        following: The offset behind its last; None if nobody knows it.
    """
    return f"offsets {first} to {'?' if following is None else following - 1}"
