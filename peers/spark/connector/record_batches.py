"""`RecordBatches`: blocks of the journal as batches of Arrow, with the columns of a query.

Arrow gets the memory of a block. There is no loop over records in Python, unless values are decoded: JSON text takes
about 1 µs a message, fields 1 µs and 0.1 µs for each column. A value that cannot be decoded is NULL, and counted.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from hub.journal.block import Block
from hub.journal.layout import COLUMNS, Column
from hub.messages.frame import Encoding
from peers.journal.tier.parquet import SCHEMA, blocks_of
from peers.spark.connector.fields import Fit, MisfitError, Moment, fit_of, is_field
from peers.spark.connector.options import Decode
from peers.values import to_msgpack
from peers.values.conversion import json_of, json_of_broker, untyped_extension
from peers.values.msgpack import Code

BATCH_LEAST_ROWS = 4_096
"""Smaller blocks are joined until they have as many: half a full block."""


BATCH_MOST_ROWS = 16_384
"""A stripe of a tier is cut: Spark holds a batch in memory as a whole."""


class RecordBatches:
    """Makes batches."""

    def __init__(self, schema: StructType, decode: Decode) -> None:
        self.troubles = Troubles()
        self._schema = arrow_schema(schema)
        self._names = [column.name for column in schema.fields]
        self._decode = decode
        fields = [column for column in schema.fields if is_field(column)]
        self._field_names = [column.name for column in fields]
        self._field_types = [self._schema.field(name).type for name in self._field_names]
        self._fields = Fields(fields, self.troubles) if fields else None
        # Whether values, if they are msgpack, are handed on as they are.
        self._is_plain = self._fields is None and decode == "raw"

    @property
    def table_columns(self) -> frozenset[str]:
        """The columns that `table_batches` needs."""
        if not self._is_plain:
            return frozenset(SCHEMA.names)
        return frozenset(self._names) | ({"encoding"} if "value" in self._names else frozenset())

    @property
    def record_columns(self) -> tuple[Column, ...]:
        """The parts of records that `batches` needs, as a hub is asked for them."""
        has_value = "value" in self._names or self._fields is not None
        wanted = {_COLUMNS[name] for name in self._names if name in _COLUMNS} | ({"value"} if has_value else set())
        return tuple(column for column in COLUMNS if column in wanted)

    def batches(self, blocks: Iterable[Block]) -> Iterator[pa.RecordBatch]:
        """Yield batches of the blocks, in order."""
        waiting: list[pa.RecordBatch] = []
        rows = 0
        for block in blocks:
            waiting.append(self.batch(block))
            rows += block.count
            if rows >= BATCH_LEAST_ROWS:
                yield _joined(waiting)
                waiting, rows = [], 0
        if waiting:
            yield _joined(waiting)

    def table_batches(self, tables: Iterable[pa.Table]) -> Iterator[pa.RecordBatch]:
        """Yield batches of the tables of a tier, in order; raw columns are taken as they are."""
        for table in tables:
            if self._is_plain and not ("encoding" in table.column_names and pc.max(table.column("encoding")).as_py()):
                self.troubles.messages += len(table)
                columns = [table.column(name).cast(self._schema.field(name).type) for name in self._names]
                whole = pa.Table.from_arrays(columns, schema=self._schema).combine_chunks()
                yield from whole.to_batches(max_chunksize=BATCH_MOST_ROWS)
            else:
                yield from self.batches(map(Block.parse, blocks_of(table)))

    def batch(self, block: Block) -> pa.RecordBatch:
        columns = {name: self._column(name, block) for name in self._names if name not in self._field_names}
        if self._fields is not None:
            decoded = self._fields.columns(block, self._field_types)
            columns |= dict(zip(self._field_names, decoded, strict=True))
        return pa.RecordBatch.from_arrays([columns[name] for name in self._names], schema=self._schema)

    def _column(self, name: str, block: Block) -> pa.Array:
        count = block.count
        match name:
            case "offset" if block.offsets is None:
                return pa.array(np.arange(block.first, block.next, dtype=np.int64))
            case "offset":
                return pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(block.offsets)])
            case "timestamp":
                return pa.Array.from_buffers(pa.timestamp("us", "UTC"), count, [None, pa.py_buffer(block.times)])
            case "topic":
                numbers = pa.Array.from_buffers(pa.int32(), count, [None, pa.py_buffer(block.topic_nos)])
                topics = pa.array(block.topics, pa.string())
                return pa.DictionaryArray.from_arrays(numbers, topics, safe=False).dictionary_decode()
        values = json_values if self._decode == "json" else binary_values
        return values(block, self.troubles if self._fields is None else Troubles())


# Columns of Spark, and their names in FETCH.
_COLUMNS: dict[str, Column] = {"offset": "offset", "timestamp": "time", "topic": "topic"}


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the schema that Spark compares batches with; how it calls UTC differs between versions."""
    known = inspect.signature(to_arrow_schema).parameters
    return to_arrow_schema(schema, timezone="UTC") if "timezone" in known else to_arrow_schema(schema)


