"""From frames to blocks, and from blocks to others: `pack`, `select`, `merge`; and what is asked of all of a block.

```
parts   (time, [/a][/a][/b]...)  ── pack ──▶  block block block        dense, consecutive
                                              │  select ──▶  block      fewer records
                                              └─ merge  ──▶  block      all of them
```

The loops of the journal: each is paid for every message. What a frame says of itself is not believed: a BATCH body is
walked over value by value before it is cut.

Cost, for a value of 100 bytes under one topic or a few, compiled and pure, the checksum (17 ns) with it:

```
pack a single frame, or of a BATCH       25 ns   1.6 µs, 0.8 µs     a map of 100 bytes in a BATCH 45 ns
pack, each value of another topic       120 ns   1.9 µs
select, for each record that is chosen   20 ns   0.7 µs             each that is passed over 4 ns, 0.2 µs
merge                                    20 ns   0.7 µs
count_topics                              1 ns   0.04 µs
whole_checksum, of a block              600 ns   what crc32 takes: 20 ns a record
```

A block of one record takes 1.4 µs. More than a MiB at once costs what new memory costs besides.

`hub/journal/_packing.pyx` is the compiled twin of this module, of `hub.journal.unpacking` and of `read_layout`;
`hub.journal.block` chooses. Not here: what a block looks like (`hub.journal.layout`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from zlib import crc32

from hub.batch import value_ends
from hub.frame import (
    BATCH_COUNT,
    BATCH_LIMIT_MESSAGES,
    FLAG_BATCH,
    FLAG_TAGGED,
    HEADER,
    HEADER_BYTES,
    KIND_MESSAGES,
    Encoding,
    Frame,
)
from hub.journal.layout import (
    CHECKED_FROM,
    OFFSET_LIMIT,
    RECORDS_LIMIT,
    SECTION_LIMIT_BYTES,
    SPARSE,
    Columns,
    Layout,
    Records,
    columns_of,
    read_layout,
    write_block,
)
from hub.journal.values import skip_value

__all__ = [
    "BLOCK_BYTES",
    "BLOCK_BYTES_LIMIT",
    "BLOCK_RECORDS",
    "count_topics",
    "merge",
    "pack",
    "read_layout",
    "select",
    "whole_checksum",
]

BLOCK_RECORDS = 8_192
"""Records after which a block is cut, if the caller says nothing else: a reader who wants one reads all of it."""

BLOCK_BYTES = 2**20
"""Bytes of values, or of topics, after which a block is cut, if the caller says nothing else."""

_TOPIC_LENGTH_BYTES = 2

BLOCK_BYTES_LIMIT = 2**30
"""The largest value, and the most that a caller may allow for a block: both together fit in one section."""


def pack(
    parts: list[tuple[int, bytes]], first: int, limit_records: int = BLOCK_RECORDS, limit_bytes: int = BLOCK_BYTES
) -> list[bytes]:
    """Make blocks of frames.

    Of a TAGGED frame the topic is kept; its labels and names are not.

    A BATCH frame that cannot be cut (its body is not the values it says, or of another encoding than msgpack) takes
    as many records as it says: the first has what stands behind the count, the others are empty.

    Args:
        parts: When the hub took them, µs since 1970 UTC, and whole MESSAGES frames back to back.
        first: Offset of the first message.
        limit_records: A block is cut when it has so many, 1 to 65,536.
        limit_bytes: A block is cut when its values, or the text of its topics, reach so many, 1 to 2^30.

    Returns:
        Dense blocks, one behind the other.

    Raises:
        ValueError: A limit or `first` is out of range, or the bytes are no whole MESSAGES frames with topics in UTF-8
            and possible counts.
    """
    if not 0 < limit_records <= RECORDS_LIMIT or not 0 < limit_bytes <= BLOCK_BYTES_LIMIT:
        raise ValueError(f"blocks of {limit_records} records and {limit_bytes} bytes are not within the limits")
    if not 0 <= first < OFFSET_LIMIT:
        raise ValueError(f"the offset {first} is not within the limits")
    blocks = []
    draft = _Draft(first)
    for time_us, frames in parts:
        for frame in _whole_frames(frames):
            for value in _values_of(frame):
                draft.add(time_us, frame, value)
                if len(draft.times) == limit_records or max(draft.value_bytes, draft.topic_bytes) >= limit_bytes:
                    blocks.append(draft.block())
                    first += len(draft.times)
                    draft = _Draft(first)
    if draft.times:
        blocks.append(draft.block())
    return blocks


class _Draft:
    """A dense block, to which records are appended."""

    def __init__(self, first: int) -> None:
        # Times of the records so far; there are as many as records.
        self.times: list[int] = []
        # Length of all values so far, bytes; with `topic_bytes` it decides when the block is full.
        self.value_bytes = 0
        # Length of the text of all different topics so far, bytes.
        self.topic_bytes = 0
        self._first = first
        # Topic → its number in the dictionary of the block.
        self._numbers: dict[bytes, int] = {}
        # The other columns of the block, of as many records as there are times.
        self._topic_nos: list[int] = []
        self._encodings = bytearray()
        self._values: list[bytes] = []

    def add(self, time_us: int, frame: Frame, value: bytes) -> None:
        """Append a record.

        Raises:
            UnicodeDecodeError: The topic is new and not UTF-8.
        """
        number = self._numbers.get(frame.key)
        if number is None:
            frame.key.decode()
            number = self._numbers[frame.key] = len(self._numbers)
            self.topic_bytes += len(frame.key)
        self.times.append(time_us)
        self._topic_nos.append(number)
        self._encodings.append(frame.encoding)
        self._values.append(value)
        self.value_bytes += len(value)

    def block(self) -> bytes:
        """Return the block of the records that were appended."""
        offsets = range(self._first, self._first + len(self.times))
        return write_block(
            Records(self.times, offsets, self._topic_nos, self._encodings, list(self._numbers), self._values)
        )


def _whole_frames(frames: bytes) -> Iterator[Frame]:
    """Take frames apart, as `iterate_frames` does, but believe nothing that they say.

    Raises:
        ValueError: Bytes are left that are no whole MESSAGES frame, or a value is too large.
    """
    position = 0
    while position < len(frames):
        if len(frames) - position < HEADER_BYTES:
            raise ValueError("a frame is cut off")
        body_length, kind, flags, key_length = HEADER.unpack_from(frames, position)
        key_start = position + HEADER_BYTES
        body_start = key_start + key_length
        position = body_start + body_length
        if position > len(frames):
            raise ValueError("a frame is cut off")
        if kind != KIND_MESSAGES or body_length > BLOCK_BYTES_LIMIT:
            raise ValueError(f"a frame of kind {kind} and {body_length} bytes has no place in the journal")
        frame = Frame(kind, flags, frames[key_start:body_start], frames[body_start:position])
        yield _untagged(frame) if flags & FLAG_TAGGED else frame


def _untagged(frame: Frame) -> Frame:
    """Return a frame without labels and names: the journal keeps topics.

    Raises:
        ValueError: The key is shorter than it says that its topic is.
    """
    key = frame.key
    size = int.from_bytes(key[:_TOPIC_LENGTH_BYTES], "big")
    if len(key) < _TOPIC_LENGTH_BYTES + size:
        raise ValueError(f"a tagged key of {len(key)} bytes is shorter than its topic")
    return frame._replace(key=frame.topic, flags=frame.flags & ~FLAG_TAGGED)


def _values_of(frame: Frame) -> Iterator[bytes]:
    """Yield as many values as the frame says it holds.

    Raises:
        ValueError: It says an impossible number.
    """
    body = frame.body
    if not frame.flags & FLAG_BATCH:
        yield body
        return
    if len(body) < BATCH_COUNT.size or not 0 < frame.messages <= BATCH_LIMIT_MESSAGES:
        raise ValueError(f"a BATCH of {len(body)} bytes holds an impossible number of values")
    start = BATCH_COUNT.size
    for end in _ends_of(frame):
        yield body[start:end]
        start = end


def _ends_of(frame: Frame) -> Sequence[int]:
    """Return where the values of a BATCH frame end; if they cannot be told apart, the first is all of them."""
    ends = value_ends(frame)
    if ends is None and frame.encoding == Encoding.MSGPACK:
        ends = _walk_values(frame)  # nested deeper than msgpack's own unpacker follows
    return [len(frame.body)] * frame.messages if ends is None else ends


def _walk_values(frame: Frame) -> list[int] | None:
    end = BATCH_COUNT.size
    ends = []
    for _ in range(frame.messages):
        end = skip_value(frame.body, end, len(frame.body))
        ends.append(end)
        if end < 0:
            return None
    return ends if end == len(frame.body) else None


def select(block: bytes, start: int, end: int, wanted: bytes | None) -> bytes:
    """Choose records of a block.

    Args:
        block: Dense or sparse.
        start: Offset of the first record that may be chosen.
        end: Offset behind the last one.
        wanted: One byte for each entry of the topic dictionary, 0 if it is not wanted. None: all are.

    Returns:
        A block of the chosen records, dense if their offsets have no gaps, with the topics they have. `block` itself
        if all are chosen; empty bytes if none.

    Raises:
        ValueError: The block is damaged.
        IndexError: `wanted` is not as long as the dictionary.
    """
    layout = read_layout(block)
    columns = columns_of(memoryview(block), layout)
    if wanted is not None and len(wanted) != layout.topics:
        raise IndexError(f"{len(wanted)} topics wanted or not, the block has {layout.topics}")
    within = range(bisect_left(columns.offsets, start), bisect_left(columns.offsets, end))
    chosen = within if wanted is None else [index for index in within if wanted[columns.topic_nos[index]]]
    if len(chosen) == layout.records:
        return block
    return _gather(columns, chosen) if chosen else b""


def _gather(columns: Columns, chosen: Sequence[int]) -> bytes:
    """Make a block of some records of another."""
    used = sorted({columns.topic_nos[index] for index in chosen})
    numbers = {old: new for new, old in enumerate(used)}
    return write_block(
        Records(
            [columns.times[index] for index in chosen],
            [columns.offsets[index] for index in chosen],
            [numbers[columns.topic_nos[index]] for index in chosen],
            [columns.encodings[index] for index in chosen],
            [columns.topic(number) for number in used],
            [columns.value(index) for index in chosen],
        )
    )


def merge(blocks: list[bytes]) -> bytes:
    """Make one block of several.

    Args:
        blocks: Dense, each goes on where the one before it ends.

    Raises:
        ValueError: One is damaged, they do not follow one another, or they are too much for one block.
    """
    layouts = [read_layout(block) for block in blocks]
    _check_consecutive(layouts)
    if len(blocks) == 1:
        return blocks[0]
    columns = [columns_of(memoryview(block), layout) for block, layout in zip(blocks, layouts, strict=True)]
    numbers: dict[bytes, int] = {}
    tables = [
        [numbers.setdefault(some.topic(number), len(numbers)) for number in range(layout.topics)]
        for some, layout in zip(columns, layouts, strict=True)
    ]
    first = layouts[0].first
    return write_block(
        Records(
            [time for some in columns for time in some.times],
            range(first, first + sum(layout.records for layout in layouts)),
            [table[number] for some, table in zip(columns, tables, strict=True) for number in some.topic_nos],
            [encoding for some in columns for encoding in some.encodings],
            list(numbers),
            [some.value(index) for some in columns for index in range(len(some.times))],
        )
    )


def _check_consecutive(layouts: Sequence[Layout]) -> None:
    """Check that blocks can be merged.

    Raises:
        ValueError: They cannot.
    """
    if not layouts:
        raise ValueError("nothing to merge")
    if any(layout.flags & SPARSE for layout in layouts):
        raise ValueError("a sparse block is not merged: its offsets have gaps")
    next_ = layouts[0].first
    for layout in layouts:
        if layout.first != next_:
            raise ValueError(f"a block begins at {layout.first}, the one before it ends at {next_}")
        next_ += layout.records
    if next_ - layouts[0].first > RECORDS_LIMIT:
        raise ValueError(f"{next_ - layouts[0].first} records are too many for one block")
    if max(sum(layout.value_bytes for layout in layouts), sum(layout.topic_bytes for layout in layouts)) > (
        SECTION_LIMIT_BYTES
    ):
        raise ValueError("the values or topics are too many bytes for one block")


def count_topics(block: bytes) -> list[int]:
    """Return how many records each topic of a block has, as the dictionary has them.

    Raises:
        ValueError: The block is damaged.
    """
    layout = read_layout(block)
    counts = Counter(columns_of(memoryview(block), layout).topic_nos)
    return [counts[number] for number in range(layout.topics)]


def whole_checksum(block: bytes) -> int:
    """Return the crc32 of all bytes of a block. Its own checksum must be right; the compiled twin makes this one of it.

    Raises:
        ValueError: The bytes are too few for a block.
    """
    if len(block) < CHECKED_FROM:
        raise ValueError(f"{len(block)} bytes are shorter than a header")
    return crc32(block)
