"""Which offsets a query reads, and which task reads which of them. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from pyspark.sql.datasource import InputPartition

PARTITION_LEAST_ROWS = 10_000
"""Smaller ones cost more to start (14 ms a task) than they gain."""

PARTITION_MOST_ROWS = 2_000_000
"""So that a task that must be repeated does not repeat minutes."""


@dataclass(frozen=True)
class OffsetRange(InputPartition):
    """The share of one task."""

    start: int
    end: int
    """The offset behind the last."""
    journal: str
    """Its id, as hexadecimal digits."""
    epoch: int = 0
    """In which that was planned; 0 where nobody knows."""


def split(start: int, end: int, partitions: int, journal: str, epoch: int = 0) -> list[OffsetRange]:
    """Cut a range into even shares, none where it is empty.

    Args:
        start: First offset.
        end: The one behind the last.
        partitions: How many shares are wanted.
        journal: Id of the journal.
        epoch: Of the journal.
    """
    rows = end - start
    if rows <= 0:
        return []
    wanted = max(min(partitions, rows // PARTITION_LEAST_ROWS), -(-rows // PARTITION_MOST_ROWS), 1)
    cuts = [start + rows * number // wanted for number in range(wanted + 1)]
    return [OffsetRange(low, high, journal, epoch) for low, high in pairwise(cuts)]
