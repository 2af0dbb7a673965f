"""Which offsets of an archive are absent: exactly, without sorting all that are there.

```
block of 65,536 offsets    1 1 1 0 1 1 0 0 ...     a task: one bit each, or a list where they are few
                           │     └─┘ hole          of all tasks together: holes, and how many there are twice
                  first ◀──┘              last ─▶  between blocks: last of one, first of the next
```

Cost: a scan of the offsets, which are small; 8 KiB of a task for each block that has many.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own name for it

from peers.spark.report.findings import Missing, Offsets
from peers.spark.report.scan import Reading, Scan

__all__ = ["BLOCK_OFFSETS", "find_offsets"]

BLOCK_OFFSETS = 65_536
"""A place within a block has 16 bits."""

_MERGED = "block BIGINT, first BIGINT, next BIGINT, absent BIGINT, ranges BIGINT, repeated BIGINT"


def find_offsets(scan: Scan, limit: int) -> Offsets:
    """Return which offsets are there, one or more.

    Args:
        scan: Of the archive.
        limit: How many ranges are listed.
    """
    size = BLOCK_OFFSETS

    def merged(parts: pa.Table) -> pa.Table:  # Spark reads the types
        return _merged(size, limit, parts)

    places = scan.offset_sums(partial(_places, size), "block BIGINT, count BIGINT, places BINARY")
    found = places.groupBy("block").applyInArrow(merged, _MERGED).persist()
    try:
        blocks = sorted(found.where("ranges IS NOT NULL").collect())  # by their numbers; they are few
        holes = found.where("ranges IS NULL").orderBy(_length().desc(), "first").limit(limit).collect()
    finally:
        found.unpersist()
    between = [Missing(one.next, other.first) for one, other in pairwise(blocks) if other.first > one.next]
    longest = sorted([*between, *(Missing(hole.first, hole.next) for hole in holes)], key=_longest_first)[:limit]
    return Offsets(
        blocks[0].first,
        blocks[-1].next - 1,
        sum(block.absent for block in blocks) + sum(one.next - one.first for one in between),
        sum(block.ranges for block in blocks) + len(between),
        sum(block.repeated for block in blocks),
        tuple(sorted(longest)),
    )


def _length() -> Column:
    return F.col("next") - F.col("first")


def _longest_first(one: Missing) -> tuple[int, int]:
    return one.first - one.next, one.first


def _places(size: int, reading: Reading, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield how many offsets each block has, and where: a bit for each, or numbers of 16 bits where these take less."""
    counts: defaultdict[int, int] = defaultdict(int)
    found: dict[int, bytes] = {}
    for batch in batches:
        offsets = np.sort(reading.offsets(batch))
        numbers, begins = np.unique(offsets // size, return_index=True)
        ends = [*begins[1:].tolist(), len(offsets)]
        for block, begin, end in zip(numbers.tolist(), begins.tolist(), ends[: len(numbers)], strict=True):
            counts[block] += end - begin
            places = (offsets[begin:end] - block * size).astype(np.uint16)
            found[block] = _added(found.get(block, b""), places, size)
    columns = [pa.array(list(counts), pa.int64()), pa.array(list(counts.values()), pa.int64())]
    yield pa.record_batch([*columns, pa.array(list(found.values()), pa.binary())], names=["block", "count", "places"])


def _added(held: bytes, places: np.ndarray[Any, Any], size: int) -> bytes:
    """Return what is held of a block, with more places."""
    bits = size // 8
    if len(held) != bits and len(held) + places.nbytes < bits:
        return held + places.tobytes()
    present = _present(held, size)
    present[places] = True
    return np.packbits(present).tobytes()


def _present(places: bytes, size: int) -> np.ndarray[Any, Any]:
    """Return whether each offset of a block is there."""
    if len(places) == size // 8:
        return np.unpackbits(np.frombuffer(places, np.uint8)).astype(bool)
    present = np.zeros(size, bool)
    present[np.frombuffer(places, np.uint16)] = True
    return present


def _merged(size: int, limit: int, parts: pa.Table) -> pa.Table:
    """Return a row for a block: what is absent between its first and last offset; and one for each hole in there."""
    block: int = parts["block"][0].as_py()
    present = np.zeros(size, bool)
    for places in parts["places"].to_pylist():
        present |= _present(places, size)
    there = np.flatnonzero(present) + block * size
    steps = np.flatnonzero(np.diff(there) > 1)
    first, beyond = there[steps] + 1, there[steps + 1]
    absent, repeated = int((beyond - first).sum()), sum(parts["count"].to_pylist()) - len(there)
    longest = np.lexsort((first, first - beyond))[:limit]
    rows: list[tuple[int | None, ...]] = [(block, int(there[0]), int(there[-1]) + 1, absent, len(steps), repeated)]
    rows += [
        (block, one, other, None, None, None)
        for one, other in zip(first[longest].tolist(), beyond[longest].tolist(), strict=True)
    ]
    names = ["block", "first", "next", "absent", "ranges", "repeated"]
    return pa.table([pa.array(column, pa.int64()) for column in zip(*rows, strict=True)], names=names)
