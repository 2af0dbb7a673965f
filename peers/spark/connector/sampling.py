"""The fields of a query that names none (`decode=schema` without a schema): looked up in the newest records.

What a query reads is fixed by it, so that messages to come do not change it: fields that they alone have are not read.
Cost: one read of `SAMPLE_OFFSETS` offsets, when the query is written down.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hub.journal.layout import Column
from peers.spark.connector.columns import fields_schema
from peers.spark.connector.connection import Connection
from peers.spark.connector.decoding import bodies_of, message_of
from peers.spark.connector.errors import ColumnError
from peers.spark.connector.inference import Inference

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from peers.spark.connector.options import SourceOptions

SAMPLE_OFFSETS = 10_000
"""The newest of the journal, of all topics; those of the query are looked at."""

_LOOKED_AT: tuple[Column, ...] = ("value",)


def sampled_schema(options: SourceOptions) -> StructType:
    """Return the columns of a query.

    Raises:
        ColumnError: No message was found that has fields.
        PeerError: The hub refuses, or cannot be reached.
    """
    connection = Connection(options.access)
    state = connection.state()
    seen = Inference()
    start = max(state.first, state.head - SAMPLE_OFFSETS)
    blocks = connection.blocks(options.topics, start, state.head, journal=state.id, lossy=True, columns=_LOOKED_AT)
    for block in blocks:
        seen.add(map(message_of, bodies_of(block)))
    if not seen.seen:
        raise ColumnError(
            f"none of the newest {SAMPLE_OFFSETS:,} records of these topics has fields: name them, such as "
            '.schema("offset BIGINT, topic STRING, query STRING")'
        )
    return fields_schema(seen.kinds())
