"""Stores that this hub is the master of."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from hub.settings.ranges import FOREVER_S, KIB, MIB, PATH_BYTES, PRINTABLE, TIB, between

__all__ = ["StoresSettings"]


class StoresSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Stores that this hub is the master of, and the limits of each."""

    open: Annotated[
        tuple[Annotated[str, Meta(pattern=PRINTABLE, min_length=1, max_length=PATH_BYTES)], ...],
        Meta(description="Stores of this hub.", extra={"unit": "texts NAME=FILE or NAME=:memory:"}),
    ] = ()
    feeds: Annotated[
        tuple[Annotated[str, Meta(pattern=PRINTABLE, min_length=1, max_length=PATH_BYTES)], ...],
        Meta(description="Which stores keep the last message of each topic.", extra={"unit": "texts NAME=PREFIX"}),
    ] = ()
    feed_expires_s: Annotated[
        float, between("seconds", 0.1, FOREVER_S, "How long such a message is kept; the most is for ever.")
    ] = FOREVER_S
    sync: Annotated[
        Literal["normal", "full"],
        Meta(description="What a confirmed change survives: normal, that the hub is killed; full, power loss too."),
    ] = "normal"
    entries: Annotated[int, between("entries", 1, 100_000_000, "Entries of one store.")] = 1_000_000
    bytes: Annotated[int, between("bytes", 64 * KIB, TIB, "The same in memory, 200 bytes for each entry counted.")] = (
        512 * MIB
    )
    user_entries: Annotated[
        int, between("entries", 1, 100_000_000, "Entries of one store that one user has written last.")
    ] = 1_000_000
    user_bytes: Annotated[int, between("bytes", KIB, TIB, "The same in memory.")] = 512 * MIB
    entry_bytes: Annotated[
        int, between("bytes", 64, 16 * MIB, "Longest key and value of an entry together; a frame must hold them.")
    ] = 512 * KIB
    changes: Annotated[
        int, between("changes", 1, 100_000_000, "The last changes that a store keeps for who has missed some.")
    ] = 65_536
    changes_bytes: Annotated[int, between("bytes", 64 * KIB, TIB, "The same in memory.")] = 16 * MIB
