"""Journals as the first version wrote them."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path
from struct import Struct

import apsw

from hub.journal.block import Block, pack
from hub.journal.segment.mark import Write
from tests.journal.files import AT_US, numbered

ID = bytes(range(16))

SCHEMA = """
CREATE TABLE meta(name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE blocks(
    first INTEGER PRIMARY KEY, next INTEGER NOT NULL, earliest_us INTEGER NOT NULL, latest_us INTEGER NOT NULL,
    bytes INTEGER NOT NULL, topics BLOB NOT NULL, crc INTEGER NOT NULL
);
CREATE INDEX blocks_by_time ON blocks(latest_us, first, bytes);
CREATE TABLE data(first INTEGER PRIMARY KEY, block BLOB NOT NULL);
CREATE TABLE writes(
    query TEXT PRIMARY KEY, batch INTEGER NOT NULL, first INTEGER NOT NULL, next INTEGER NOT NULL, crc INTEGER NOT NULL
) WITHOUT ROWID;
"""


def earlier(path: Path, *counts: int, first: int = 0, writes: Sequence[Write] = ()) -> Path:
    """Make one: blocks of so many numbered records, a second apart, and what writers have committed."""
    connection = apsw.Connection(str(path))
    connection.pragma("journal_mode", "WAL")
    connection.execute(SCHEMA)
    connection.pragma("application_id", 0x4855424A)
    connection.pragma("user_version", 1)
    connection.execute("INSERT INTO meta VALUES ('id', ?)", (ID + zlib.crc32(ID).to_bytes(4, "little"),))
    for count in counts:
        at_us = AT_US + first * 1_000_000
        (data,) = pack([(at_us, numbered(range(first, first + count)))], first)
        block = Block.parse(data)
        row = (block.first, block.next, at_us, at_us, len(data), "\n".join(sorted(block.topics)).encode())
        crc = zlib.crc32(row[5], zlib.crc32(Struct("<5q").pack(*row[:5])))
        connection.execute("INSERT INTO blocks VALUES (?, ?, ?, ?, ?, ?, ?)", (*row, crc))
        connection.execute("INSERT INTO data VALUES (?, ?)", (block.first, data))
        first += count
    for write in writes:
        crc = zlib.crc32(write.query.encode(), zlib.crc32(Struct("<3q").pack(*write[1:])))
        connection.execute("INSERT INTO writes VALUES (?, ?, ?, ?, ?)", (*write, crc))
    connection.close()
    return path


def change(path: Path, statement: str) -> None:
    """Do to it what no hub did."""
    connection = apsw.Connection(str(path))
    connection.execute(statement)
    connection.close()
