"""How much a hub keeps of the other hubs of its mesh, and of the service names in it."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from hub.limits import ADDRESSES_LIMIT
from hub.settings.ranges import Url, between

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
    """How much a hub keeps of the other hubs of its mesh, and where they find it."""

    advertise: Annotated[
        tuple[Url, ...],
        Meta(
            max_length=ADDRESSES_LIMIT,
            description="Where other hubs of the mesh may dial this one; they are told.",
            extra={"unit": f"at most {ADDRESSES_LIMIT} URLs such as 'tls://hub-1.example.org:7400'"},
        ),
    ] = ()

    degree: Annotated[
        int,
        between(
            "ways",
            0,
            8,
            "Ways that this hub is to have to each other one; where there are fewer it dials spare links. 0 for none.",
        ),
    ] = 0
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
