"""An archive as windows of offsets, each small enough to be held here and in order.

One pass finds how many messages there are, and how large; a second one where to cut, for they may be dense here and
sparse there. Then each window is read by all tasks of Spark, skipping files and parts of files by their statistics, and
sorted here. The next one is read while the last one is published.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F  # noqa: N812 -- Spark's own name for it

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

__all__ = ["WINDOW_BYTES", "WINDOW_MESSAGES", "Extent", "extent_of", "windows"]

WINDOW_MESSAGES = 500_000
WINDOW_BYTES = 64 * 1024 * 1024
"""Of values, on average: two windows are held, in Java and here."""

_COLUMNS = ("offset", "timestamp", "topic", "value")
_ACCURACY = 10_000


class Extent(NamedTuple):
    """How much there is to replay."""

    messages: int
    bytes: int
    """Of values."""
    first: int
    """The lowest offset."""
    last: int


def extent_of(frame: DataFrame) -> Extent:
    """Return how much there is; nothing is from 0 to -1."""
    (counted,) = frame.agg(F.count("*"), F.sum("size"), F.min("offset"), F.max("offset")).collect()
    messages, size, first, last = counted
    return Extent(messages, size or 0, first or 0, -1 if last is None else last)


def windows(frame: DataFrame, extent: Extent) -> Iterator[pa.Table]:
    """Yield the messages in windows, ascending, each sorted by offset.

    Args:
        frame: With the columns of an archive.
        extent: Of it.
    """
    with ThreadPoolExecutor(1, "window") as pool:
        ahead: Future[pa.Table] | None = None
        for start, end in pairwise(_cuts(frame, extent)):
            reading = pool.submit(_read, frame, start, end)
            if ahead is not None:
                yield ahead.result()
            ahead = reading
        if ahead is not None:
            yield ahead.result()


def _cuts(frame: DataFrame, extent: Extent) -> list[int]:
    """Return the offsets that windows begin at, and the one behind the last; none if there is nothing."""
    if not extent.messages:
        return []
    count = max(-(-extent.messages // WINDOW_MESSAGES), -(-extent.bytes // WINDOW_BYTES))
    cuts = [extent.first, extent.last + 1]
    if count > 1:
        shares = [number / count for number in range(1, count)]
        (found,) = frame.agg(F.percentile_approx("offset", shares, _ACCURACY)).collect()
        cuts += found[0]
    return sorted(set(cuts))


def _read(frame: DataFrame, start: int, end: int) -> pa.Table:
    offset = F.col("offset")
    window = frame.where((offset >= start) & (offset < end)).select(*_COLUMNS).toArrow()
    return window.sort_by("offset")
