"""`Decoder`: the values of a block as Arrow columns: bytes as they are, JSON text, or fields.

Owner: one task, which tells at its end what could not be read. Invariant: whatever a value is, its record stays: what
cannot be read is NULL, and counted.

Cost: bytes are not touched. JSON text takes about 1 µs a message, fields 1 µs and 0.1 µs for each column.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql.types import StructField

from hub.frame import Encoding
from hub.journal.block import Block
from peers.spark.connector.fields import Fit, MisfitError, Moment, fit_of
from peers.values import to_msgpack
from peers.values.conversion import json_of, json_of_broker
from peers.values.msgpack import Code
from peers.values.untyped import untyped_extension


class Troubles:
    """What could not be read, counted.

    Attributes:
        unreadable: Messages that have no such form at all.
        misfits: Values that are not of the type of their column, by column.
    """

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
    """Return the values as msgpack: without copying, unless some are spelled otherwise."""
    troubles.messages += block.count
    if block.encodings is None:
        buffers = [None, pa.py_buffer(block.value_ends), pa.py_buffer(block.values)]
        return pa.Array.from_buffers(pa.binary(), block.count, buffers)
    return pa.array(_packed_values(block, troubles), pa.binary())


def json_values(block: Block, troubles: Troubles) -> pa.Array:
    """Return the values as JSON text."""
    troubles.messages += block.count
    convert: dict[int, Callable[[bytes], bytes | None]] = {
        Encoding.MSGPACK: json_of,
        Encoding.BROKER: json_of_broker,
    }
    texts = [
        convert.get(encoding, _no_form)(body) for encoding, body in zip(_encodings(block), _bodies(block), strict=True)
    ]
    troubles.unreadable += texts.count(None)
    return pa.array(texts, pa.string())


def _no_form(_: bytes) -> None:
    """An encoding of a later version."""


def _bodies(block: Block) -> list[bytes]:
    values = bytes(block.values)
    return [values[start:end] for start, end in pairwise(block.value_ends)]


def _encodings(block: Block) -> Sequence[int]:
    return bytes(block.count) if block.encodings is None else block.encodings


def _packed_values(block: Block, troubles: Troubles) -> list[bytes | None]:
    """Return the values as msgpack, None where that cannot be."""
    bodies: list[bytes | None] = []
    for encoding, body in zip(_encodings(block), _bodies(block), strict=True):
        packed = body if encoding == Encoding.MSGPACK else _of_broker(encoding, body)
        troubles.unreadable += packed is None
        bodies.append(packed)
    return bodies


def bodies_of(block: Block) -> Sequence[bytes | None]:
    """Return the values as msgpack, None where that cannot be."""
    return _bodies(block) if block.encodings is None else _packed_values(block, Troubles())


def _of_broker(encoding: int, body: bytes) -> bytes | None:
    if encoding != Encoding.BROKER:
        return None
    try:
        return to_msgpack(body)
    except (ValueError, TypeError, OverflowError, RecursionError):
        return None


class _Unknown:
    """Stands for a msgpack extension that nobody knows: it fits nowhere."""


def _extension(code: int, data: memoryview) -> Any:
    try:
        plain = untyped_extension(code, bytes(data))
    except (ValueError, OverflowError, RecursionError):
        return _Unknown
    return Moment(plain) if code == Code.TIMESTAMP and type(plain) is str else plain


_NOT_MSGPACK = (msgspec.DecodeError, UnicodeDecodeError, ValueError, RecursionError, OverflowError, TypeError)


UNREADABLE: Any = _Unknown
"""What `message_of` gives for what is no msgpack."""

_decode_any = msgspec.msgpack.Decoder(ext_hook=_extension).decode


def message_of(body: bytes | None) -> Any:
    """Return a message as plain Python values, or `UNREADABLE`."""
    if body is None:
        return UNREADABLE
    try:
        return _decode_any(body)
    except _NOT_MSGPACK:
        return UNREADABLE


class Fields:
    """Fields of messages that are maps, as columns.

    Args:
        columns: Their names and types.
        troubles: Where it is counted what does not fit.

    Raises:
        ColumnError: There are no values of a type.
    """

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
        """Return the columns of a block.

        Args:
            block: With the messages.
            types: Of the columns, as Arrow has them.
        """
        troubles = self._troubles
        troubles.messages += block.count
        rows = [self._row_of(body) for body in bodies_of(block)]
        return [
            _array(list(map(take, rows)), fit, kind, name, troubles.misfits)
            for take, fit, kind, name in zip(self._takes, self._fits, types, self._names, strict=True)
        ]

    def _row_of(self, body: bytes | None) -> Any:
        """Return the fields of one message; none if it is no map."""
        if body is None:
            self._troubles.unreadable += 1
            return self._empty
        try:
            return self._decode(body)
        except _NOT_MSGPACK:
            return self._row_of_other(body)

    def _row_of_other(self, body: bytes) -> Any:
        """Return the fields of what is no map with nothing but text for keys."""
        value = message_of(body)
        if value is UNREADABLE:
            self._troubles.unreadable += 1
            return self._empty
        return self._row(*map(value.get, self._names)) if isinstance(value, dict) else self._empty


def _array(values: list[Any], fit: Fit, kind: pa.DataType, name: str, misfits: Counter[str]) -> pa.Array:
    """Return a column; what does not fit is NULL."""
    fitting = []
    for value in values:
        if value is not None:
            try:
                value = fit(value)  # noqa: PLW2901 -- what stands for it
            except MisfitError:
                misfits[name] += 1
                value = None  # noqa: PLW2901
        fitting.append(value)
    return pa.array(fitting, kind)
