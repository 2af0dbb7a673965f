"""Segments for tests, made of records whose content tells their place."""

from __future__ import annotations

from collections.abc import Sequence

from hub.journal.block import Block, pack
from hub.journal.segment import Head, Header, Kind, Mark, Write, encode_entry
from hub.journal.selection import listing
from hub.messages.batch import Batch

ID = bytes(range(16))
START = [Write("start", 0, 0, 0)]  # What writers had committed when a segment was begun


def block_entry(first: int, count: int) -> bytes:
    frames = b"".join(Batch.of(f"/t/{number % 3}", [number]).frames for number in range(first, first + count))
    (data,) = pack([(1_000_000 + first, frames)], first)
    block = Block.parse(data)
    head = Head(
        Kind.BLOCK, 0, count, 0, len(data), 0, first, block.next, block.times[0], block.times[-1], listing(block.topics)
    )
    return encode_entry(head, data)


def mark_entry(following: int, synced_bytes: int = 0, writes: Sequence[Write] = (), before: int = 0) -> bytes:
    payload = Mark(synced_bytes, tuple(writes), before).encode()
    return encode_entry(Head(Kind.MARK, 0, 0, 0, len(payload), 0, following, following, 0, 0, b""), payload)


def segment(*commits: Sequence[int], first: int = 0, synced: Sequence[int] = ()) -> tuple[bytes, list[int]]:
    """A segment of commits, each of blocks with so many records; and where each commit ends.

    Args:
        commits: Records of each block of each commit.
        first: Offset of the first record.
        synced: How many bytes each mark says are on the disk; 0 where nothing is said.
    """
    data = Header(ID, first, 5).encode() + mark_entry(first, 0, START)
    ends = [len(data)]
    following = first
    for number, counts in enumerate(commits):
        for count in counts:
            data += block_entry(following, count)
            following += count
        data += mark_entry(
            following, synced[number] if number < len(synced) else 0, [Write("q", number, 0, following)], 1 + number
        )
        ends.append(len(data))
    return data, ends
