"""`Recovery`: what of a segment that was not sealed has happened: all up to its last commit.

```
[header][block][block][mark]  [block][mark]  [block][bl          cut off: the last commit did not come to its end
[header][block][?????][mark]  [block][mark]                      damaged before what was on the disk: stays, is told
[header][block][mark]  [????][mark]                              damaged behind it: never written, cut off
        └ known to be on the disk ┘
```

A process that is killed leaves a segment that is cut off; a machine that loses power may leave one where pages at the
end are missing before others that are there. Both are cut off at the last commit before, so that a journal holds all
messages up to some point. What was on the disk once (a later mark says how far) and is damaged now is damage: it stays,
so that nothing behind it is lost, and who reads there is told.

Pure. Owner: whoever opens the segment. Cost: one pass over all bytes, 0.1 s for 256 MiB, nearly all of it checksums.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, cast

from hub.errors import JournalCorruptError
from hub.journal.epoch import Epoch
from hub.journal.segment.entry import Head, Kind, padded, payload_of, read_head
from hub.journal.segment.header import HEADER_BYTES
from hub.journal.segment.mark import Mark, Write

__all__ = ["Placed", "Recovered", "recover"]

_MAGIC = b"HJE1"


class Placed(NamedTuple):
    """An entry, and where it stands."""

    place: int
    """Bytes from the start of the segment."""
    head: Head


class Recovered(NamedTuple):
    """What a segment holds."""

    size_bytes: int
    """Everything behind it did not happen."""
    blocks: list[Placed]
    next: int
    """The offset behind the last record."""
    writes: list[Write]
    """What writers have committed, the oldest first; some may come twice."""
    lacks_writes: bool
    """Whether some of that is damaged."""
    marks: list[int]
    """Where its marks stand, bytes from the start of the segment."""
    epochs: tuple[Epoch, ...] = ()
    """The epochs of the journal, as the last mark says that tells them; none where those are damaged."""


class _Commit(NamedTuple):
    """A commit, as it is found."""

    blocks: list[Placed]
    mark: Mark | None
    head: Head
    end: int
    is_sound: bool
    start: int


def recover(data: bytes | memoryview, first: int, before: Sequence[Write] | None = None) -> Recovered:
    """Find out what of a segment has happened.

    Args:
        data: All of its bytes.
        first: The offset of its first record, as its header says.
        before: What writers had committed when it was begun, as the segment before it says: for one whose first mark,
            which says the same, is damaged. None if nobody knows.

    Raises:
        JournalCorruptError: A mark whose checksum is right is none.
    """
    commits = list(_commits(memoryview(data)))
    synced_bytes = max((one.mark.synced_bytes for one in commits if one.mark is not None), default=0)
    blocks: list[Placed] = []
    has_start = bool(commits) and commits[0].is_sound and commits[0].mark is not None
    writes: list[Write] = list(before or ()) if not has_start else []
    lacks_writes = not has_start and before is None
    marks: list[int] = []
    epochs: tuple[Epoch, ...] = ()
    end, following = HEADER_BYTES, first
    for commit in commits:
        if commit.mark is None or (not commit.is_sound and commit.start >= synced_bytes):
            break  # a footer, or what was never written to its end
        blocks += commit.blocks
        end, following = commit.end, commit.head.next
        lacks_writes |= commit.mark.writes_before != len(writes)
        writes += commit.mark.writes
        epochs = commit.mark.epochs or epochs
        marks.append(commit.end - commit.head.size_bytes)
    return Recovered(end, blocks, following, writes, lacks_writes, marks, epochs)


def _commits(view: memoryview) -> Iterator[_Commit]:
    """Yield what ends with a mark or a footer, sound or not."""
    place = start = HEADER_BYTES
    blocks: list[Placed] = []
    is_sound = True
    while place < len(view):
        head = _head_at(view, place)
        if head is None:
            is_sound = False
            place = _next_entry(view, place)
            continue
        payload = _payload_at(view, place, head)
        is_sound &= payload is not None
        if head.kind is Kind.BLOCK:
            blocks.append(Placed(place, head))
        elif payload is not None:
            yield _Commit(blocks, _mark(head, payload), head, place + head.size_bytes, is_sound, start)
            blocks, is_sound, start = [], True, place + head.size_bytes
        place += head.size_bytes


def _head_at(view: memoryview, place: int) -> Head | None:
    """Return the head that stands there; None if none does whose entry goes to its end."""
    try:
        head = read_head(view, place)
    except JournalCorruptError:
        return None
    return head if place + head.size_bytes <= len(view) else None


def _payload_at(view: memoryview, place: int, head: Head) -> bytes | memoryview | None:
    """Return what an entry holds; None if that is damaged."""
    try:
        return payload_of(head, view[place + head.payload_from :])
    except JournalCorruptError:
        return None


def _next_entry(view: memoryview, place: int) -> int:
    """Return where the next sound head stands, the end if there is none."""
    find: Callable[[bytes, int], int] = cast("Any", view.obj).find  # bytes have it, and mapped files
    while True:
        place = find(_MAGIC, place + 1)
        if place < 0:
            return len(view)
        if place == padded(place):
            try:
                read_head(view, place)
            except JournalCorruptError:
                continue
            return place


def _mark(head: Head, payload: bytes | memoryview) -> Mark | None:
    return Mark.parse(payload) if head.kind is Kind.MARK else None
