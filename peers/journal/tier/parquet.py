"""A file of a tier: the records of a range of offsets as Parquet, stripe after stripe.

```
[stripe: group, group, ...][stripe: ...] ... [tail: Parquet's own footer, with `_Outline`]
```

A *stripe* is a range of offsets whose records are sorted by topic, then by offset: a reader of one topic reads its
groups, and a reader of all topics sorts one stripe at a time. Any tool reads the file. The footer has, as `topichub`,
the stripes and a checksum of each column of each group, behind a checksum of its own; the manifest has a checksum of
the footer: so all reads are verified. A file is made in memory, which limits it. Cost: 0.3 µs a record of 100 bytes,
most of it sorting.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from hashlib import sha256
from itertools import pairwise
from typing import Any
from zlib import crc32

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hub.errors import JournalCorruptError
from hub.journal.block import Block
from hub.journal.layout import Sections, join_sections
from hub.journal.manifest import Entry, Hole
from hub.journal.selection import Selection, counted_in_short

# Values after which a file ends, bytes: it is made in memory. A task of Spark takes about as much.
FILE_BYTES = 128 * 1024 * 1024
_NAME = b"topichub"

# Files whose bytes cost no round trip. Others are fetched ahead by threads of Arrow, which near ones do without: a
# process that ends while such threads still rest was ended by SIGABRT now and then.
_NEAR = (pa.BufferReader, pa.OSFile, pa.MemoryMappedFile)
_CRC_DIGITS = 8  # before the outline
_TAIL_BYTES = 8  # the end of a Parquet file: length of the footer, and a magic word


SCHEMA = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("us", "UTC"), nullable=False),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("value", pa.binary(), nullable=False),
        pa.field("encoding", pa.int8(), nullable=False),
    ]
)

STRIPE_RECORDS = 262_144  # most records of a stripe, but for a last block: with 40 topics, each has thousands in a row
STRIPE_BYTES = 32 * 1024 * 1024  # most bytes of its values: a reader of one record may have to decode all of it, 0.1 s
GROUP_RECORDS = 8_192  # a group ends where the topic changes once it has so many records, or so many bytes of values
GROUP_BYTES = 1024 * 1024
_GROUP_FACTOR = 8  # a group of one topic alone is so many times as large at most
_BLOCK_RECORDS = 8_192  # limits of a block that is made of a table; as the journal itself cuts them
_BLOCK_BYTES = 1024 * 1024


class Stripe:
    """Records of a range of offsets, sorted by topic."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        table = pa.Table.from_batches([_batch(block) for block in blocks], SCHEMA).combine_chunks()
        self.first = blocks[0].first
        self.next = blocks[-1].next
        order, self._ranks = _topic_order(table)
        self.table: pa.Table = table.take(pa.array(order))

    def groups(self) -> list[pa.Table]:
        sizes = np.asarray(_lengths(self.table.column("value")))
        changes = np.flatnonzero(np.diff(self._ranks)) + 1
        cuts = _cuts(sizes, changes)
        return [self.table.slice(start, end - start) for start, end in pairwise(cuts)]


def _batch(block: Block) -> pa.RecordBatch:
    count = block.count
    topics = pa.DictionaryArray.from_arrays(
        _laid(pa.int32(), count, block.topic_nos), pa.array(block.topics, pa.string()), safe=False
    )
    offsets = np.arange(block.first, block.next, dtype=np.int64) if block.offsets is None else block.offsets
    encodings = np.zeros(count, dtype=np.int8) if block.encodings is None else block.encodings
    columns = [
        _laid(pa.int64(), count, offsets),
        _laid(SCHEMA.field("timestamp").type, count, block.times),
        topics.dictionary_decode(),
        pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(block.value_ends), pa.py_buffer(block.values)]),
        _laid(pa.int8(), count, encodings),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _laid(kind: pa.DataType, count: int, memory: Any) -> pa.Array:
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(memory)])


def _topic_order(table: pa.Table) -> tuple[Any, Any]:
    """Return the order of the rows by topic, and the rank of each row's topic."""
    encoded = _whole(table.column("topic")).dictionary_encode()
    topics = encoded.dictionary.to_pylist()
    ranks = np.empty(len(topics), dtype=np.int32)
    ranks[sorted(range(len(topics)), key=topics.__getitem__)] = np.arange(len(topics), dtype=np.int32)
    of_rows = ranks[encoded.indices.to_numpy()]
    order = np.argsort(of_rows, kind="stable")
    return order, of_rows[order]


