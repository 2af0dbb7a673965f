"""`Mark`: the end of a commit. What stands before it in a segment happened, what stands behind the last one did not.

A commit is appended as a whole, its mark last. So a commit is all or nothing without a second file, and what writers
have completed with it stands in the same place. A segment begins with a mark that has the last batch of each writer and
all epochs; the first commit of each epoch has these, too.

On disk a mark is the payload of an entry: msgpack, `[synced_bytes, [[query, batch, first, next], ...], writes_before,
[[epoch, first], ...]]`.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from hub.errors import JournalCorruptError
from hub.journal.epoch import Epoch

__all__ = ["Mark", "Write"]


class Write(NamedTuple):
    """The last batch that a writer has committed."""

    query: str
    """Behind the name of its user and a slash, if he had one."""
    batch: int
    first: int
    next: int


class Mark(NamedTuple):
    """What a commit says at its end."""

    synced_bytes: int
    """How much of the segment was known to be on the disk when the commit was written. What is damaged before it was
    damaged later; what is damaged behind it may never have been written."""
    writes: tuple[Write, ...] = ()
    writes_before: int = 0
    """How many `writes` the marks before it in the segment have, so that one that is lost is missed."""
    epochs: tuple[Epoch, ...] = ()
    """All epochs of the journal, the last of which it is in; none where they are as the mark before says."""

    def encode(self) -> bytes:
        """Return it as bytes."""
        return _ENCODER.encode(self)

    @classmethod
    def parse(cls, data: bytes | memoryview) -> Mark:
        """Read it.

        Raises:
            JournalCorruptError: It is none.
        """
        try:
            mark: Mark = _DECODER.decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise JournalCorruptError(f"a mark that cannot be: {error}") from error
        return mark


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Mark)
