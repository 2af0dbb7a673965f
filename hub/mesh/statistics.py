"""`MeshStatistics`: what a hub knows of the mesh, and what it did not take, in numbers.

Owner: nobody; it is a value.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["MeshStatistics"]


class MeshStatistics(NamedTuple):
    """What there is now; what ends with `_total` was counted since the start."""

    hubs: int
    """How many hubs are known, this one with them."""
    links: int
    """How many links this hub has to others of the mesh."""
    prefixes: int
    """How many prefixes of other hubs are kept."""
    epoch: int
    """The epoch of what enters the mesh here now."""
    incomplete: int
    """How many hubs are taken to want everything, as what they want is not known here."""
    left_out_total: int
    """How many prefixes of announcements were not kept, as there were too many."""
    announcements_total: int
    """How many announcements of other hubs were taken: those that said something new."""
    refused_total: int
    """How many announcements were refused, as there were too many hubs, or links of one hub."""
    overtaken_messages_total: int
    """How many messages were not taken because a newer epoch had overtaken them: they are lost here."""
    repeated_messages_total: int
    """How many messages were not taken because they came by another way than those of their epoch before."""
    stranded_messages_total: int
    """How many messages came here for a hub to which nothing leads on any more, once for each such hub."""
    unreached_messages_total: int
    """How many messages have entered here for a hub that could not be reached, once for each such hub."""
    clashes_total: int
    """How often somebody else has spoken in the name of this hub."""
