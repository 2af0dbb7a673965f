"""How blocks are stored: as they are.

Not here: the checksum of what is stored (`hub.journal.segment.entry`).
"""

from __future__ import annotations

from hub.errors import JournalUnavailableError

__all__ = ["decoded"]


def decoded(payload: bytes, codec: int, raw_bytes: int) -> bytes:
    """Return a block as it was before it was stored.

    Raises:
        JournalUnavailableError: It is stored in a way that this version does not know.
    """
    if codec or len(payload) != raw_bytes:
        raise JournalUnavailableError(
            f"a block of {raw_bytes} bytes stored with codec {codec}: not known to this version"
        )
    return payload
