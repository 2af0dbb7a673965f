"""How fast an archive is matched with subscriptions: `hub spark route` without its command line.

    python tests/benchmarks/spark_route.py [--messages 5000000] [--repeat 3] [--prefixes 100 1000 10000]

An archive of messages of 100 bytes on 10,000 topics, of which few make up most, is made once under build/. Everything
that depends on the subscriptions is measured, from their file's content to the last delivery: topics are found and
matched each time. Deliveries go to Spark's sink that drops them. CPU time is that of all processes: where other work
shares the machine, it says more than the rate.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

PROJECT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT))

from peers.spark.archive_files import read_archive  # noqa: E402 -- run as a script, it finds the project first
from peers.spark.routing.matcher import Matcher  # noqa: E402 -- the same
from peers.spark.routing.route import route  # noqa: E402 -- the same
from peers.spark.routing.subscriptions import Subscriptions  # noqa: E402 -- the same
from peers.spark.session import SessionSettings, running_job  # noqa: E402 -- the same
from peers.spark.summary import columns, rate, show  # noqa: E402 -- the same
from tests.spark.archives import NOON_US, SCHEMA, write_part  # noqa: E402 -- the same

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TOPICS = 10_000
ROOTS = ("app", "bench", "iot", "log", "metrics", "zeek")
VALUE_BYTES = 100
FILE_MESSAGES = 500_000
STEP_US = 200
"""The time between two messages."""


def topic_names() -> list[str]:
    """Make topics of 2 to 5 components, always the same ones."""
    source = random.Random(7)  # noqa: S311 -- it is to be repeatable
    names: set[str] = set()
    while len(names) < TOPICS:
        parts = [f"{source.choice('abcdefgh')}{source.randint(0, 40)}" for _ in range(source.randint(1, 4))]
        names.add("/".join(["", source.choice(ROOTS), *parts]))
    return source.sample(sorted(names), TOPICS)


def make_archive(path: Path, messages: int) -> None:
    """Write it; topic n is n times as rare as the first."""
    numbers = np.random.default_rng(7)
    names = topic_names()
    roots = pa.array([name.split("/")[1] for name in names])
    shares = 1 / np.arange(1, TOPICS + 1)
    shares /= shares.sum()
    for batch, first in enumerate(range(0, messages, FILE_MESSAGES)):
        count = min(FILE_MESSAGES, messages - first)
        topic_numbers = pa.array(numbers.choice(TOPICS, size=count, p=shares))
        offsets = np.arange(first, first + count)
        content = numbers.integers(97, 123, size=VALUE_BYTES * count, dtype=np.uint8)
        ends = np.arange(0, VALUE_BYTES * count + 1, VALUE_BYTES, dtype=np.int32)
        values = pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(ends), pa.py_buffer(content)])
        times = pa.array(NOON_US + offsets * STEP_US, pa.timestamp("us", "UTC"))
        table = pa.table([pa.array(offsets), times, pa.array(names).take(topic_numbers), values], schema=SCHEMA)
        for root in ROOTS:
            part = table.filter(pc.equal(roots.take(topic_numbers), root))
            write_part(path / "date=2026-11-21" / f"root={root}" / f"batch={batch}" / "part-0.parquet", part)


def made_archive(messages: int) -> Path:
    """Return where it is; it is made if it is not there."""
    path = PROJECT / "build" / f"spark-route-{messages}"
    if not path.exists():
        begun = path.with_suffix(".begun")
        shutil.rmtree(begun, ignore_errors=True)
        make_archive(begun, messages)
        begun.rename(path)
    return path


def subscriptions(count: int) -> Subscriptions:
    """Make subscriptions, each of another name, to the beginning of some topic, half of it or more."""
    source = random.Random(3)  # noqa: S311 -- it is to be repeatable
    names = topic_names()

    def prefix() -> str:
        name = source.choice(names)
        return name[: source.randint(len(name) // 2, len(name))]

    return Subscriptions.of((f"subscriber-{number}", prefix()) for number in range(count))


def drop(frame: DataFrame) -> None:
    """Have Spark make all of it, and keep nothing."""
    frame.write.format("noop").mode("overwrite").save()


def works(messages: DataFrame, wanted: Subscriptions) -> dict[str, Callable[[], object]]:
    """What is measured."""
    return {
        "lists of subscribers": lambda: drop(route(messages, Matcher(wanted), sized=False).lists()),
        "pairs": lambda: drop(route(messages, Matcher(wanted), sized=False).pairs()),
        "counts and bytes": lambda: route(messages, Matcher(wanted)).totals(),
    }


def used_cpu_s() -> float:
    """Return the CPU time of this process and all that it has started: Java, and the workers of that."""
    stats = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            stats[int(entry.parent.name)] = entry.read_text().rpartition(")")[2].split()
    mine = {os.getpid()}
    while more := {pid for pid, fields in stats.items() if int(fields[1]) in mine and pid not in mine}:
        mine |= more
    return sum(sum(map(int, stats[pid][11:15])) for pid in mine) / os.sysconf("SC_CLK_TCK")


def measured(work: Callable[[], object], repeat: int) -> tuple[float, float]:
    """Return the median time of several runs, and of their CPU time, s, after one that warms up."""
    elapsed_s, cpu_s = [], []
    for _ in range(repeat + 1):
        begun, used_s = time.perf_counter(), used_cpu_s()
        work()
        elapsed_s.append(time.perf_counter() - begun)
        cpu_s.append(used_cpu_s() - used_s)
    return median(elapsed_s[1:]), median(cpu_s[1:])


def main() -> None:
    """Measure, and print a table."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--messages", type=int, default=5_000_000)
    options.add_argument("--repeat", type=int, default=3)
    options.add_argument("--prefixes", type=int, nargs="+", default=[100, 1_000, 10_000])
    options.add_argument("--driver-memory", default="2g")
    options.add_argument("--many-topics", action="store_true", help="each message on a topic of its own")
    options.add_argument("--only", help="measure only what begins with this")
    given = options.parse_args()
    path = made_archive(given.messages)
    rows = []
    with running_job(SessionSettings(driver_memory=given.driver_memory)) as job:
        messages = read_archive(job.spark, str(path))
        if given.many_topics:
            messages = messages.selectExpr("offset", "concat(topic, '/', offset) AS topic", "value")
        for count in given.prefixes:
            wanted = subscriptions(count)
            routes = route(messages, Matcher(wanted), sized=False)
            share = routes.totals()[0].delivered / given.messages
            for what, work in works(messages, wanted).items():
                if not what.startswith(given.only or ""):
                    continue
                job.progress.tell(f"{count:,} prefixes: {what}")
                elapsed_s, cpu_s = measured(work, given.repeat)
                figures = (f"{elapsed_s:.2f}", f"{cpu_s:.2f}", rate(given.messages, elapsed_s))
                rows.append((f"{count:,}", f"{share:.1f}", routes.way, what, *figures))
    show(columns(("prefixes", "deliveries/message", "way", "what", "s", "CPU s", "messages/s"), rows))


if __name__ == "__main__":
    main()
