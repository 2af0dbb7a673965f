"""Blocks in parts, as they are read: as a whole, or what some of their parts hold.

```
payload ─▶ directory ─▶ order, and all parts or those that are wanted ─ decompressed ─ weave ─▶ block
```

No state. Cost: of reading all 20 to 40 ns a record more than what is unpacked; of reading one part, 0.25 ms for a block
of 4 MiB, and what that part holds.

Not here: how they are stored (`peers.journal.segments.parting`).
"""

from __future__ import annotations

from collections.abc import Callable
from zlib import crc32

from hub.errors import JournalCorruptError
from hub.journal.block import weave
from hub.journal.segment.parts import Directory, Part
from hub.journal.wanted import Wanted
from peers.journal.segments.codec import decoded

__all__ = ["chosen_parts", "woven"]


def chosen_parts(directory: Directory, wanted: Wanted) -> list[int]:
    """Return the numbers of the parts that may hold a topic that is wanted."""
    return [number for number, part in enumerate(directory.parts) if wanted.may_hold(part.listing)]


def woven(directory: Directory, chosen: list[int], read: Callable[[int, int], bytes]) -> bytes:
    """Return a block of the records that some parts hold.

    Args:
        directory: What the block consists of.
        chosen: The numbers of these parts, one or more; all of them make the whole block.
        read: Returns bytes of the payload: from which place on, and how many.

    Raises:
        JournalCorruptError: They are not what was written.
        JournalUnavailableError: One is stored in a way that this version does not know.
    """
    parts: list[bytes | None] = [None] * len(directory.parts)
    for number in chosen:
        parts[number] = _read(directory.parts[number], read)
    checksum = directory.checksum if len(chosen) == len(parts) else None
    return weave(_read(directory.order, read), parts, directory.first, checksum)


def _read(part: Part, read: Callable[[int, int], bytes]) -> bytes:
    data = read(part.place, part.stored_bytes)
    if crc32(data) != part.crc:
        raise JournalCorruptError("the checksum of a part does not match")
    return decoded(data, part.codec, part.raw_bytes)
