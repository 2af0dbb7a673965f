"""`Origin`: where, and when, messages have entered the mesh.

It stands beside the batches that a hub passes on, and in links in front of what it holds for (`peers.wire.origin`);
what it is for says `hub.mesh.upstream`.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["EPOCH_LIMIT", "Origin", "Way"]

EPOCH_LIMIT = 2**32 - 1
"""The last epoch. A hub comes there after days of peers that change their links all the time, and stays in it."""


class Origin(NamedTuple):
    """Where messages have entered the mesh."""

    hub: bytes
    """The id of the hub, 16 bytes."""
    epoch: int
    """Its epoch, 0 to 2³² - 1; 0 is also that of a hub which knows nothing of the mesh."""
    mark: int = 0
    """By which that hub knows the one batch that it holds for, 1 to 2⁶⁴ - 1; 0 for none."""


Way = bytes | tuple[bytes, int]
"""What decides by which links messages go on that a link has brought: the id of the hub where they have entered; beside
it, while the far side knows another graph than there is here, the number of what it knows (`hub.mesh.far_views`)."""
