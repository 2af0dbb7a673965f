"""How fast `format("hub")` reads and writes: a table.

    python tests/benchmarks/spark_connector.py [--messages 2000000] [--repeat 3] [--only batch,tier] [--master local[2]]

A hub with a journal in a process of its own, one local session with two cores, messages of 100 bytes on 40 topics of
about 20 bytes. Rates are medians, after one run that is not counted; Spark's sink that drops everything is `noop`.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from rich.progress import track

PROJECT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT))

from hub.batch import encode_value, encode_values  # noqa: E402 -- run as a script, it finds the project first
from peers.bench.plan import Plan  # noqa: E402 -- the same
from peers.bench.stage import Stage  # noqa: E402 -- the same
from peers.client.blocking import connect  # noqa: E402 -- the same
from peers.journal.store import Segmenting, Store  # noqa: E402 -- the same
from peers.journal.tier.copier import Copier, TierRetention  # noqa: E402 -- the same
from peers.journal.tier.place import place_at  # noqa: E402 -- the same
from peers.spark.archiving.query import CHEAP_CHECKPOINTS  # noqa: E402 -- the same
from peers.spark.session import SessionSettings, running_job  # noqa: E402 -- the same
from peers.spark.summary import amount, columns, show  # noqa: E402 -- the same
from tests.journal.files import ALL  # noqa: E402 -- the same
from tests.spark.hubs import HubWithJournal  # noqa: E402 -- the same

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOPICS = [f"/bench/sensor/{number:05}" for number in range(40)]
VALUE_BYTES = 100
BATCH_MESSAGES = 50
PIECE_MESSAGES = len(TOPICS) * BATCH_MESSAGES
COMMITTED_PIECES = 20
STEPS = 40
WARM_STEPS = 10

Row = tuple[str, str, str, str]
"""A row says what was measured, the unit, the median, and all values."""


class Bench:
    """One session, one hub, and what both work on."""

    def __init__(self, spark: SparkSession, hub: HubWithJournal, folder: Path, messages: int, repeat: int) -> None:
        self.spark = spark
        self.hub = hub
        self.folder = folder
        self.messages = messages
        self.repeat = repeat

    def fill(self) -> None:
        """Have the messages recorded, the same ones each time."""
        frames = _piece(random.Random(7))  # noqa: S311 -- it is to be repeatable
        record(self.hub.url, "fill", frames, self.messages // PIECE_MESSAGES)

    def read(self, schema: str | None = None, **options: object) -> DataFrame:
        """Return the messages as a DataFrame."""
        given = {"url": self.hub.url, "topics": "/bench/", **options}
        reader = self.spark.read if schema is None else self.spark.read.schema(schema)
        return reader.format("hub").options(**given).load()  # type: ignore[arg-type]

    def stream(self, **options: object) -> DataFrame:
        """Return the messages as a stream."""
        given = {"url": self.hub.url, "startingOffsets": "earliest", **options}
        return self.spark.readStream.format("hub").options(**given).load()  # type: ignore[arg-type]

    def checkpoint(self) -> str:
        """Return a folder for a checkpoint, a new one each time."""
        return tempfile.mkdtemp(dir=self.folder)

    def rates(self, what: str, work: Callable[[], object]) -> Row:
        """Run something that works on all messages, several times."""
        seen = [self.messages / seconds(work) for _ in range(self.repeat + 1)][1:]
        return what, "rows/s", amount(median(seen)), ", ".join(map(amount, seen))

    # What is measured.

    def batch(self) -> Iterator[Row]:
        """Measure batch reads."""
        for partitions in (1, 2, 4):
            frame = self.read(minPartitions=partitions)
            yield self.rates(f"batch → noop, {partitions} partitions", lambda frame=frame: noop(frame))  # type: ignore[misc]
        pruned = self.read("offset BIGINT, topic STRING")
        yield self.rates("batch → noop, offset and topic", lambda: noop(pruned))
        path = str(self.folder / "parquet")
        yield self.rates(
            "batch → Parquet zstd",
            lambda: self.read().write.option("compression", "zstd").mode("overwrite").parquet(path),
        )
        yield self.rates("batch → noop, decode=json", lambda: noop(self.read(decode="json")))

    def tier(self) -> Iterator[Row]:
        """Measure batch reads of a tier, whose files tasks read themselves."""
        tier = self.folder / "tier"
        _fill_tier(self.folder / "tiered", tier, self.messages)
        with HubWithJournal(self.folder / "tiered", "--journal-tier", str(tier)) as hub:
            tiered = Bench(self.spark, hub, self.folder, self.messages, self.repeat)
            frame = tiered.read(tier=str(tier))
            yield tiered.rates("batch of a tier → noop", lambda: noop(frame))
            two = tiered.read("offset BIGINT, topic STRING", tier=str(tier))
            yield tiered.rates("the same, offset and topic", lambda: noop(two))
            files = self.spark.read.parquet(*map(str, tier.glob("*/data")))
            yield tiered.rates("its files by Spark's own reader → noop", lambda: noop(files))
            one = tiered.read(tier=str(tier), topics=TOPICS[0])
            yield tiered.rates("the same, one topic of 40; rows passed over count, too", lambda: noop(one))

    def availablenow(self) -> Iterator[Row]:
        """Measure streams of what is there."""

        def run(offsets: int) -> None:
            written = self.stream(maxOffsetsPerTrigger=offsets).writeStream.format("noop")
            query = written.option("checkpointLocation", self.checkpoint()).trigger(availableNow=True).start()
            query.awaitTermination()

        for offsets in (self.messages, 500_000, 100_000):
            yield self.rates(f"availableNow → noop, {amount(offsets)} offsets a trigger", lambda n=offsets: run(n))  # type: ignore[misc]

    def overhead(self) -> Iterator[Row]:
        """Measure what a micro-batch of 10 rows costs, also with checkpoints as the jobs of this project write them."""
        yield self._overhead("micro-batch of 10 rows")
        for key, value in CHEAP_CHECKPOINTS.items():
            self.spark.conf.set(key, value)
        yield self._overhead("the same, with the setting for checkpoints of docs/spark.md")
        for key in CHEAP_CHECKPOINTS:
            self.spark.conf.unset(key)

    def _overhead(self, what: str) -> Row:
        stream = self.stream(startingOffsets="latest")
        query = (
            stream.writeStream.format("noop")
            .option("checkpointLocation", self.checkpoint())
            .trigger(processingTime="10 milliseconds")
            .start()
        )
        with connect(self.hub.url) as client:
            wait(lambda: query.isActive and query.lastProgress is not None)
            for step in range(STEPS):
                for number in range(10):
                    client.publish("/step", number)
                wait(lambda step=step: total_rows(query) >= 10 * (step + 1))  # type: ignore[misc]
        took = [each["durationMs"]["triggerExecution"] for each in query.recentProgress if each["numInputRows"]]
        query.stop()
        took = took[WARM_STEPS:]
        return what, "ms", amount(median(took)), f"{min(took)} to {max(took)}, {len(took)} of them"

    def latency(self) -> Iterator[Row]:
        """Measure the time from publishing a message to seeing it in `foreachBatch`."""
        seen: dict[int, float] = {}
        arrived = threading.Condition()

        def look(frame: DataFrame, _: int) -> None:
            numbers = [int(row.value) for row in frame.select("value").collect()]
            with arrived:
                seen.update(dict.fromkeys(numbers, time.perf_counter()))
                arrived.notify_all()

        stream = self.stream(startingOffsets="latest", topics="/latency", decode="json")
        query = stream.writeStream.foreachBatch(look).option("checkpointLocation", self.checkpoint()).start()
        sent: dict[int, float] = {}
        source = random.Random(7)  # noqa: S311 -- it is to be repeatable
        with connect(self.hub.url) as client:
            wait(lambda: query.lastProgress is not None)
            for number in range(STEPS + WARM_STEPS):
                time.sleep(source.uniform(0.2, 0.5))
                sent[number] = time.perf_counter()
                client.publish("/latency", number)
                with arrived:
                    arrived.wait_for(lambda number=number: number in seen, 10)  # type: ignore[misc]
        query.stop()
        took = sorted((seen[number] - sent[number]) * 1000 for number in range(WARM_STEPS, STEPS + WARM_STEPS))
        yield (
            "published → seen in foreachBatch",
            "ms, p50",
            amount(median(took)),
            f"p95 {took[int(len(took) * 0.95)]:.0f}",
        )

    def beside(self) -> Iterator[Row]:
        """Measure the latency of a live stream while all of the journal is read again and again."""
        quiet, busy = [], []
        plan = Plan(urls=(self.hub.url,), messages=100_000, rate=20_000, size=VALUE_BYTES)
        with Stage(plan) as stage:
            for _ in range(self.repeat):
                quiet.append(p99_us(stage))
                with self.reading():
                    busy.append(p99_us(stage))
        for what, seen in (("alone", quiet), ("beside batch → noop", busy)):
            yield f"live p99 at 20,000 messages/s, {what}", "µs", amount(median(seen)), ", ".join(map(amount, seen))

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Read in a thread, again and again, for as long as something lasts."""
        over = threading.Event()

        def read() -> None:
            while not over.is_set():
                noop(self.read(minPartitions=2))

        thread = threading.Thread(target=read)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def sink(self) -> Iterator[Row]:
        """Measure batch and streaming writes, to another hub, so that what is read stays the same."""
        with HubWithJournal(self.folder / "other") as other:
            yield from self.writes(other)

    def writes(self, other: HubWithJournal) -> Iterator[Row]:
        """Write to a hub."""
        path = str(self.folder / "copy")
        self.read().withColumnRenamed("topic", "was").selectExpr("concat('/copy', was) AS topic", "value").write.mode(
            "overwrite"
        ).parquet(path)
        frame = self.spark.read.parquet(path)

        def write() -> None:
            frame.write.format("hub").options(url=other.url).mode("append").save()

        yield self.rates("Parquet → hub, batch", write)
        yield self.rates("Parquet → noop, for comparison", lambda: noop(frame))
        text = frame.selectExpr("topic", "concat('{\"text\":\"', hex(value), '\"}') AS value")
        yield self.rates(
            "JSON text → hub, batch",
            lambda: text.write.format("hub").options(url=other.url).mode("append").save(),
        )

        def stream() -> None:
            copied = self.stream().selectExpr("concat('/again', topic) AS topic", "value")
            written = copied.writeStream.format("hub").option("url", other.url)
            query = written.option("checkpointLocation", self.checkpoint()).trigger(availableNow=True).start()
            query.awaitTermination()

        yield self.rates("hub → another hub, stream, availableNow", stream)


