"""What is read from the file of a journal, checked: rows and blocks are what was written, or there is an error.

```
blocks: first, next, ... crc ──▶ BlockRow      data: block, with its own checksum ──▶ Block, of the row that names it
writes: query, batch, ... crc ──▶ Write
```

A damaged database may hold anything anywhere: also values of another type, and text that is no UTF-8. Each error names
the place. Not here: what follows what (`peers.journal.view`).
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import error as StructError  # noqa: N812 -- a class
from typing import Any

import apsw

from hub.errors import JournalCorruptError
from hub.journal.block import Block
from peers.journal.schema import BlockRow, Write

__all__ = ["block_row", "edge_rows", "expected_block", "offsets_text", "stored_block", "stored_writes"]


def block_row(values: Sequence[Any], path: str) -> BlockRow:
    """Return a row of `blocks`.

    Raises:
        JournalCorruptError: It is damaged.
    """
    row = BlockRow(*values)
    try:
        is_sound = row.crc == row.expected_crc and 0 <= row.first < row.next
    except (StructError, TypeError):  # not even numbers
        is_sound = False
    if not is_sound:
        raise JournalCorruptError(f"{path}: the index is damaged at offset {row.first}; see `hub journal verify`")
    return row


def edge_rows(connection: apsw.Connection, path: str) -> tuple[BlockRow, BlockRow] | None:
    """Return the rows of the oldest and of the newest block, None if there are none.

    Raises:
        JournalCorruptError: One is damaged, or its block is not there, or there is one beyond it.
    """
    found = connection.execute(
        "SELECT * FROM blocks WHERE first IN (SELECT min(first) FROM blocks UNION ALL SELECT max(first) FROM blocks)"
        " ORDER BY first"
    ).fetchall()
    edges = connection.execute("SELECT (SELECT min(first) FROM data), (SELECT max(first) FROM data)").get
    if not found and edges == (None, None):
        return None
    if not found or edges != (found[0][0], found[-1][0]):
        raise JournalCorruptError(f"{path}: the index and the blocks do not agree; see `hub journal verify`")
    return block_row(found[0], path), block_row(found[-1], path)


def stored_block(connection: apsw.Connection, row: BlockRow, path: str) -> Block:
    """Return the block of a row.

    Raises:
        JournalCorruptError: It is missing, damaged, or another one.
    """
    found = connection.execute("SELECT block FROM data WHERE first = ?", (row.first,)).get
    try:
        return expected_block(found, row)
    except JournalCorruptError as error:
        text = f"{path}: {offsets_text(row.first, row.next)}: {error}; see `hub journal verify`"
        raise JournalCorruptError(text) from error


def expected_block(found: object, row: BlockRow | None) -> Block:
    """Return what stands in `data` as a block.

    Args:
        found: What stands there, None if nothing does.
        row: Which block it must be, where that is known.

    Raises:
        JournalCorruptError: It is missing, damaged, or another one. The text is the cause, without the place.
    """
    if found is None:
        raise JournalCorruptError("the block is missing")
    try:
        block = Block.parse(found if isinstance(found, bytes) else b"")
    except JournalCorruptError as error:
        # What it says of blocks of any origin would be said twice.
        cause = error.__cause__ or "its checksum does not match"
        raise JournalCorruptError(f"the block is damaged: {cause}") from error
    if row is not None and (block.first, block.next) != (row.first, row.next):
        text = f"another block is there, with {offsets_text(block.first, block.next)}"
        raise JournalCorruptError(text)
    return block


def offsets_text(first: int, following: int | None) -> str:
    """Name a range for people.

    Args:
        first: Its first offset.
        following: The offset behind its last; None if nobody knows it.
    """
    return f"offsets {first} to {'?' if following is None else following - 1}"


def stored_writes(connection: apsw.Connection, path: str) -> list[Write]:
    """Return the last batch of each writer, the one that was committed longest ago first.

    Raises:
        JournalCorruptError: One is damaged.
    """
    writes = []
    for *values, crc in connection.execute("SELECT query, batch, first, next, crc FROM writes ORDER BY next"):
        write = Write(*values)
        try:
            is_sound = write.crc == crc
        except (StructError, TypeError, AttributeError):
            is_sound = False
        if not is_sound:
            text = f"{path}: what writers have committed is damaged; see `hub journal verify`"
            raise JournalCorruptError(text)
        writes.append(write)
    return writes
