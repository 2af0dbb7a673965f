"""How much a hub keeps of the other hubs of its mesh, and of the service names in it."""

from __future__ import annotations

from typing import Annotated

import msgspec

from hub.settings.ranges import between

__all__ = ["MeshSettings", "NamesSettings"]


class NamesSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many service names there may be."""

    per_client: Annotated[
        int, between("names", 1, 100_000, "Names that a client may own or wait for; one more is refused with 1008.")
    ] = 64
    queue: Annotated[
        int, between("clients", 1, 100_000, "Clients that may wait for one name; one more is refused with 1013.")
    ] = 64
    total: Annotated[
        int, between("names", 1, 10_000_000, "Names in all, with those of peer hubs; one more is refused with 1013.")
    ] = 100_000
    per_peer: Annotated[
        int, between("names", 1, 10_000_000, "Names that a peer hub may announce; one more is refused with 1008.")
    ] = 100_000


class MeshSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How much a hub keeps of the other hubs of its mesh."""

    hubs: Annotated[
        int,
        between("hubs", 2, 100_000, "Hubs of the mesh that are known; one more is refused (1013)."),
    ] = 4_096
    links: Annotated[
        int, between("links", 1, 100_000, "Links that another hub may tell of; one with more is refused (1007).")
    ] = 1_024
    prefixes: Annotated[
        int,
        between(
            "prefixes",
            1,
            100_000_000,
            "Kept of all hubs, at most one for 8 KiB of memory; a hub that wants more is sent all.",
        ),
    ] = 1_000_000
