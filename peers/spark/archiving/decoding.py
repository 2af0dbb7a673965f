"""`Decoding`: micro-batches of records as frames with typed columns, and the columns of an archive as they grow.

```
batch ─┬─ looked at: which fields, of which kinds, by table ─▶ TypedColumns grown ─▶ stored
       └─ decoded with these columns ──▶ written                   (kept in between, so that the hub is read once)
```

Types that were written down (`--schema`) are taken in place of those that are seen.

Owner of the state: one job, which has the archive's lock. Invariant: columns are stored before a batch that has them is
written; a batch that is repeated finds the same ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from peers.spark.archiving.typed_columns import Growth, TypedColumns
from peers.spark.archiving.typed_rows import Counts, TypedRows, look, typed_schema
from peers.spark.connector.inference import Inference

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = ["Decoded", "Decoding"]


@dataclass
class Decoded:
    """What a job has decoded."""

    added: list[str] = field(default_factory=list)
    """Columns."""
    widened: list[str] = field(default_factory=list)
    """The same."""
    rest: int = 0
    """Messages of which something stands in `_rest`."""
    undated: int = 0
    """Messages without an event time."""

    def grow(self, growth: Growth, table: str = "") -> None:
        """Count what has changed."""
        begin = f"{table}." if table else ""
        self.added += [begin + name for name in growth.added]
        self.widened += [begin + name for name in growth.widened]


class Decoding:
    """Decodes.

    Args:
        spark: The session.
        event_time: Field of the event time; empty for none.
        named: Columns whose types were written down.
        widens: Whether columns may widen.
    """

    def __init__(self, spark: SparkSession, event_time: str, named: StructType, *, widens: bool) -> None:
        self._event_time = event_time
        self._named = named
        self._widens = widens
        context = spark.sparkContext
        self._counts = Counts(context.accumulator(0), context.accumulator(0))
        self._grown = Decoded()

    def done(self) -> Decoded:
        """Return what was decoded so far."""
        self._grown.rest, self._grown.undated = self._counts.rest.value, self._counts.undated.value
        return self._grown

    def look(self, frame: DataFrame) -> dict[str, Inference]:
        """Return what the messages of each table hold."""
        seen: dict[str, Inference] = {}
        for table, told in frame.select("table", "value").mapInArrow(look, "table STRING, seen STRING").collect():
            seen.setdefault(table, Inference()).merge(Inference(msgspec.json.decode(told)))
        return seen

    def grown(self, table: str, columns: TypedColumns, seen: Iterable[Inference]) -> TypedColumns:
        """Return the columns of a table that also hold what was seen."""
        together = Inference()
        for one in seen:
            together.merge(one)
        columns, growth = columns.grown(together.kinds(), self._named, widens=self._widens)
        self._grown.grow(growth, table)
        return columns

    def typed(self, frame: DataFrame, columns: TypedColumns) -> DataFrame:
        """Return a batch with typed columns."""
        rows = TypedRows(columns, self._event_time, self._counts)
        return frame.mapInArrow(rows.batches, typed_schema(columns, self._event_time))
