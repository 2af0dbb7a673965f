"""`Origin`: where, and when, messages have entered the mesh (`hub.mesh.upstream`, `peers.wire.control`)."""

from __future__ import annotations

from typing import NamedTuple

# The last epoch. A hub comes there after days of peers that change their links all the time, and stays in it
EPOCH_LIMIT = 2**32 - 1


class Origin(NamedTuple):
    """Where messages have entered the mesh."""

    hub: bytes  # The id of the hub, 16 bytes
    epoch: int  # 0 to 2³² - 1
    mark: int = 0  # By which that hub knows the one batch that it holds for, 1 to 2⁶⁴ - 1; 0 for none
