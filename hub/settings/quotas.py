"""What there is to be shared out among users."""

from __future__ import annotations

from typing import Annotated

import msgspec

from hub.settings.ranges import TIB, between

__all__ = ["QuotaSettings"]


class QuotaSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What there is to be shared out among users, where no other key says it; see docs/quotas.md."""

    queued_bytes: Annotated[
        int,
        between("bytes", 0, 16 * TIB, "What may wait for slow clients of all users; 0 is half of the hub's memory."),
    ] = 0
    prefixes: Annotated[
        int, between("prefixes", 0, 10**9, "Prefixes of all users together; 0 is one for each 8 KiB of the memory.")
    ] = 0
    rules: Annotated[
        int, between("rules", 0, 10**9, "Rules of all users together; 0 is one for each 16 KiB of the memory.")
    ] = 0
    services: Annotated[
        int, between("prefixes", 0, 10**9, "Prefixes that users serve; 0 is one for each 16 KiB of the memory.")
    ] = 0
