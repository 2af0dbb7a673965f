"""How blocks are stored: as they are, or compressed with zstd.

```
block ─ Compressor ─▶ (codec, payload) ─ entry of a segment ─▶ decoded ─▶ block
```

Blocks of JSON or msgpack take an eighth or a tenth of their bytes, at 0.7 GB/s; what is random already takes nine
tenths, and is not worth the time: after a block that did not become much smaller the next ones are stored as they are,
and one of them now and then is tried again.

Owner of a `Compressor`: one thread. zstd works without the interpreter's lock. Not here: the checksum of what
is stored (`hub.journal.segment.entry`), and when there is no time for it (`peers.journal.writer`).
"""

from __future__ import annotations

import sys
from enum import IntEnum

from hub.errors import JournalCorruptError, JournalUnavailableError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

__all__ = ["Codec", "Compressor", "decoded"]

_LEVEL = 1
"""As small as with 2 and 3 within 3 %, and quicker by a seventh and a quarter; see docs/performance.md."""

_LEAST_BYTES = 512
"""Shorter blocks are stored as they are: a commit of a message or two, which is written again with others (tidying)."""

_WORTHWHILE = 7 / 8
"""What is not made smaller than this share is stored as it is."""

_PASSED_OVER = 15
"""So many blocks are stored as they are behind one that was not worth compressing."""


class Codec(IntEnum):
    """How the payload of an entry is stored; the number is on the disk."""

    NONE = 0
    ZSTD = 1


class Compressor:
    """Makes blocks smaller as long as that is worthwhile.

    Args:
        is_on: Whether it does anything at all.
    """

    def __init__(self, *, is_on: bool) -> None:
        self._is_on = is_on
        self._zstd = zstd.ZstdCompressor(level=_LEVEL)
        # So many blocks are left to be stored as they are.
        self._passed_over = 0

    def encoded(self, data: bytes, *, in_haste: bool = False) -> tuple[Codec, bytes]:
        """Return how a block is to be stored.

        Args:
            data: The block.
            in_haste: Whether there is no time to compress it.
        """
        if not self._is_on or in_haste or len(data) < _LEAST_BYTES:
            return Codec.NONE, data
        if self._passed_over:
            self._passed_over -= 1
            return Codec.NONE, data
        compressed = self._zstd.compress(data, zstd.ZstdCompressor.FLUSH_FRAME)
        if len(compressed) > _WORTHWHILE * len(data):
            self._passed_over = _PASSED_OVER
            return Codec.NONE, data
        return Codec.ZSTD, compressed


def decoded(payload: bytes, codec: int, raw_bytes: int) -> bytes:
    """Return a block as it was before it was stored.

    Args:
        payload: As it is stored; its checksum was compared.
        codec: How it is stored.
        raw_bytes: How long the block is.

    Raises:
        JournalCorruptError: It is something else.
        JournalUnavailableError: It is stored in a way that this version does not know.
    """
    if codec == Codec.NONE:
        block = payload
    elif codec == Codec.ZSTD:
        block = _decompressed(payload, raw_bytes)
    else:
        raise JournalUnavailableError(f"a block stored with codec {codec}: not known to this version")
    if len(block) != raw_bytes:
        raise JournalCorruptError(f"a block of {len(block)} bytes that should have {raw_bytes}")
    return block


def _decompressed(payload: bytes, raw_bytes: int) -> bytes:
    """Decompress one frame, but no more than that many bytes of it."""
    decompressor = zstd.ZstdDecompressor()
    try:
        block = decompressor.decompress(payload, raw_bytes)
    except zstd.ZstdError as error:
        raise JournalCorruptError(f"a block that was not compressed so: {error}") from error
    if not decompressor.eof or decompressor.unused_data:
        raise JournalCorruptError("a block that goes on behind its end")
    return block
