"""`Decoding`: micro-batches of records as frames with typed columns, and the columns of an archive as they grow.

```
batch ─┬─ looked at: which fields, of which kinds ─▶ TypedColumns grown ─▶ stored
       └─ decoded with these columns ──▶ written                   (kept in between, so that the hub is read once)
```

Where the columns were written down (`--schema`), nothing is looked at: what has no column stands in `_rest`.

Owner of the state: one job, which has the archive's lock. Invariant: columns are stored before a batch that has them is
written; a batch that is repeated finds the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from peers.spark.archiving.typed_columns import Growth, TypedColumns
from peers.spark.archiving.typed_rows import Counts, TypedRows, look, typed_schema
from peers.spark.connector.inference import Inference

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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

    def grow(self, growth: Growth) -> None:
        """Count what has changed."""
        self.added += growth.added
        self.widened += growth.widened


class Decoding:
    """Decodes.

    Args:
        spark: The session.
        columns: That the archive has.
        event_time: Field of the event time; empty for none.
        fixed: Whether the columns were written down.
        widens: Whether columns may widen.
        keep: Is given columns that have grown, before they are used.
    """

    def __init__(  # noqa: PLR0913 -- each is one thing to know
        self,
        spark: SparkSession,
        columns: TypedColumns,
        event_time: str,
        *,
        fixed: bool,
        widens: bool,
        keep: Callable[[TypedColumns], object],
    ) -> None:
        self._columns = columns
        self._event_time = event_time
        self._fixed = fixed
        self._widens = widens
        self._keep = keep
        context = spark.sparkContext
        self._counts = Counts(context.accumulator(0), context.accumulator(0))
        self._grown = Decoded()

    def done(self) -> Decoded:
        """Return what was decoded so far."""
        self._grown.rest, self._grown.undated = self._counts.rest.value, self._counts.undated.value
        return self._grown

    @contextmanager
    def typed(self, frame: DataFrame) -> Iterator[DataFrame]:
        """Yield a batch with typed columns."""
        if self._fixed:
            yield self._typed(frame)
            return
        kept = frame.persist()
        try:
            self._grow(kept)
            yield self._typed(kept)
        finally:
            kept.unpersist()

    def _grow(self, frame: DataFrame) -> None:
        seen = Inference()
        for (told,) in frame.select("value").mapInArrow(look, "seen STRING").collect():
            seen.merge(Inference(msgspec.json.decode(told)))
        columns, growth = self._columns.grown(seen.kinds(), widens=self._widens)
        if growth.added or growth.widened:
            self._keep(columns)
            self._columns = columns
            self._grown.grow(growth)

    def _typed(self, frame: DataFrame) -> DataFrame:
        rows = TypedRows(self._columns, self._event_time, self._counts)
        return frame.mapInArrow(rows.batches, typed_schema(self._columns, self._event_time))
