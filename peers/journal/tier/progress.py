"""`Progress`: how far a tier is; and what the process that copies tells the hub, a line of JSON each (`Told`).

Light, for the hub's own process reads it. No state, no I/O.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

__all__ = ["Progress", "Told"]


class Progress(NamedTuple):
    """How far a tier is."""

    first: int = 0
    """The oldest offset in it."""
    next: int = 0
    """Everything before it is in the tier, or was."""
    files: int = 0
    size_bytes: int = 0
    missed: int = 0
    """Offsets that were deleted here before they were copied, as far as the manifest goes back."""


class Told(msgspec.Struct, frozen=True):
    """How far the tier is, and what is wrong."""

    progress: Progress = Progress()
    """As it was known last."""
    failures: int = 0
    """How often a step failed since the process was started."""
    error: str = ""
    """What is wrong; empty if nothing is."""