def _cuts(sizes: Any, changes: Any) -> list[int]:
    """Return where groups begin, and the end."""
    ends = np.cumsum(sizes, dtype=np.int64)
    cuts = [0]
    while cuts[-1] < len(sizes):
        start = cuts[-1]
        before = ends[start - 1] if start else 0
        least = min(start + GROUP_RECORDS, int(np.searchsorted(ends, before + GROUP_BYTES)) + 1)
        most = min(
            start + GROUP_RECORDS * _GROUP_FACTOR,
            int(np.searchsorted(ends, before + GROUP_BYTES * _GROUP_FACTOR)) + 1,
            len(sizes),
        )
        place = int(np.searchsorted(changes, least))
        change = int(changes[place]) if place < len(changes) else len(sizes)
        cuts.append(min(change, most))
    return cuts


def blocks_of(table: pa.Table) -> list[bytes]:
    """Return the rows of a stripe as blocks, in the order of their offsets."""
    offsets = _whole(table.column("offset")).to_numpy()
    table = table.take(pa.array(np.argsort(offsets, kind="stable"))).combine_chunks()
    ends = np.cumsum(_lengths(table.column("value")), dtype=np.int64)
    blocks = []
    start = 0
    while start < len(ends):
        before = ends[start - 1] if start else 0
        fits = int(np.searchsorted(ends, before + _BLOCK_BYTES, side="right"))
        end = min(start + _BLOCK_RECORDS, max(fits, start + 1))
        blocks.append(_block(table.slice(start, end - start)))
        start = end
    return blocks


def _block(table: pa.Table) -> bytes:
    offsets = _whole(table.column("offset")).to_numpy()
    encodings = _whole(table.column("encoding")).to_numpy()
    topics = _whole(table.column("topic")).dictionary_encode()
    names = [topic.encode() for topic in topics.dictionary.to_pylist()]
    value_ends, values = _pieces(table.column("value"))
    count, first = len(offsets), int(offsets[0])
    is_sparse = int(offsets[-1]) - first != count - 1
    sections = Sections(
        _whole(table.column("timestamp")).cast(pa.int64()).to_numpy().tobytes(),
        offsets.tobytes() if is_sparse else b"",
        topics.indices.to_numpy().astype(np.int32).tobytes(),
        (value_ends - value_ends[0]).astype(np.int32).tobytes(),
        np.cumsum([0, *map(len, names)], dtype=np.int32).tobytes(),
        encodings.tobytes() if encodings.any() else b"",
        b"".join(names),
        values,
    )
    return join_sections(first, count, len(names), sections)


def digests(table: pa.Table) -> tuple[int, ...]:
    return tuple(_digest(table.column(name)) for name in table.column_names)


def _topics_of(group: pa.Table) -> tuple[str, str]:
    """Return the first and the last topic of a group. Parquet's statistics have them too: forged ones end Arrow."""
    topics = group.column("topic")
    return topics[0].as_py(), topics[-1].as_py()


def _digest(column: pa.ChunkedArray) -> int:
    if pa.types.is_binary(column.type) or pa.types.is_string(column.type):
        ends, values = _pieces(column)
        return crc32(values, crc32(np.diff(ends).astype(np.int32).tobytes()))
    numbers = _whole(column)
    width = numbers.type.bit_width // 8
    start = numbers.offset * width
    return crc32(memoryview(numbers.buffers()[1])[start : start + len(numbers) * width])


def _whole(column: pa.ChunkedArray) -> pa.Array:
    found = column.combine_chunks()
    return found if isinstance(found, pa.Array) else pa.concat_arrays(found.chunks)


def _lengths(column: pa.ChunkedArray) -> Any:
    return np.diff(_pieces(column)[0])


def _pieces(column: pa.ChunkedArray) -> tuple[Any, memoryview]:
    """Return the ends of a column's texts or values, and their bytes."""
    array = _whole(column)
    _, ends, values = array.buffers()
    if not len(array):
        return np.zeros(1, dtype=np.int32), memoryview(b"")
    found = np.frombuffer(ends, dtype=np.int32)[array.offset : array.offset + len(array) + 1]
    return found, memoryview(values or b"")[found[0] : found[-1]]


class StripeRow(msgspec.Struct, frozen=True, array_like=True):
    """A stripe of a file."""

    first: int
    next: int
    crcs: tuple[tuple[int, ...], ...]  # of the columns of each group
    topics: tuple[tuple[str, str], ...]  # the first and the last topic of each group


class _Outline(msgspec.Struct, frozen=True):
    """The key-value metadata of a file."""

    journal: str
    stripes: tuple[StripeRow, ...]
    reach: tuple[int, int]
    holes: tuple[Hole, ...]


def _checked(outline: bytes) -> bytes:
    return b"%08x" % crc32(outline) + outline


