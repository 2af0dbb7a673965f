"""`RecordBatches`: blocks of the journal as batches of Arrow, with the columns that a query wants.

```
Block  times, value_ends, values ─── the same memory ──▶ timestamp, value
       topic_nos, topics ─ dictionary, decoded by Arrow ▶ topic
       first or offsets ───────────────────────────────▶ offset
```

No loop over records in Python, unless values are to be decoded. Small blocks, as the newest records stand in, are put
together: a batch of Arrow costs Spark about 0.1 ms, however small.

Owner: one task.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from hub.journal.block import Block
from hub.journal.layout import COLUMNS, Column
from peers.journal.tier.table import SCHEMA, blocks_of
from peers.spark.connector.columns import is_field
from peers.spark.connector.decoding import Fields, Troubles, binary_values, json_values
from peers.spark.connector.options import Decode

BATCH_LEAST_ROWS = 4_096
"""Smaller blocks are joined until they have as many: half a full block."""


BATCH_MOST_ROWS = 16_384
"""A stripe of a tier is cut: Spark's side of it holds a batch in memory as a whole."""


class RecordBatches:
    """Makes batches.

    Args:
        schema: The columns.
        decode: What becomes of values.

    Raises:
        ColumnError: A field has a type that no message has.
    """

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
        """The columns that `table_batches` needs: none of those that the query does not want."""
        if not self._is_plain:
            return frozenset(SCHEMA.names)
        return frozenset(self._names) | ({"encoding"} if "value" in self._names else frozenset())

    @property
    def record_columns(self) -> tuple[Column, ...]:
        """The columns of records that `batches` needs: what a hub is asked for."""
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
        """Yield batches of tables of a tier (`peers.journal.tier.table`), in order.

        Where nothing of a value is looked at, columns are taken as they are.
        """
        for table in tables:
            if self._is_plain and not ("encoding" in table.column_names and pc.max(table.column("encoding")).as_py()):
                self.troubles.messages += len(table)
                columns = [table.column(name).cast(self._schema.field(name).type) for name in self._names]
                whole = pa.Table.from_arrays(columns, schema=self._schema).combine_chunks()
                yield from whole.to_batches(max_chunksize=BATCH_MOST_ROWS)
            else:
                yield from self.batches(map(Block.parse, blocks_of(table)))

    def batch(self, block: Block) -> pa.RecordBatch:
        """Return the batch of one block."""
        columns = {name: self._column(name, block) for name in self._names if name not in self._field_names}
        if self._fields is not None:
            decoded = self._fields.columns(block, self._field_types)
            columns |= dict(zip(self._field_names, decoded, strict=True))
        return pa.RecordBatch.from_arrays([columns[name] for name in self._names], schema=self._schema)

    def _column(self, name: str, block: Block) -> pa.Array:
        if name == "value":
            values = json_values if self._decode == "json" else binary_values
            return values(block, self.troubles if self._fields is None else Troubles())
        return _RECORD[name](block)


def _offsets(block: Block) -> pa.Array:
    if block.offsets is None:
        return pa.array(np.arange(block.first, block.next, dtype=np.int64))
    return pa.Array.from_buffers(pa.int64(), block.count, [None, pa.py_buffer(block.offsets)])


def _times(block: Block) -> pa.Array:
    return pa.Array.from_buffers(pa.timestamp("us", "UTC"), block.count, [None, pa.py_buffer(block.times)])


def _topics(block: Block) -> pa.Array:
    numbers = pa.Array.from_buffers(pa.int32(), block.count, [None, pa.py_buffer(block.topic_nos)])
    topics = pa.array(block.topics, pa.string())
    return pa.DictionaryArray.from_arrays(numbers, topics, safe=False).dictionary_decode()


_COLUMNS: dict[str, Column] = {"offset": "offset", "timestamp": "time", "topic": "topic"}
"""Columns of Spark, and what a FETCH calls them."""

_RECORD: dict[str, Callable[[Block], pa.Array]] = {"offset": _offsets, "timestamp": _times, "topic": _topics}


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the schema that Spark compares batches with; what it calls UTC has changed its name between versions."""
    known = inspect.signature(to_arrow_schema).parameters
    return to_arrow_schema(schema, timezone="UTC") if "timezone" in known else to_arrow_schema(schema)


def joined(
    batches: Iterable[pa.RecordBatch], least: int, size_of: Callable[[pa.RecordBatch], int]
) -> Iterator[pa.Table]:
    """Yield batches together: as soon as their sizes are `least` or more, and what is left at the end."""
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
