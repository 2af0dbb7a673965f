"""`Damage`: offsets that cannot be read, and why; and how to find out which they are, and what stands around them.

```
rows:   0      8192  (16384) 24576        damage_at(16384) ─▶ offsets 16384 to 24575: their row in the index is damaged
blocks: 0     (8192)  16384  24576        damage_at(9000)  ─▶ offsets 9000 to 16383: the block is damaged: ...
```

How far a damaged journal reaches is told by whatever is sound at its ends: a row's own columns, or a block; where
neither is, but both tables have something at one place, there is one record at least. One that is damaged is not
believed, so that an extent never holds what has not been there; where it ends too soon, what is there is damaged.

Invariant: nothing here raises because of damage. Owner: whoever has the connection; all of one call should be one state
of the file. Cost: a few look-ups; four blocks are read at most.

Not here: all damage there is (`peers.cli.journal.survey`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Literal, NamedTuple

import apsw

from hub.errors import JournalCorruptError
from peers.journal.checked import block_row, expected_block, offsets_text
from peers.journal.schema import BlockRow, plain

__all__ = ["UNREADABLE", "Damage", "damage_at", "flaw_of_row", "following_row", "sound_extent"]

UNREADABLE = (apsw.CorruptError, apsw.IOError, UnicodeDecodeError)
"""What comes of a damaged page, a sector that the disk does not give back, and a text where there should be none."""

_ROWS = 100
"""How many rows are looked at from an end of the index to find one that is sound."""

_BLOCKS = 2
"""How many blocks are looked at likewise, each of a mebibyte."""

_Direction = Literal["ASC", "DESC"]


class Damage(NamedTuple):
    """A range of offsets that cannot be read, and why."""

    first: int
    next: int | None
    """The offset behind the last of them; None if nobody knows it."""
    cause: str

    def __str__(self) -> str:
        return f"{offsets_text(self.first, self.next)}: {self.cause}"


def damage_at(connection: apsw.Connection, position: int) -> Damage | None:
    """Return what is wrong where `position` should be, and how far; None if it can be read.

    Raises:
        apsw.Error: It cannot be read now, for another reason than damage.
    """
    cause = "no row of the index has them"
    try:
        found = connection.execute(
            "SELECT * FROM blocks NOT INDEXED WHERE first <= ? ORDER BY first DESC LIMIT 1", (position,)
        ).fetchall()
        row = block_row(found[0], "") if found else None
        if row is not None and position < row.next:
            flaw = flaw_of_row(connection, row)
            return Damage(position, row.next, flaw) if flaw else None
    except JournalCorruptError:
        cause = "their row in the index is damaged"
    except UNREADABLE as error:
        cause = f"the index cannot be read: {plain(error)}"
    following = following_row(connection, position)
    if following is None:
        ends = [end for _, end in _sound(connection, "DESC") if end > position]
        following = max(ends, default=None)
    return Damage(position, following, cause)


def flaw_of_row(connection: apsw.Connection, row: BlockRow) -> str:
    """Return what is wrong with the block of a row, empty if nothing is."""
    try:
        found = connection.execute("SELECT block FROM data WHERE first = ?", (row.first,)).get
        expected_block(found, row)
    except JournalCorruptError as error:
        return str(error)
    except UNREADABLE as error:
        return f"the block cannot be read: {plain(error)}"
    return ""


def following_row(connection: apsw.Connection, position: int) -> int | None:
    """Return where the next row behind `position` stands, None if there is none; also behind a damaged page."""
    following: int | None = None
    try:
        following = connection.execute("SELECT min(first) FROM blocks NOT INDEXED WHERE first > ?", (position,)).get
    except UNREADABLE:
        with suppress(*UNREADABLE):  # from the end, as far as that goes
            for (first,) in connection.execute(
                "SELECT first FROM blocks NOT INDEXED WHERE first > ? ORDER BY first DESC", (position,)
            ):
                following = first
    return following


def sound_extent(connection: apsw.Connection) -> tuple[int, int] | None:
    """Return the oldest offset of a damaged journal, and the one behind the newest; None if nothing tells them.

    Raises:
        apsw.Error: It cannot be read now, for another reason than damage.
    """
    directions: tuple[_Direction, _Direction] = ("ASC", "DESC")
    known = [reach for direction in directions for reach in _known(connection, direction)]
    if not known:
        return None
    return min(first for first, _ in known), max(following for _, following in known)


def _known(connection: apsw.Connection, direction: _Direction) -> Iterator[tuple[int, int]]:
    """Yield offsets that are there, near one end: where they begin, and the one behind."""
    edge = _edge(connection, "blocks", direction)
    if edge is not None and edge == _edge(connection, "data", direction):
        yield edge, edge + 1
    yield from _sound(connection, direction)


def _sound(connection: apsw.Connection, direction: _Direction) -> Iterator[tuple[int, int]]:
    """Yield the same of what is sound: a row, and a block unless they agree."""
    row = _sound_row(connection, direction)
    if row is not None:
        yield row.first, row.next
    if row is None or row.first != _edge(connection, "data", direction):
        yield from _sound_block(connection, direction)


def _edge(connection: apsw.Connection, table: str, direction: _Direction) -> int | None:
    """Return the offset of the first row, or of the last."""
    found: int | None = None
    with suppress(*UNREADABLE):
        statement = f"SELECT first FROM {table} NOT INDEXED ORDER BY first {direction} LIMIT 1"  # noqa: S608 -- ours
        found = connection.execute(statement).get
    return found


def _sound_row(connection: apsw.Connection, direction: _Direction) -> BlockRow | None:
    statement = f"SELECT * FROM blocks NOT INDEXED ORDER BY first {direction} LIMIT {_ROWS}"  # noqa: S608 -- ours
    with suppress(*UNREADABLE):
        for values in connection.execute(statement):
            with suppress(JournalCorruptError):
                return block_row(values, "")
    return None


def _sound_block(connection: apsw.Connection, direction: _Direction) -> Iterator[tuple[int, int]]:
    statement = f"SELECT first, block FROM data ORDER BY first {direction} LIMIT {_BLOCKS}"  # noqa: S608 -- ours
    with suppress(*UNREADABLE):
        for first, found in connection.execute(statement):
            with suppress(JournalCorruptError):
                block = expected_block(found, None)
                if block.first == first:
                    yield block.first, block.next
                    return