def joined(
    batches: Iterable[pa.RecordBatch], least: int, size_of: Callable[[pa.RecordBatch], int]
) -> Iterator[pa.Table]:
    """Yield batches together: as soon as their sizes are `least` or more, and the rest at the end."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        held.append(batch)
        size += size_of(batch)
        if size >= least:
            yield pa.Table.from_batches(held)
            held, size = [], 0
    if held:
        yield pa.Table.from_batches(held)


# The values of a block as Arrow columns: bytes as they are, JSON text, or fields.


class Troubles:
    """Counts undecodable messages, and by column values that do not fit its type."""

    def __init__(self) -> None:
        self.messages = 0
        self.unreadable = 0
        self.misfits: Counter[str] = Counter()

    def __str__(self) -> str:
        told = []
        if self.unreadable:
            told.append(f"{self.unreadable} messages cannot be decoded")
        told += [f"{count} values of {name} do not fit" for name, count in self.misfits.most_common()]
        return f"NULL, of {self.messages} messages: {', '.join(told)}" if told else ""


def binary_values(block: Block, troubles: Troubles) -> pa.Array:
    """Return the values as msgpack: without copying, unless some are encoded otherwise."""
    troubles.messages += block.count
    if block.encodings is None:
        buffers = [None, pa.py_buffer(block.value_ends), pa.py_buffer(block.values)]
        return pa.Array.from_buffers(pa.binary(), block.count, buffers)
    return pa.array(bodies_of(block, troubles), pa.binary())


def json_values(block: Block, troubles: Troubles) -> pa.Array:
    troubles.messages += block.count
    convert: dict[int, Callable[[bytes], bytes | None]] = {
        Encoding.MSGPACK: json_of,
        Encoding.BROKER: json_of_broker,
    }
    encodings = bytes(block.count) if block.encodings is None else block.encodings
    texts = [
        None if (to_json := convert.get(encoding)) is None else to_json(body)
        for encoding, body in zip(encodings, _bodies(block), strict=True)
    ]
    troubles.unreadable += texts.count(None)
    return pa.array(texts, pa.string())


def _bodies(block: Block) -> list[bytes]:
    values = bytes(block.values)
    return [values[start:end] for start, end in pairwise(block.value_ends)]


def bodies_of(block: Block, troubles: Troubles | None = None) -> Sequence[bytes | None]:
    """Return the values as msgpack, None where that is not possible."""
    if block.encodings is None:
        return _bodies(block)
    bodies = [
        body if encoding == Encoding.MSGPACK else _of_broker(encoding, body)
        for encoding, body in zip(block.encodings, _bodies(block), strict=True)
    ]
    if troubles is not None:
        troubles.unreadable += bodies.count(None)
    return bodies


def _of_broker(encoding: int, body: bytes) -> bytes | None:
    if encoding != Encoding.BROKER:
        return None
    try:
        return to_msgpack(body)
    except (ValueError, TypeError, OverflowError, RecursionError):
        return None


class _Unknown:
    """An unknown msgpack extension: it fits nowhere."""


def _extension(code: int, data: memoryview) -> Any:
    try:
        plain = untyped_extension(code, bytes(data))
    except (ValueError, OverflowError, RecursionError):
        return _Unknown
    return Moment(plain) if code == Code.TIMESTAMP and type(plain) is str else plain


_NOT_MSGPACK = (msgspec.DecodeError, UnicodeDecodeError, ValueError, RecursionError, OverflowError, TypeError)


UNREADABLE: Any = _Unknown
"""Returned by `message_of` for bytes that are no msgpack."""

_decode_any = msgspec.msgpack.Decoder(ext_hook=_extension).decode


def message_of(body: bytes | None) -> Any:
    if body is None:
        return UNREADABLE
    try:
        return _decode_any(body)
    except _NOT_MSGPACK:
        return UNREADABLE


class Fields:
    """Fields of messages that are maps, as columns."""

    def __init__(self, columns: Sequence[StructField], troubles: Troubles) -> None:
        names = [column.name for column in columns]
        attributes = [f"f{number}" for number in range(len(columns))]
        row = msgspec.defstruct(
            "Row",
            [(attribute, Any, None) for attribute in attributes],
            rename=dict(zip(attributes, names, strict=True)),
            gc=False,
        )
        self._names = names
        self._takes = [attrgetter(attribute) for attribute in attributes]
        self._fits = [fit_of(column.name, column.dataType) for column in columns]
        self._empty = row()
        self._row = row
        self._decode = msgspec.msgpack.Decoder(row, ext_hook=_extension).decode
        self._troubles = troubles

    def columns(self, block: Block, types: Sequence[pa.DataType]) -> list[pa.Array]:
        troubles = self._troubles
        troubles.messages += block.count
        rows = [self._row_of(body) for body in bodies_of(block)]
        return [
            _array(list(map(take, rows)), fit, kind, name, troubles.misfits)
            for take, fit, kind, name in zip(self._takes, self._fits, types, self._names, strict=True)
        ]

    def _row_of(self, body: bytes | None) -> Any:
        value = UNREADABLE
        if body is not None:
            try:
                return self._decode(body)
            except _NOT_MSGPACK:
                value = message_of(body)  # which may be a map that has other keys than text
        if value is UNREADABLE:
            self._troubles.unreadable += 1
            return self._empty
        return self._row(*map(value.get, self._names)) if isinstance(value, dict) else self._empty


def _array(values: list[Any], fit: Fit, kind: pa.DataType, name: str, misfits: Counter[str]) -> pa.Array:
    fitting = []
    for value in values:
        if value is not None:
            try:
                value = fit(value)  # noqa: PLW2901 -- the fitted value
            except MisfitError:
                misfits[name] += 1
                value = None  # noqa: PLW2901
        fitting.append(value)
    return pa.array(fitting, kind)
