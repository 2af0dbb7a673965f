"""`Commit`: what is to be committed together, as entries of a segment. No file.

Owner: the store. Cost: packing (`hub.journal.packing`), compressing (`peers.journal.segments.codec`), and 10 µs a
block.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Protocol
from zlib import crc32

from hub.journal.block import Block, count_topics, pack, whole_checksum
from hub.journal.epoch import Epoch
from hub.journal.listing import listed_texts, listing
from hub.journal.segment.entry import Head, Kind, encode, parts_of
from hub.journal.segment.footer import TOPICS_LIMIT, Footer, Row
from hub.journal.segment.mark import Mark, Write
from peers.journal.segments.codec import Codec

__all__ = ["BLOCK_BYTES", "BLOCK_RECORDS", "Commit", "Encoder", "footer_of", "mark_entry", "topic_counts"]

BLOCK_RECORDS = 8_192
"""Records of a full block. Reading is quickest with 1,000 to 16,000; see docs/performance.md."""

BLOCK_BYTES = 1024 * 1024
"""Values of a full block, bytes."""

Parts = list[tuple[int, bytes]]
"""When messages came, µs since 1970, and whole MESSAGES frames."""


class Encoder(Protocol):
    """Who says how blocks are stored."""

    def encoded(self, data: bytes, *, in_haste: bool = False) -> tuple[Codec, bytes]:
        """Return how a block is to be stored."""


class Commit:
    """A commit that is being made.

    Args:
        place: Where its first entry will stand in the segment.
        following: The offset that its first record gets.
        encoder: Says how blocks are stored.
    """

    def __init__(self, place: int, following: int, encoder: Encoder) -> None:
        self._encoder = encoder
        self.next = following
        """The offset behind its last record."""
        self.rows: list[Row] = []
        """Its blocks."""
        self.topics: Counter[str] = Counter()
        """How many records each topic has."""
        self.entries: list[bytes] = []
        """What is not in the file yet, in parts."""
        self.entries_bytes = 0
        self.place = place
        """Where the next entry will stand."""

    def add(self, parts: Parts, *, in_haste: bool = False) -> None:
        """Add records.

        Args:
            parts: When they came, µs since 1970, and whole MESSAGES frames.
            in_haste: Whether there is no time to compress them.

        Raises:
            ValueError: They are no such frames; some may have been added.
        """
        in_order = all(one[0] <= following[0] for one, following in pairwise(parts))
        for piece in _pieces(parts):
            for block in pack(piece, self.next, BLOCK_RECORDS, BLOCK_BYTES):
                self.add_block(block, in_order=in_order, in_haste=in_haste)

    def add_block(self, data: bytes, *, in_order: bool = False, in_haste: bool = False) -> None:
        """Add a block, which begins where the one before it ends.

        Args:
            data: The block.
            in_order: Whether its times only grow: then the first and the last say it all, and none is looked at.
            in_haste: Whether there is no time to compress it.

        Raises:
            ValueError: It begins elsewhere.
        """
        block = Block.parse(data, verify=False)
        if block.first != self.next:
            raise ValueError(f"a block that begins at {block.first}, the one before it ends at {self.next}")
        times = block.times
        earliest, latest = (times[0], times[-1]) if in_order else (min(times), max(times))
        listed = listing(block.topics)
        codec, payload = self._encoder.encoded(data, in_haste=in_haste)
        head = Head(Kind.BLOCK, codec, block.count, 0, len(data), 0, block.first, block.next, earliest, latest, listed)
        crc = whole_checksum(data) if codec == Codec.NONE else crc32(payload)
        entry = parts_of(head, payload, crc)
        size_bytes = sum(map(len, entry))
        self.rows.append(Row(self.place, size_bytes, len(data), block.first, block.next, earliest, latest, listed))
        self.topics.update(topic_counts(block))
        self.next = block.next
        self._put(entry, size_bytes)

    def end(self, mark: Mark) -> None:
        """Add the mark: with it, all of this has happened."""
        entry = mark_entry(mark, self.next)
        self._put([entry], len(entry))

    def _put(self, parts: list[bytes], size_bytes: int) -> None:
        self.entries += parts
        self.entries_bytes += size_bytes
        self.place += size_bytes

    def take(self) -> list[bytes]:
        """Return what is not in the file yet, to be written there."""
        entries, self.entries, self.entries_bytes = self.entries, [], 0
        return entries


def topic_counts(block: Block) -> dict[str, int]:
    """Return how many records of a block each topic has."""
    return dict(zip(block.topics, count_topics(bytes(block.data)), strict=True))


def footer_of(
    rows: list[Row],
    topics: Counter[str],
    writes: list[Write],
    epochs: tuple[Epoch, ...] = (),
    topics_limit: int = TOPICS_LIMIT,
) -> Footer:
    """Return the footer of a segment.

    Args:
        rows: Its blocks.
        topics: How many records each topic has.
        writes: The last batch of each writer.
        epochs: Those of the journal.
        topics_limit: Of more topics it says what they begin with.
    """
    is_whole = len(topics) <= topics_limit
    return Footer(rows, sorted((topics if is_whole else _in_short(topics)).items()), is_whole, writes, epochs)


def _in_short(topics: Counter[str]) -> Counter[str]:
    """Return what too many topics begin with, and how many records each of these has."""
    texts = listed_texts(listing(topics))
    counts: Counter[str] = Counter()
    for topic, count in topics.items():
        counts[next(text for text in texts if topic.startswith(text))] += count
    return counts


def mark_entry(mark: Mark, following: int) -> bytes:
    """Return a mark as an entry of a segment.

    Args:
        mark: What it says.
        following: The offset behind the last record before it.
    """
    payload = mark.encode()
    return encode(Head(Kind.MARK, 0, 0, 0, len(payload), 0, following, following, 0, 0, b""), payload)


def _pieces(parts: Parts) -> Iterator[Parts]:
    """Yield about a block's worth at a time: packing several at once is half as quick, for lack of cache."""
    piece: Parts = []
    size = 0
    for part in parts:
        piece.append(part)
        size += len(part[1])
        if size >= BLOCK_BYTES:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece
