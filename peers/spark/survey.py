"""`survey`: ask an archive for everything that a report shows, in three scans: topics, cells of time, offsets.

A cell is no wider than a gap, so a gap is not within a cell: it begins at the last message of one and ends at the first
of another. Offsets are marked in blocks of 65,536. So gaps and absent offsets are found exactly, without sorting.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own name for it

from hub.errors import UsageError
from peers.spark.archiving.folders import EVERYTHING, Selection, root_of
from peers.spark.findings import OTHERS, Findings, Gap, Missing, Offsets, Rate, Traffic, round_width_s
from peers.spark.progress import JobProgress
from peers.spark.scan import Chosen, Numbers, Scan

# Most that is listed.
ROOTS_LIMIT = 1_000
GAPS_LIMIT = 10_000
RANGES_LIMIT = 10_000

# Roots that have rates of their own.
ROOTS_RATED = 50

# Buckets over the whole time, at most: three pixels each in a drawing.
BUCKETS = 240

# The place of an offset within a block has 16 bits.
BLOCK_OFFSETS = 65_536

# So many groups of single batches are held before they are added up.
_HELD_ROWS = 256 * 1024

_SUMS = "messages BIGINT, bytes BIGINT, first_us BIGINT, last_us BIGINT"


@dataclass(frozen=True, kw_only=True)
class Questions:
    """The questions of a report."""

    selection: Selection = EVERYTHING
    gap_us: int = 60_000_000
    """Longer stretches are gaps; 1 or more."""
    top: int = 10


def survey(spark: SparkSession, archive: str, questions: Questions, progress: JobProgress) -> Findings:
    """Ask an archive; raise `UsageError` if there is none, or it has no messages."""
    selection, top = questions.selection, questions.top
    scan = Scan(spark, archive, selection)
    with ExitStack() as kept:
        progress.step("grouping by topic")
        topics = scan.run(_by_topic, f"root STRING, topic STRING, {_SUMS}", "sizes")
        topics = topics.groupBy("root", "topic").agg(*_sums()).persist()
        kept.callback(topics.unpersist)
        (total,) = topics.agg(F.lit("").alias("name"), *_sums(), F.count("*").alias("topics")).collect()
        if not total.topics:
            raise UsageError(f"{archive}: there are no messages: {selection.words()}")
        by_root = topics.groupBy(F.col("root").alias("name")).agg(*_sums())
        by_name = topics.withColumnRenamed("topic", "name")
        roots = _most(by_root, "messages", ROOTS_LIMIT)
        by_messages, by_bytes = _most(by_name, "messages", top), _most(by_name, "bytes", top)
        progress.step("looking for rates and gaps")
        bucket_us = round_width_s(total.last_us - total.first_us, BUCKETS) * 1_000_000
        talkers = {topic.name for topic in (*by_messages, *by_bytes)}
        cell_us = max(1, bucket_us // -(-bucket_us // questions.gap_us))
        schema = f"root STRING, talker STRING, start_us BIGINT, cell BIGINT, {_SUMS}"
        cells = scan.run(partial(_by_cell, bucket_us, cell_us, talkers), schema, "sizes")
        cells = cells.groupBy("root", "talker", "start_us", "cell").agg(*_sums()).persist()
        kept.callback(cells.unpersist)
        root = F.col("root")
        rated = F.when(root.isin([root.name for root in roots[:ROOTS_RATED]]), root).otherwise(OTHERS)
        root_rates = _rates(cells.withColumn("name", rated))
        topic_rates = _rates(cells.where("talker IS NOT NULL").withColumnRenamed("talker", "name"))
        gaps, gaps_count = _gaps(cells, questions.gap_us)
        progress.step("looking for absent offsets")
        offsets = find_offsets(scan, RANGES_LIMIT)
    return Findings(
        archive=archive,
        selected=selection.words(),
        total=_traffic(total),
        topics=total.topics,
        roots=roots,
        by_messages=by_messages,
        by_bytes=by_bytes,
        bucket_us=bucket_us,
        root_rates=root_rates,
        topic_rates=topic_rates,
        gap_us=questions.gap_us,
        gaps=gaps,
        gaps_count=gaps_count,
        offsets=offsets,
        event_time=scan.event_time,
    )


def _sums() -> tuple[Column, ...]:
    return (
        F.sum("messages").alias("messages"),
        F.sum("bytes").alias("bytes"),
        F.min("first_us").alias("first_us"),
        F.max("last_us").alias("last_us"),
    )


def _most(table: DataFrame, by: str, limit: int) -> tuple[Traffic, ...]:
    return tuple(map(_traffic, table.orderBy(F.desc(by), "name").limit(limit).collect()))


def _traffic(row: Any) -> Traffic:
    return Traffic(row.name, row.messages, row.bytes, row.first_us, row.last_us)


# In the tasks: sums of the groups of each batch, then of several batches.


def _by_topic(batches: Iterator[Chosen]) -> Iterator[pa.RecordBatch]:
    def parts() -> Iterator[pa.Table]:
        for batch in batches:
            found = _summed({"topic": pa.array(batch.numbers)}, batch)
            topics = pa.array(batch.topics, pa.string()).take(found.column("topic"))
            roots = pa.array(map(root_of, topics.to_pylist()), pa.string())
            yield found.set_column(0, "topic", topics).add_column(0, "root", roots)

    return _added_up(parts(), ["root", "topic"])


def _by_cell(bucket_us: int, cell_us: int, talkers: set[str], batches: Iterator[Chosen]) -> Iterator[pa.RecordBatch]:
    def parts() -> Iterator[pa.Table]:
        for batch in batches:
            if not batch.topics:
                continue
            names = [(root_of(topic), topic if topic in talkers else None) for topic in batch.topics]
            numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
            number_of = np.array([numbers[name] for name in names], np.int32)
            into_us = batch.times_us % bucket_us
            keys = {
                "name": pa.array(number_of[batch.numbers]),
                "start_us": pa.array(batch.times_us - into_us),
                "cell": pa.array(into_us // cell_us),
            }
            found = _summed(keys, batch)
            number = found.column("name")
            roots, named = (pa.array(texts, pa.string()).take(number) for texts in zip(*numbers, strict=True))
            yield found.set_column(0, "talker", named).add_column(0, "root", roots)

    return _added_up(parts(), ["root", "talker", "start_us", "cell"])


def _summed(keys: dict[str, pa.Array], batch: Chosen) -> pa.Table:
    rows = pa.table({**keys, "bytes": batch.sizes, "first_us": batch.times_us})
    sums = [("bytes", "count"), ("bytes", "sum"), ("first_us", "min"), ("first_us", "max")]
    found = rows.group_by(list(keys), use_threads=False).aggregate(sums)
    return found.rename_columns([*keys, "messages", "bytes", "first_us", "last_us"])


def _added_up(parts: Iterable[pa.Table], keys: Sequence[str]) -> Iterator[pa.RecordBatch]:
    sums = [("messages", "sum"), ("bytes", "sum"), ("first_us", "min"), ("last_us", "max")]
    held: list[pa.Table] = []
    rows = 0

    def merged() -> pa.Table:
        found = pa.concat_tables(held).group_by(list(keys), use_threads=False).aggregate(sums)
        return found.rename_columns([*keys, *(name for name, _ in sums)])

    for part in parts:
        held.append(part)
        rows += len(part)
        if rows >= _HELD_ROWS:
            whole = merged()
            if len(whole) > _HELD_ROWS // 2:
                yield from whole.to_batches()
                held, rows = [], 0
            else:
                held, rows = [whole], len(whole)
    if held:
        yield from merged().to_batches()


# Rates and gaps.


def _rates(cells: DataFrame) -> tuple[Rate, ...]:
    rates = cells.groupBy("name", "start_us").agg(F.sum("messages"), F.sum("bytes"))
    return tuple(sorted(Rate(*row) for row in rates.collect()))


def _gaps(cells: DataFrame, gap_us: int) -> tuple[tuple[Gap, ...], int]:
    ends = cells.groupBy("root", "start_us", "cell").agg(
        F.min("first_us").alias("next_us"), F.max("last_us").alias("cell_last_us")
    )
    before = F.lag("cell_last_us").over(Window.partitionBy("root").orderBy("next_us"))
    length = F.col("next_us") - F.col("last_us")
    gaps = ends.withColumn("last_us", before).where(length > gap_us).select("root", "last_us", "next_us")
    longest = gaps.orderBy(length.desc(), "root", "last_us").limit(GAPS_LIMIT).collect()
    return tuple(Gap(*row) for row in longest), len(longest) if len(longest) < GAPS_LIMIT else gaps.count()


# Absent offsets.


def find_offsets(scan: Scan, limit: int) -> Offsets:
    """Return which offsets of all topics are there, one or more; not more than `limit` absent ranges are listed."""
    size = BLOCK_OFFSETS

    def merged(parts: pa.Table) -> pa.Table:  # Spark reads the types
        return _merged(size, limit, parts)

    schema = "block BIGINT, first BIGINT, next BIGINT, absent BIGINT, ranges BIGINT, repeated BIGINT"
    places = scan.run(partial(_places, size), "block BIGINT, count BIGINT, places BINARY", "offsets", all_topics=True)
    found = places.groupBy("block").applyInArrow(merged, schema).persist()
    try:
        blocks = sorted(found.where("ranges IS NOT NULL").collect())  # by their numbers; they are few
        length = F.col("next") - F.col("first")
        holes = found.where("ranges IS NULL").orderBy(length.desc(), "first").limit(limit).collect()
    finally:
        found.unpersist()
    between = [Missing(one.next, other.first) for one, other in pairwise(blocks) if other.first > one.next]
    longest = [*between, *(Missing(hole.first, hole.next) for hole in holes)]
    longest.sort(key=lambda one: (one.first - one.next, one.first))
    return Offsets(
        blocks[0].first,
        blocks[-1].next - 1,
        sum(block.absent for block in blocks) + sum(one.next - one.first for one in between),
        sum(block.ranges for block in blocks) + len(between),
        sum(block.repeated for block in blocks),
        tuple(sorted(longest[:limit])),
    )


def _places(size: int, batches: Iterator[Chosen]) -> Iterator[pa.RecordBatch]:
    """Yield how many offsets each block has, and where: a bit for each, or numbers of 16 bits where these take less."""
    counts: defaultdict[int, int] = defaultdict(int)
    found: dict[int, bytes] = {}
    for batch in batches:
        offsets = np.sort(batch.offsets)
        numbers, begins = np.unique(offsets // size, return_index=True)
        ends = [*begins[1:].tolist(), len(offsets)]
        for block, begin, end in zip(numbers.tolist(), begins.tolist(), ends[: len(numbers)], strict=True):
            counts[block] += end - begin
            places = (offsets[begin:end] - block * size).astype(np.uint16)
            found[block] = _added(found.get(block, b""), places, size)
    columns = [pa.array(list(counts), pa.int64()), pa.array(list(counts.values()), pa.int64())]
    yield pa.record_batch([*columns, pa.array(list(found.values()), pa.binary())], names=["block", "count", "places"])


def _added(held: bytes, places: Numbers, size: int) -> bytes:
    bits = size // 8
    if len(held) != bits and len(held) + places.nbytes < bits:
        return held + places.tobytes()
    present = _present(held, size)
    present[places] = True
    return np.packbits(present).tobytes()


def _present(places: bytes, size: int) -> Numbers:
    if len(places) == size // 8:
        return np.unpackbits(np.frombuffer(places, np.uint8)).astype(bool)
    present = np.zeros(size, bool)
    present[np.frombuffer(places, np.uint16)] = True
    return present


def _merged(size: int, limit: int, parts: pa.Table) -> pa.Table:
    """Return a row for a block: the absent offsets between its first and last one; and one for each hole in there."""
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
