"""What clients on the same machine may hand over as memory."""

from __future__ import annotations

from typing import Annotated

import msgspec

from hub.settings.ranges import GIB, KIB, MIB, TIB, between

__all__ = ["SharedMemorySettings"]


class SharedMemorySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What clients on the same machine may hand over as memory instead of bytes."""

    over_bytes: Annotated[
        int,
        between("bytes", 0, GIB, "Values larger than this travel as shared memory over Unix sockets; 0 for none."),
    ] = 64 * KIB
    descriptors: Annotated[
        int, between("descriptors", 1, 1_000_000, "Open at one time; what comes beyond them is copied.")
    ] = 1024
    client_descriptors: Annotated[
        int, between("descriptors", 1, 1_000_000, "The same for one client: of what it sent, and of what it was sent.")
    ] = 64
    client_bytes: Annotated[
        int, between("bytes", 64 * KIB, TIB, "What a client was sent and has not taken; then its queue fills.")
    ] = 64 * MIB
    segments: Annotated[int, between("segments", 0, 1000, "Segments of blocks that one client may bring.")] = 4
    segment_bytes: Annotated[int, between("bytes", 64 * KIB, TIB, "Largest segment.")] = 256 * MIB
