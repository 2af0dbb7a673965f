"""`Tally`: how far a streaming query is, from the progress that Spark reports for each micro-batch. No I/O."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, MutableMapping
from typing import Any

__all__ = ["Tally"]


class Tally:
    """Sums over micro-batches, each counted once.

    Attributes:
        batches: With records in them.
        messages: Records.
        first: Offset that reading began at, None before the first batch.
        next: Offset behind the last that is done.
        head: Offset behind the last that the hub had, when it was last asked.
    """

    def __init__(self) -> None:
        self.batches = 0
        self.messages = 0
        self.first: int | None = None
        self.next = 0
        self.head = 0
        self.last_batch = -1
        self._seen: tuple[str, int] = ("", -1)

    def take(self, reports: Iterable[Mapping[str, Any]], rows: MutableMapping[int, int]) -> bool:
        """Take reports of one query, the oldest first; some may have been taken before.

        Args:
            reports: Of Spark.
            rows: Records of batches whose rows Spark has not seen; they are taken out.

        Returns:
            Whether there was a new one.
        """
        changed = False
        for report in reports:
            run, batch = str(report["runId"]), int(report["batchId"])
            if self._seen[0] == run and batch < self._seen[1]:
                continue
            (source,) = report["sources"]
            self.head = _offset(source["latestOffset"], self.head)
            self.next = _offset(source["endOffset"], self.next)
            idle = source["startOffset"] == source["endOffset"]
            if idle or (run, batch) == self._seen:
                continue
            self._seen = (run, batch)
            self._count(report, source, rows.pop(batch, int(report["numInputRows"])))
            changed = True
        return changed

    def _count(self, report: Mapping[str, Any], source: Mapping[str, Any], rows: int) -> None:
        self.messages += rows
        self.batches += bool(rows)
        self.last_batch = max(self.last_batch, int(report["batchId"]))
        if self.first is None:
            self.first = _offset(source["startOffset"], self.next - rows)


def _offset(told: object, default: int) -> int:
    """Return the offset in what a query tells, which is JSON or what it says."""
    if isinstance(told, str):
        told = json.loads(told)
    return int(told["offset"]) if isinstance(told, Mapping) else default
