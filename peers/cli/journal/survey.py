"""Finds out what of a journal is sound, block by block, behind damage too.

```
look ─ a row of `blocks` ─┬─ its checksum, and that it follows the one before ─▶ Stretch(first, next, flaw)
 │                        └─ its block: there, its checksum, and what the row says of it
 └ one state of the file, `_ROWS` rows; the next look goes on where it ended
```

A hub that reads stops at the first damage; this goes on: a row that cannot be read is passed over, and where SQLite
itself cannot go on (a damaged page of the index) what stands behind it is sought from the end.

A hub may write meanwhile. What it has merged between two looks is read again, what it has deleted is no damage, and
what comes later than the survey began is left out. No state of the file is held for longer than a look, so that the
write-ahead log does not grow.

Cost: reading, and a checksum: about 1 GiB/s from memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import zip_longest
from typing import NamedTuple

import apsw

from hub.errors import JournalCorruptError
from hub.journal.listing import listed_texts
from hub.journal.wanted import Wanted
from peers.journal.checked import block_row, expected_block
from peers.journal.damage import UNREADABLE, following_row
from peers.journal.schema import BlockRow, plain

__all__ = ["Stretch", "stray_blocks", "survey"]

_ROWS = 64
"""How many blocks one look takes in, 64 MiB as a rule."""

_STRAYS_LIMIT = 1_000
"""Most blocks without a row that are told; one is enough to know that the index has suffered."""


class Stretch(NamedTuple):
    """A range of offsets, and whether its records can be read."""

    first: int
    next: int | None
    """The offset behind the last; None where nobody knows."""
    flaw: str
    """What is wrong with the range; empty if it is sound."""


def survey(connection: apsw.Connection) -> Iterator[Stretch]:
    """Yield what each block of a journal is, in order, and what is missing between them.

    Raises:
        apsw.Error: It cannot be read now, for another reason than damage.
    """
    survey = _Survey(connection)
    while not survey.is_done:
        connection.execute("BEGIN")
        try:
            found = list(survey.look())
        finally:
            with suppress(apsw.Error):
                connection.execute("COMMIT")
        yield from found


class _Survey:
    """The state of a survey: where it stands, and whether it is done."""

    def __init__(self, connection: apsw.Connection) -> None:
        # True once everything was looked at that was there when the survey began.
        self.is_done = False
        self._connection = connection
        # Where the newest block begins that was there when the survey began; None if that cannot be read.
        self._newest = self._edge("SELECT max(first) FROM blocks NOT INDEXED")
        # The offset that must come next.
        self._position = 0
        # Where the block before it begins; -1 before the first.
        self._seen = -1

    def _edge(self, query: str) -> int | None:
        try:
            found: int | None = self._connection.execute(query).get
        except UNREADABLE:
            return None
        return found

    def look(self) -> Iterator[Stretch]:
        """Yield what the next blocks are."""
        oldest = self._edge("SELECT min(first) FROM blocks NOT INDEXED")
        self._position = max(self._position, oldest or 0)  # what was before it is deleted
        firsts, trouble = self._firsts()
        for first, following in zip_longest(firsts, firsts[1:]):
            if following is None and len(firsts) > _ROWS and not trouble:
                return  # it only tells where the one before it ends
            if self._newest is not None and first > self._newest:
                break
            yield from self._at(first, following)
        else:
            if trouble:
                yield self._pass_over(trouble)
                return
        self.is_done = True

    def _firsts(self) -> tuple[list[int], str]:
        """Return where the next blocks begin, one that has been seen before them, and why there are not more."""
        execute = self._connection.execute
        firsts: list[int] = []
        try:
            start = execute("SELECT max(first) FROM blocks NOT INDEXED WHERE first <= ?", (self._position,)).get
            from_here = (self._position if start is None else start, _ROWS + 1)
            for (first,) in execute(
                "SELECT first FROM blocks NOT INDEXED WHERE first >= ? ORDER BY 1 LIMIT ?", from_here
            ):
                firsts.append(first)
        except UNREADABLE as error:
            return firsts, plain(error)
        return firsts, ""

    def _at(self, first: int, following: int | None) -> Iterator[Stretch]:
        """Yield what one block is, and what is missing before it."""
        row, position = self._row(first), self._position
        is_seen = first <= self._seen
        if is_seen and (row is None or row.next <= position):
            return
        if first > position:
            yield Stretch(position, first, "missing: no block has them")
        elif first < position and not is_seen:  # else it was merged with what has come after it
            yield Stretch(first, position, "more than one block has them")
        end = following if row is None else row.next
        yield Stretch(first, end, self._flaw(first, row))
        self._seen = first
        self._position = max(position, first + 1 if end is None else end)

    def _row(self, first: int) -> BlockRow | None:
        """Return the row of a block, None if it is damaged."""
        try:
            rows = self._connection.execute("SELECT * FROM blocks WHERE first = ?", (first,)).fetchall()
            return block_row(rows[0], "") if rows else None
        except (JournalCorruptError, *UNREADABLE):
            return None

    def _flaw(self, first: int, row: BlockRow | None) -> str:
        try:
            found = self._connection.execute("SELECT block FROM data WHERE first = ?", (first,)).get
        except UNREADABLE as error:
            return f"the block cannot be read: {plain(error)}"
        flaw = _flaw_of_block(found, row)
        if row is None:
            return f"its row in the index is damaged; {flaw or 'the block itself is sound'}"
        return flaw

    def _pass_over(self, trouble: str) -> Stretch:
        """Go on where the index can be read again; return what is passed over."""
        resumed = following_row(self._connection, self._position)
        stretch = Stretch(self._position, resumed, f"the index cannot be read: {trouble}")
        self.is_done = resumed is None
        self._position = resumed or self._position
        return stretch


def _flaw_of_block(found: object, row: BlockRow | None) -> str:
    """Return what is wrong with a block, empty if nothing is.

    Args:
        found: What stands in its place, None if nothing does.
        row: What must be true of it.
    """
    try:
        block = expected_block(found, row)
    except JournalCorruptError as error:
        return str(error)
    if row is None:
        return ""
    times = row.earliest_us <= min(block.times) and max(block.times) <= row.latest_us
    listed = all(map(Wanted(listed_texts(row.topics)).holds, block.topics))
    if not times or not listed or len(block.data) != row.size_bytes:
        return "the index says something else of it than what it holds"
    return ""


def stray_blocks(connection: apsw.Connection) -> Iterator[Stretch]:
    """Yield blocks that the index does not know.

    Raises:
        apsw.Error: It cannot be read now, for another reason than damage.
    """
    strays = "SELECT first FROM data WHERE NOT EXISTS (SELECT 1 FROM blocks WHERE blocks.first = data.first) LIMIT ?"
    firsts: list[int] = []
    flaw = ""
    try:
        for (first,) in connection.execute(strays, (_STRAYS_LIMIT,)):
            firsts.append(first)
    except UNREADABLE as error:
        flaw = f"blocks cannot be searched: {plain(error)}"
    for first in firsts:
        yield Stretch(first, None, "a block that the index does not know")
    if flaw:
        yield Stretch(0, None, flaw)
