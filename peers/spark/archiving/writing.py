"""`Writing`: the micro-batches of one run, written one after the other, and small files merged between them.

Owner: one job. Invariant: when a batch is written, those before it are finished: Spark has marked them as done.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from peers.spark.archiving.compaction import Compacted, compact
from peers.spark.archiving.delta import DeltaBatches
from peers.spark.archiving.parquet import ParquetBatches
from peers.spark.archiving.state import ArchiveOrder, ArchiveState, store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["COMPACTED_BATCHES", "COMPACTED_LEAST", "Writing"]

COMPACTED_BATCHES = 64
"""A continuous job looks for small files after so many batches."""

COMPACTED_LEAST = 16
"""Then, so many small batches are merged or more."""


class Writing:
    """Writes batches.

    Args:
        order: What is to be done.
        state: Of the archive.
    """

    def __init__(self, order: ArchiveOrder, state: ArchiveState) -> None:
        self._order = order
        self._state = state
        self._since_compaction = 0
        self._batches = self._make()
        self.compacted = Compacted()

    def _make(self) -> DeltaBatches | ParquetBatches:
        order = self._order
        return (
            DeltaBatches(order.path) if order.format == "delta" else ParquetBatches(order.path, self._state.compacted)
        )

    def source_options(self) -> dict[str, str]:
        """Return the options of the source."""
        order = self._order
        given = {
            "url": order.url,
            "topics": ",".join(self._state.topics),
            "startingOffsets": order.starting,
            "failOnDataLoss": "false" if order.lossy else "true",
        }
        if order.max_offsets is not None:
            given["maxOffsetsPerTrigger"] = str(order.max_offsets)
        secured = {"token": order.token, "tokenFile": order.token_file}
        secured |= {"ca": order.ca, "certificate": order.certificate, "key": order.key}
        return given | {name: text for name, text in secured.items() if text}

    def write(self, frame: DataFrame, batch: int) -> None:
        """Write a batch; for `foreachBatch`."""
        self._batches.write(frame, batch)
        self._since_compaction += 1
        if self._order.every_s is not None and self._order.compact and self._since_compaction >= COMPACTED_BATCHES:
            self.compact(batch - 1, COMPACTED_LEAST)

    def compact(self, through: int, least: int) -> None:
        """Merge small files.

        Args:
            through: Number of the last finished batch.
            least: Fewest batches that are worth it.
        """
        self._since_compaction = 0
        if isinstance(self._batches, DeltaBatches):
            self.compacted += self._batches.compact()
        else:
            self.compacted += compact(Path(self._order.path), through, least, lambda: self._compacting(through))

    def _compacting(self, through: int) -> None:
        """Remember which batches are in the archive, before they are moved to other folders."""
        self._state = ArchiveState(self._state.format, self._state.topics, through)
        store(Path(self._order.path), self._state)
        self._batches = self._make()