class FileMaker:
    """Makes a file."""

    def __init__(self, journal: bytes, first: int) -> None:
        self._journal = journal
        self._first = first
        self.next = first  # the offset behind its last record or hole
        self.raw_bytes = 0
        self._records = 0
        self._times: tuple[int, int] | None = None
        self._topics: Counter[str] = Counter()
        self._holes: list[Hole] = []
        self._stripes: list[StripeRow] = []
        self._waiting: list[Block] = []  # the next stripe, and the length of its values
        self._waiting_bytes = self._waiting_records = 0
        self._sink = pa.BufferOutputStream()
        self._writer: Any = pq.ParquetWriter(
            self._sink,
            SCHEMA,
            compression="zstd",
            use_dictionary=["topic"],
            column_encoding={"offset": "DELTA_BINARY_PACKED", "timestamp": "DELTA_BINARY_PACKED"},
            write_statistics=["offset", "timestamp", "topic", "encoding"],
            write_page_index=True,
        )

    @property
    def is_full(self) -> bool:
        return self.raw_bytes >= FILE_BYTES

    def add(self, block: Block) -> None:
        """Add a dense block that follows; raises `ValueError` if it does not."""
        if block.first != self.next or block.next - block.first != block.count:
            raise ValueError(f"offsets {block.first} to {block.next}, {self.next} should follow, without a gap")
        self._waiting.append(block)
        self._waiting_bytes += len(block.values)
        self._waiting_records += block.count
        self.raw_bytes += len(block.values)
        self._records += block.count
        earliest, latest = min(block.times), max(block.times)
        known = self._times or (earliest, latest)
        self._times = min(known[0], earliest), max(known[1], latest)
        for number, count in Counter(block.topic_nos).items():
            self._topics[block.topics[number]] += count
        self.next = block.next
        if self._waiting_bytes >= STRIPE_BYTES or self._waiting_records >= STRIPE_RECORDS:
            self._end_stripe()

    def pass_over(self, following: int, cause: str) -> None:
        self._end_stripe()
        self._holes.append(Hole(self.next, following, cause))
        self.next = following

    def _end_stripe(self) -> None:
        if not self._waiting:
            return
        stripe = Stripe(self._waiting)
        self._waiting = []
        self._waiting_bytes = self._waiting_records = 0
        groups = stripe.groups()
        for group in groups:
            self._writer.write_table(group, row_group_size=len(group))
        crcs, topics = tuple(map(digests, groups)), tuple(map(_topics_of, groups))
        self._stripes.append(StripeRow(stripe.first, stripe.next, crcs, topics))

    def finish(self) -> tuple[memoryview, Entry]:
        self._end_stripe()
        outline = _Outline(self._journal.hex(), tuple(self._stripes), (self._first, self.next), tuple(self._holes))
        self._writer.add_key_value_metadata({_NAME: _checked(msgspec.json.encode(outline))})
        self._writer.close()
        data = memoryview(self._sink.getvalue()).cast("B")
        times, holes = self._times or (0, 0), tuple(self._holes)
        reach = self._first, self.next
        return data, _entry(data, reach, self._records, self.raw_bytes, times, self._topics, holes)


def _entry(  # noqa: PLR0913, PLR0917 -- the fields of an entry
    data: bytes | memoryview,
    reach: tuple[int, int],
    records: int,
    raw_bytes: int,
    times: tuple[int, int],
    topics: Counter[str],
    holes: tuple[Hole, ...],
) -> Entry:
    footer_bytes = int.from_bytes(data[-_TAIL_BYTES:-4], "little")
    tail = data[-min(footer_bytes + _TAIL_BYTES, len(data)) :]
    counted, are_whole = counted_in_short(topics)
    return Entry(
        first=reach[0],
        next=reach[1],
        records=records,
        earliest_us=times[0],
        latest_us=times[1],
        size_bytes=len(data),
        raw_bytes=raw_bytes,
        sha256=sha256(data).hexdigest(),
        tail_bytes=len(tail),
        tail_crc=crc32(tail),
        topics=counted,
        are_topics_whole=are_whole,
        holes=holes,
    )


def entry_from(data: bytes, reach: tuple[int, int], journal: bytes) -> Entry:
    """Verify a file without a manifest and return its entry; `reach` is in its name. Raises `JournalCorruptError`."""
    topics: Counter[str] = Counter()
    opened = Opened(pa.BufferReader(data), _entry(data, reach, 0, 0, (0, 0), topics, ()), journal)
    records = raw_bytes = 0
    times: list[int] = []
    for number, stripe in enumerate(opened.stripes):
        found = opened.table(number, range(len(stripe.crcs)))
        records += len(found)
        raw_bytes += pc.sum(pc.binary_length(found.column("value"))).as_py()
        for one in pc.value_counts(found.column("topic")).to_pylist():
            topics[one["values"]] += one["counts"]
        both = pc.min_max(found.column("timestamp").cast(pa.int64())).as_py()
        times += [both["min"], both["max"]]
    limits = min(times, default=0), max(times, default=0)
    return _entry(data, reach, records, raw_bytes, limits, topics, opened.holes)


