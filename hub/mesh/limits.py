"""How much of a mesh one hub keeps. What the settings say stands in `hub.settings`."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["MeshLimits"]


class MeshLimits(NamedTuple):
    """Limits; what is over them is refused, counted, and told in one line."""

    hubs: int = 4_096
    """Most hubs that are known, this one with them."""
    neighbours: int = 1_024
    """Most links that one hub may tell of."""
    prefixes: int = 100_000
    """Most prefixes that are kept of one hub; what it wants beyond them does not reach it by this hub."""
