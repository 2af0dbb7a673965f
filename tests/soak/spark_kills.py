"""kill -9 of Spark's driver, Java and workers at random moments: each record stays there exactly once.

    python tests/soak/spark_kills.py [--kills 10] [--messages 200000] [--seed 1]

Three jobs, each killed so often and then run to its end: `hub spark archive`, the same with a table for each topic, and
a streaming query from a hub to itself.
The hub goes on. What is killed is the whole session of processes that was started, at a moment between the beginning of
a micro-batch and some time behind it; with tables, every other time when the first of them has its part of a batch, and
others may not. After each kill, readers of the archive must see nothing twice; in the end,
everything once.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

PROJECT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT))

import pyarrow.dataset  # noqa: E402 -- run as a script, it finds the project first

from tests.forked.servers import python_path  # noqa: E402 -- the same
from tests.spark.hubs import HubWithJournal  # noqa: E402 -- the same
from tests.spark.share_classes import QUICK_CONF  # noqa: E402 -- the same

OFFSETS_PER_TRIGGER = 10_000
QUICK = [word for name, value in QUICK_CONF.items() for word in ("--conf", f"{name}={value}")]
PATIENCE_S = 300.0
DELAY_S = 1.5
"""A micro-batch takes a half of it, or less."""

Say = Callable[[str], object]


class Job:
    """A program in a session of processes of its own.

    Args:
        command: Of it.
        scratch: Folder for what it leaves behind where it is killed.
    """

    def __init__(self, command: list[str], scratch: Path) -> None:
        self._log = scratch / "job.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                start_new_session=True,
                stdout=log,
                stderr=log,
                env=os.environ | python_path() | {"TMPDIR": str(scratch), "SPARK_LOCAL_DIRS": str(scratch)},
            )

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def wait(self) -> int:
        code = self._process.wait(PATIENCE_S)
        assert code == 0, f"the job failed:\n{self._log.read_text(errors='replace')[-4000:]}"
        return code

    def kill(self) -> int:
        killed: set[int] = set()
        while fresh := set(_session(self._process.pid)) - killed:
            for pid in fresh:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            killed |= fresh
        self._process.wait()
        return len(killed)


def _session(leader: int) -> Iterator[int]:
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[3]) == leader and fields[0] != "Z":
                yield int(stat.parent.name)


class Kills(NamedTuple):
    """How often a job is killed, at moments chosen by a seed, and how it is carried out to its end afterwards."""

    kills: int
    messages: int
    seed: int
    finish: Callable[[list[str]], int] | None = None
    """Runs the words of a command, without the program; returns its exit code. None: as a process of its own."""

    def end(self, command: list[str], scratch: Path) -> int:
        return self.finish(command) if self.finish else Job([sys.executable, *command], scratch).wait()


def kill_archive(folder: Path, given: Kills, say: Say = print, *, tables: int = 0) -> None:
    """Kill an archive job so often, then let it end, and look at the archive, which may have a table for each topic."""
    messages = given.messages
    with _filled_hub(folder, messages, topics=tables or 4) as hub:
        archive = folder / "archive"
        command = ["-m", "peers.cli", "spark", "archive", "--url", hub.url, "--to", str(archive)]
        command += ["--max-offsets", str(OFFSETS_PER_TRIGGER), *QUICK, "--master", "local[2]"]
        command += ["--table-by", "topic"] if tables else []

        def look() -> str:
            offsets = _archived(archive)
            assert len(offsets) == len(set(offsets)), "records stand in the archive twice"
            return f"{len(offsets)} records are archived"

        def placed() -> int:
            return len(list(archive.glob("table=*/date=*/root=*/batch=*")))

        query = Query(command, folder, archive / "_hub" / "checkpoint", look, placed if tables else None)
        _run(query, given, say)
        assert given.end([*command, "--compact"], folder) == 0, "the job failed"
        assert sorted(_archived(archive)) == list(range(messages)), "records are missing"
        for number in range(tables):
            found = sorted(_archived(archive / f"table=n_{number}"))
            assert found == list(range(number, messages, tables)), f"table n_{number} has others"
    say(f"archive: {given.kills} kills, {messages} records, each of them once")


def kill_stream(folder: Path, given: Kills, say: Say = print) -> None:
    with _filled_hub(folder, given.messages) as hub:
        checkpoint = folder / "copy"
        command = [str(PROJECT / "tests" / "spark" / "copy_stream.py"), hub.url, str(checkpoint)]
        command.append(str(OFFSETS_PER_TRIGGER))

        _run(Query(command, folder, checkpoint, lambda: f"{len(_copied(hub))} records are copied"), given, say)
        assert given.end(command, folder) == 0, "the job failed"
        assert sorted(_copied(hub)) == list(range(given.messages)), "records are missing, or there twice"
    say(f"hub to hub: {given.kills} kills, {given.messages} records, each of them once")


@contextmanager
def _filled_hub(folder: Path, messages: int, topics: int = 4) -> Iterator[HubWithJournal]:
    folder.mkdir(parents=True)
    with HubWithJournal(folder / "journal") as hub:
        hub.fill_numbers(messages, topics=topics)
        yield hub


class Query(NamedTuple):
    command: list[str]
    scratch: Path
    checkpoint: Path
    look: Callable[[], str]
    """Looks at what it has written so far, and tells."""
    placed: Callable[[], int] | None = None
    """Returns how many parts of batches have their places; None where it is not known."""


def _run(query: Query, given: Kills, say: Say) -> None:
    source = random.Random(given.seed)  # noqa: S311 -- it is to be repeatable
    for number in range(given.kills):
        job = Job([sys.executable, *query.command], query.scratch)
        begun = _wait_batch(job, query.checkpoint)
        if not job.running:
            say(f"kill {number}: it had ended before")
            job.wait()
            continue
        begun_s = time.monotonic()
        if query.placed is None or number % 2:
            time.sleep(source.uniform(0, DELAY_S))
        else:
            before = query.placed()
            while job.running and query.placed() <= before:
                pass
        delay_s = time.monotonic() - begun_s
        killed = job.kill()
        say(f"kill {number}: {killed} processes, {delay_s:.2f} s after batch {begun} had begun; {query.look()}")


def _wait_batch(job: Job, checkpoint: Path) -> int:
    last = _last(checkpoint / "offsets")
    due_s = time.monotonic() + PATIENCE_S
    while job.running and (now := _last(checkpoint / "offsets")) == last:
        assert time.monotonic() < due_s, "nothing happens"
        time.sleep(0.005)
    return now if job.running else last


def _last(log: Path) -> int:
    return max((int(path.name) for path in log.glob("[0-9]*")), default=-1)


def _archived(archive: Path) -> list[int]:
    if not any((*archive.glob("date=*"), *archive.glob("table=*/date=*"))):
        return []
    found = pyarrow.dataset.dataset(archive, format="parquet", partitioning="hive").to_table(columns=["offset"])
    offsets: list[int] = found["offset"].to_pylist()
    return offsets


def _copied(hub: HubWithJournal) -> list[int]:
    return [value["number"] for _, value in hub.records("/copy")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=10, help="of each job")
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    kills = Kills(given.kills, given.messages, given.seed)
    with tempfile.TemporaryDirectory(prefix="spark-kills-") as folder:
        kill_archive(Path(folder) / "archive", kills)
        kill_archive(Path(folder) / "tables", kills, tables=40)
        kill_stream(Path(folder) / "stream", kills)


if __name__ == "__main__":
    main()