_SEGMENT_BYTES = 16 * 1024 * 1024


def _fill_tier(journal: Path, tier: Path, messages: int) -> None:
    """Have the messages recorded and copied; what is not sealed, and so not copied, is less than a segment."""
    store = Store(str(journal), full_sync=False, retention=ALL, segmenting=Segmenting(_SEGMENT_BYTES, 1 << 60))
    source = random.Random(7)  # noqa: S311 -- it is to be repeatable
    for number in track(range(messages // PIECE_MESSAGES), "recording"):
        store.add([(number, _piece(source))])
        store.commit(now_us=number)
    store.close()
    tier.mkdir()
    copier = Copier(str(journal), place_at(str(tier)), TierRetention(0, 0))
    while copier.step(0):
        pass
    copier.close()


def record(url: str, transaction: str, frames: bytes, pieces: int) -> None:
    """Have the same frames recorded so often."""
    with connect(url) as client:
        for first in range(0, pieces, COMMITTED_PIECES):
            parts = list(range(first, min(pieces, first + COMMITTED_PIECES)))
            for part in parts:
                client.stage(transaction, part, frames)
            client.commit(transaction, parts)


def _piece(source: random.Random) -> bytes:
    """Return frames for `PIECE_MESSAGES`, with values that nothing can compress."""
    return b"".join(
        encode_values(topic.encode(), [encode_value(source.randbytes(VALUE_BYTES - 2)) for _ in range(BATCH_MESSAGES)])
        for topic in TOPICS
    )


def noop(frame: DataFrame) -> None:
    """Read it and drop it."""
    frame.write.format("noop").mode("overwrite").save()


def p99_us(stage: Stage) -> float:
    """Run the stream once."""
    latency = stage.measure(rate=20_000).latency
    return latency.p99_us if latency is not None else 0.0


def seconds(work: Callable[[], object]) -> float:
    """Return how long it takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def total_rows(query: object) -> int:
    """Return the rows of a query's batches so far."""
    return sum(each["numInputRows"] for each in query.recentProgress)  # type: ignore[attr-defined]


def wait(condition: Callable[[], object]) -> None:
    """Wait until something is the case."""
    while not condition():
        time.sleep(0.01)


PARTS = ("batch", "tier", "availablenow", "overhead", "latency", "beside", "sink")


def main() -> None:
    """Measure what is asked for, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=2_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", default=",".join(PARTS), help="comma list of " + ", ".join(PARTS))
    parser.add_argument("--master", default="local[2]", help="of Spark, such as 'local-cluster[2,1,1024]'")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="spark-connector-", dir=os.environ.get("TMPDIR", "/tmp")))  # noqa: S108 -- asked
    rows: list[Row] = []
    try:
        with (
            HubWithJournal(folder / "journal") as hub,
            running_job(SessionSettings(name="benchmark", master=given.master)) as job,
        ):
            bench = Bench(job.spark, hub, folder, given.messages, given.repeat)
            parts = given.only.split(",")
            if parts != ["tier"]:  # which has a journal of its own
                job.progress.tell("filling the journal")
                bench.fill()
            for part in parts:
                job.progress.tell(part)
                for row in getattr(bench, part)():
                    rows.append(row)
                    print(*row, sep="  ", file=sys.stderr)  # noqa: T201 -- it takes minutes
    finally:
        shutil.rmtree(folder)
    show(columns(("", "unit", "median", "seen"), rows))


if __name__ == "__main__":
    main()
