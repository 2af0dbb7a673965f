"""How fast `hub spark archive` and `hub spark report` are: a table of rates, and of CPU time for each message.

    python tests/benchmarks/spark_jobs.py [--messages 6000000] [--repeat 3] [--only archive,tables,decode,report]

A hub with a journal in a process of its own, one local session with two cores, messages of 100 bytes on 40 topics
(those that are decoded: maps of 10 fields). The first run of each is told apart: Java has compiled nothing yet then.
CPU time is that of this process and all that it has started: hub, readers, Java and Spark's Python.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

PROJECT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT))

from hub.batch import encode_value, encode_values  # noqa: E402 -- run as a script, it finds the project first
from peers.spark.archiving.archive import archive  # noqa: E402 -- the same
from peers.spark.archiving.state import ArchiveOrder  # noqa: E402 -- the same
from peers.spark.report.survey import Questions, survey  # noqa: E402 -- the same
from peers.spark.session import Job, SessionSettings, running_job  # noqa: E402 -- the same
from peers.spark.summary import amount, columns, show  # noqa: E402 -- the same
from tests.benchmarks.spark_connector import (  # noqa: E402 -- the same
    BATCH_MESSAGES,
    PIECE_MESSAGES,
    TOPICS,
    VALUE_BYTES,
    record,
)
from tests.spark.hubs import HubWithJournal  # noqa: E402 -- the same

Row = tuple[str, str, str, str]


class Bench:
    """One session, one hub, and what both work on."""

    def __init__(self, job: Job, hub: HubWithJournal, folder: Path, messages: int, repeat: int) -> None:
        self.job = job
        self.hub = hub
        self.folder = folder
        self.messages = messages
        self.repeat = repeat

    def fill(self, prefix: str, value_of: Callable[[random.Random], object], messages: int) -> None:
        """Have messages recorded, the same piece of them again and again."""
        source = random.Random(7)  # noqa: S311 -- it is to be repeatable
        frames = b"".join(
            encode_values((prefix + topic).encode(), [encode_value(value_of(source)) for _ in range(BATCH_MESSAGES)])
            for topic in TOPICS
        )
        record(self.hub.url, prefix, frames, messages // PIECE_MESSAGES)

    def measured(self, what: str, messages: int, work: Callable[[], object]) -> Iterator[Row]:
        """Run something that works on messages, several times."""
        rates, costs = [], []
        for _ in range(self.repeat + 1):
            cpu_s, begun_s = _cpu_s(os.getpid()), time.perf_counter()
            work()
            rates.append(messages / (time.perf_counter() - begun_s))
            costs.append((_cpu_s(os.getpid()) - cpu_s) / messages * 1e6)
        load = f"load {os.getloadavg()[0]:.1f}"
        yield f"{what}, the first run", f"{rates[0]:,.0f}", f"{costs[0]:.2f}", load
        seen = ", ".join(map(amount, rates[1:]))
        yield what, amount(median(rates[1:])), f"{median(costs[1:]):.2f}", f"{seen}; {load}"

    def _archive(self, **given: object) -> str:
        path = tempfile.mkdtemp(dir=self.folder)
        archive(self.job, ArchiveOrder(url=self.hub.url, path=path, **given))  # type: ignore[arg-type]
        return path

    def _thrown(self, **given: object) -> None:
        shutil.rmtree(self._archive(**given))

    # What is measured.

    def archive(self) -> Iterator[Row]:
        """Values as they came."""
        yield from self.measured("archive", self.messages, lambda: self._thrown(topics=("/plain",)))

    def tables(self) -> Iterator[Row]:
        """The same, each topic in a table."""
        yield from self.measured(
            "archive --table-by topic, 40 tables",
            self.messages,
            lambda: self._thrown(topics=("/plain",), table_by=0),
        )

    def decode(self) -> Iterator[Row]:
        """Typed columns."""
        count = self.messages // 5
        self.fill("/maps", _fields, count)
        given = {"topics": ("/maps",), "decode": True, "starting": str(self.messages)}
        yield from self.measured("archive --decode, 10 fields", count, lambda: self._thrown(**given))
        yield from self.measured(
            "archive --decode --table-by topic, 40 tables", count, lambda: self._thrown(**given, table_by=0)
        )

    def report(self) -> Iterator[Row]:
        """What an archive holds."""
        path = self._archive(topics=("/plain",))
        asked = lambda: survey(self.job.spark, path, Questions(), self.job.progress)  # noqa: E731
        yield from self.measured("report", self.messages, asked)


def _fields(source: random.Random) -> dict[str, object]:
    numbers = {f"n{number}": source.randrange(1_000) for number in range(5)}
    return numbers | {f"text{number}": f"word {source.randrange(100)}" for number in range(5)}


def _cpu_s(pid: int) -> float:
    """Return the CPU time of a process and of all that it has started."""
    used: dict[int, int] = {}
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        process = int(stat.parent.name)
        used[process] = sum(map(int, fields[11:15]))
        children.setdefault(int(fields[1]), []).append(process)
    found, total = [pid], 0
    while found:
        process = found.pop()
        total += used.get(process, 0)
        found += children.get(process, ())
    return total / os.sysconf("SC_CLK_TCK")


PARTS = ("archive", "tables", "decode", "report")


def main() -> None:
    """Measure what is asked for, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=6_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", default=",".join(PARTS), help="comma list of " + ", ".join(PARTS))
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="spark-jobs-", dir=os.environ.get("TMPDIR", "/tmp")))  # noqa: S108 -- asked
    rows: list[Row] = []
    try:
        with (
            HubWithJournal(folder / "journal") as hub,
            running_job(SessionSettings(name="benchmark", master="local[2]")) as job,
        ):
            bench = Bench(job, hub, folder, given.messages // PIECE_MESSAGES * PIECE_MESSAGES, given.repeat)
            job.progress.tell("filling the journal")
            bench.fill("/plain", lambda source: source.randbytes(VALUE_BYTES - 2), bench.messages)
            for part in given.only.split(","):
                job.progress.tell(part)
                for row in getattr(bench, part)():
                    rows.append(row)
                    print(*row, sep="  ", file=sys.stderr, flush=True)  # noqa: T201 -- it takes minutes
    finally:
        shutil.rmtree(folder)
    show(columns(("", "messages/s", "µs of CPU a message", "seen"), rows))


if __name__ == "__main__":
    main()