class Opened:
    """A file, open for reading; `file` is a `NativeFile` of pyarrow. Raises `JournalCorruptError`, `OSError`."""

    def __init__(self, file: Any, entry: Entry, journal: bytes) -> None:
        self.entry = entry
        if file.size() != entry.size_bytes:
            raise JournalCorruptError(f"it has {file.size()} bytes, and should have {entry.size_bytes}")
        file.seek(entry.size_bytes - entry.tail_bytes)
        tail = file.read(entry.tail_bytes)
        if crc32(tail) != entry.tail_crc:
            raise JournalCorruptError("the checksum of its end does not match")
        try:
            metadata = pq.read_metadata(pa.BufferReader(tail))
            if not metadata.schema.to_arrow_schema().equals(SCHEMA):
                raise JournalCorruptError("it has other columns than a file of a tier")
            checked = metadata.metadata[_NAME]
            text = checked[_CRC_DIGITS:]
            if checked != _checked(text):
                raise JournalCorruptError("the checksum of its outline does not match")
            outline = msgspec.json.decode(text, type=_Outline)
            self._parquet = pq.ParquetFile(file, metadata=metadata, pre_buffer=not isinstance(file, _NEAR))
        except (pa.ArrowException, msgspec.MsgspecError, UnicodeDecodeError, KeyError, TypeError) as error:
            raise JournalCorruptError(f"it is not a file of a tier: {error}") from error
        if outline.journal != journal.hex():
            raise JournalCorruptError(f"it is of the journal {outline.journal}, not of {journal.hex()}")
        _check_outline(outline, entry, metadata.num_row_groups)
        self.stripes = outline.stripes
        self.holes = outline.holes
        self._places = [0]  # where the groups of each stripe begin
        for stripe in self.stripes:
            self._places.append(self._places[-1] + len(stripe.crcs))

    def groups(self, stripe: int, wanted: Selection) -> tuple[int, ...]:
        """Return the numbers, within a stripe, of the groups that may hold wanted topics."""
        return tuple(
            number
            for number, topics in enumerate(self.stripes[stripe].topics)
            if wanted.is_all or wanted.may_hold_between(*topics)
        )

    def table(self, stripe: int, groups: Sequence[int], columns: Sequence[str] = tuple(SCHEMA.names)) -> pa.Table:
        """Return the verified rows of some groups of a stripe; `columns` in the order of `SCHEMA`."""
        begin = self._places[stripe]
        crcs = self.stripes[stripe].crcs
        tables = [self._group(begin + number, crcs[number], columns) for number in groups]
        return pa.concat_tables(tables)

    def _group(self, number: int, crcs: Sequence[int], columns: Sequence[str]) -> pa.Table:
        try:
            table = self._parquet.read_row_group(number, columns=list(columns), use_threads=False)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise JournalCorruptError(f"row group {number} cannot be read: {error}") from error
        types = [SCHEMA.field(name).type for name in columns]
        expected = tuple(crcs[SCHEMA.get_field_index(name)] for name in columns)
        if table.schema.names != list(columns) or table.schema.types != types or digests(table) != expected:
            raise JournalCorruptError(f"the checksum of row group {number} does not match")
        return table

    def check(self) -> None:
        """Verify all rows against the entry; raises `JournalCorruptError`, or `OSError`."""
        rows = 0
        for number, stripe in enumerate(self.stripes):
            found = self.table(number, range(len(stripe.crcs)))
            if len(found) != stripe.next - stripe.first:
                raise JournalCorruptError(f"{len(found)} records where {stripe.first} to {stripe.next} should be")
            rows += len(found)
        if rows != self.entry.records:
            raise JournalCorruptError(f"{rows} records, {self.entry.records} should be there")


def _check_outline(outline: _Outline, entry: Entry, groups: int) -> None:
    edges = [entry.first, *(edge for stripe in outline.stripes for edge in (stripe.first, stripe.next)), entry.next]
    if any(one > other for one, other in pairwise(edges)):
        raise JournalCorruptError("its stripes do not ascend")
    if outline.reach != (entry.first, entry.next):
        raise JournalCorruptError(f"it says that it is of the offsets {outline.reach}")
    crcs = [crcs for stripe in outline.stripes for crcs in stripe.crcs]
    if len(crcs) != groups or any(len(each) != len(SCHEMA) for each in crcs):
        raise JournalCorruptError(f"it has {groups} row groups, and checksums of {len(crcs)}")
    if any(len(stripe.topics) != len(stripe.crcs) for stripe in outline.stripes):
        raise JournalCorruptError("it lists topics of more or fewer row groups than it has")
