"""Sessions: their settings, what is missing, signals, progress, how a job ends and fails, and the zip for executors."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pytest
from pyspark.core.status import SparkStageInfo
from rich.console import Console

from hub.errors import UsageError
from peers.spark.findings import amount, plain, rate, second, span
from peers.spark.progress import JobProgress
from peers.spark.session import (
    JobFailedError,
    SessionSettings,
    SparkUnavailableError,
    cause_of,
    check_java,
    held_back,
    java_version,
    open_session,
    orderly_ends,
    resolved_master,
    running_job,
    session_conf,
    spark_errors,
    stop_event,
    write_package,
)
from tests.spark.share_classes import QUICK_JAVA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def python(program: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK", "PYSPARK"))}
    return subprocess.run(
        [sys.executable, "-c", program],
        env=environment | variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )


MASTERS = {
    "local": "local[1,4]",
    "local[*]": "local[*,4]",
    "local[3]": "local[3,4]",
    "local[3,1]": "local[3,1]",
    "local-cluster[2,1,1024]": "local-cluster[2,1,1024]",
    "spark://host:7077": "spark://host:7077",
    "yarn": "yarn",
}


def test_tasks_are_tried_again_in_local_mode() -> None:
    assert {master: resolved_master(master) for master in MASTERS} == MASTERS


def test_settings() -> None:
    """Of a local session, and of one on a cluster; those of the user win."""
    conf = session_conf(SessionSettings(), cores=8)
    assert conf["spark.master"] == "local[*,4]"
    assert conf["spark.driver.bindAddress"] == conf["spark.driver.host"] == "127.0.0.1"
    assert conf["spark.sql.shuffle.partitions"] == "16"
    assert session_conf(SessionSettings(master="local[3]"), cores=8)["spark.sql.shuffle.partitions"] == "6"
    assert session_conf(SessionSettings(master="local"), cores=8)["spark.sql.shuffle.partitions"] == "2"
    conf = session_conf(SessionSettings(master="yarn"), cores=8)
    assert conf["spark.sql.session.timeZone"] == "UTC"
    assert not conf.keys() & {"spark.driver.bindAddress", "spark.ui.enabled", "spark.sql.shuffle.partitions"}
    chosen = {"spark.ui.enabled": "true", "spark.master": "local[1]"}
    assert session_conf(SessionSettings(conf=chosen), 2).items() >= chosen.items()


def test_a_session_that_runs_is_taken(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    assert open_session() is spark
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    with running_job(SessionSettings()) as job:
        assert job.spark is spark
    assert spark.range(3).count() == 3


def broken_off() -> None:
    """An interrupt that becomes an error of Spark on its way out, as where Java has closed the connection by then."""
    from pyspark.errors import PySparkRuntimeError

    try:
        raise KeyboardInterrupt
    finally:
        raise PySparkRuntimeError("Answer from Java side is empty")


def test_a_failed_job_is_one_line_and_leaves_a_log(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with running_job(SessionSettings()):
        pass
    with pytest.raises(KeyboardInterrupt), running_job(SessionSettings()):
        raise KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt), running_job(SessionSettings()):
        broken_off()
    assert not list(tmp_path.iterdir())
    with pytest.raises(JobFailedError) as raised, running_job(SessionSettings()):
        spark.sql("SELECT nothing FROM nowhere")
    (log,) = tmp_path.iterdir()
    assert "nowhere" in str(raised.value)
    assert str(raised.value).endswith(f"(Spark's output is in {log})")
    assert "\n" not in str(raised.value)


OWN_SESSION = """
import os, signal, threading, time
from peers.spark.session import SessionSettings, running_job

os.chdir(FOLDER)
settings = SessionSettings(
    master="local[1]", name="mine", conf={"spark.driver.extraJavaOptions": JAVA, "spark.driver.memory": "600m"}
)

def end(job, number):
    def wait():
        while not job.spark.sparkContext.statusTracker().getActiveStageIds():
            time.sleep(0.02)
        os.kill(os.getpid(), number)
    threading.Thread(target=wait, daemon=True).start()
    job.spark.sql("SELECT sum(a.id * b.id % 7) FROM range(3000000) a, range(3000000) b").collect()

try:
    with running_job(settings) as job:
        spark = job.spark
        conf = spark.sparkContext.getConf()
        print(conf.get("spark.driver.memory"), conf.get("spark.app.name"), conf.get("spark.master"))
        print(spark.range(10).count(), spark.conf.get("spark.sql.session.timeZone"))
        spark.catalog.listTables()
        folder = spark.conf.get("spark.sql.warehouse.dir").removeprefix("file:")
        print(os.path.isdir(folder))
        try:
            with running_job(settings) as inner:
                end(inner, signal.SIGTERM)
        except SystemExit as error:
            print(error.code)
        spark.sparkContext.cancelAllJobs()
        while spark.sparkContext.statusTracker().getActiveStageIds():
            time.sleep(0.02)
        end(job, signal.SIGINT)
finally:
    print(os.path.isdir(folder), type(spark).getActiveSession(), flush=True)
"""


def test_a_session_of_its_own(tmp_path: Path) -> None:
    """Starts quietly with the settings that were asked for, works, and leaves no folder; signals end endless jobs."""
    done = python(OWN_SESSION.replace("FOLDER", repr(str(tmp_path))).replace("JAVA", repr(QUICK_JAVA)))
    assert done.stdout.split() == ["600m", "mine", "local[1,4]", "10", "UTC", "True", "143", "False", "None"], done
    assert "while sending command" not in done.stderr
    assert done.stderr.splitlines()[-1] == "KeyboardInterrupt"
    assert done.stderr.startswith("Traceback"), "nothing is said before"
    assert done.returncode == -2
    assert list(tmp_path.iterdir()) == []


def test_a_session_that_does_not_start(tmp_path: Path) -> None:
    done = python(
        "from peers.spark.session import JobFailedError, SessionSettings, running_job\n"
        "try:\n"
        "    with running_job(SessionSettings(conf={'spark.driver.memory': '1q'})): pass\n"
        "except JobFailedError as error:\n"
        "    print(error)\n",
        TMPDIR=str(tmp_path),
    )
    assert done.stdout.startswith("Spark does not start: Invalid maximum heap size: -Xmx1q"), done.stderr


def test_without_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    done = python(
        "import sys, peers.cli;"
        "from peers.cli import spark;"
        "print([name for name in sys.modules if name.split('.')[0] in {'pyspark', 'pyarrow', 'pandas', 'py4j'}])"
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "pyspark" else object())
    with pytest.raises(SparkUnavailableError, match=r"hub spark needs pyspark.*pip install 'topichub\[spark\]'"):
        open_session()


JAVAS_ERROR = """An error occurred while calling o13.save.
: org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Cannot read x.parquet. SQLSTATE: KD001
\tat org.apache.spark.A.b(A.scala:920)
Caused by: java.lang.RuntimeException: not a Parquet file
\tat org.apache.B.c(B.java:1)
"""

WORKERS_ERROR = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "a.py", line 12, in bad
    raise ValueError("first")
ValueError: first

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "a.py", line 14, in bad
hub.errors.UsageError: the start was deleted: fetch on from 7

\tat org.apache.A.b(A.scala:1)
"""


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("[PATH_NOT_FOUND] Path does not exist: file:/nope. SQLSTATE: 42K03", "Path does not exist: file:/nope."),
        (JAVAS_ERROR, "Cannot read x.parquet: not a Parquet file"),
        (WORKERS_ERROR, "the start was deleted: fetch on from 7"),
        ("An error occurred while calling o1.x", "An error occurred while calling o1.x"),
        ("", "RuntimeError"),
    ],
    ids=["Spark's", "Java's", "a worker's", "of no form", "empty"],
)
def test_causes_are_one_line(text: str, cause: str) -> None:
    assert cause_of(RuntimeError(text)) == cause


def test_causes_as_spark_tells_them(spark: SparkSession, tmp_path: Path) -> None:
    def fail(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        next(batches)
        raise UsageError("the start was deleted")
        yield

    with pytest.raises(spark_errors()) as raised:
        spark.range(5).mapInArrow(fail, "id long").collect()
    assert cause_of(raised.value) == "the start was deleted"
    (tmp_path / "x.parquet").write_text("nonsense" * 100)
    with pytest.raises(spark_errors()) as raised:
        spark.read.schema("a INT").parquet(str(tmp_path)).collect()
    assert "x.parquet" in cause_of(raised.value)
    assert "not a Parquet file" in cause_of(raised.value)
    assert "\n" not in cause_of(raised.value)


VERSIONS = {
    'openjdk version "17.0.15" 2025-04-15': 17,
    'Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "21" 2023-09-19': 21,
    'java version "1.8.0_392"': 8,
    'openjdk version "25-ea"': 25,
    "command not found": 0,
}


def test_java(tmp_path: Path) -> None:
    """That of JAVA_HOME comes before that of the path; an old one is refused, and one that does not run."""
    for told, major in VERSIONS.items():
        assert java_version(told) == major
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    home, path = {"JAVA_HOME": str(tmp_path), "PATH": ""}, {"PATH": f"/nothing:{java.parent}"}
    with pytest.raises(SparkUnavailableError, match="bin/java does not run: install one"):
        check_java(home)
    with pytest.raises(SparkUnavailableError, match="there is no Java here: install one"):
        check_java(path)
    for said, error in (
        ('openjdk version "21.0.2"', ""),
        ('openjdk version "11.0.2"', "is Java 11"),
        ("hello", "has an unknown version"),
    ):
        java.write_text(f"#!/bin/sh\necho '{said}' >&2\n")
        java.chmod(0o755)
        if not error:
            assert check_java(home) == check_java(path) == 21
        else:
            with pytest.raises(SparkUnavailableError, match=f"Java 17 or newer, .*bin/java .*{error}.*apt-get install"):
                check_java(home)


class TestSignals:
    def interrupted(self, done: list[str], number: signal.Signals) -> None:
        with held_back():
            signal.raise_signal(number)
            signal.raise_signal(number)
            done.append("all of the block")

    def test_an_interrupt_is_held_back(self) -> None:
        done: list[str] = []
        with pytest.raises(KeyboardInterrupt):
            self.interrupted(done, signal.SIGINT)
        assert done
        before = signal.getsignal(signal.SIGINT)
        with held_back():
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        assert signal.getsignal(signal.SIGINT) is before

    @pytest.mark.parametrize("around", [held_back, orderly_ends])
    def test_sigterm_is_an_exit(self, around: Callable[[], AbstractContextManager[None]]) -> None:
        before = signal.getsignal(signal.SIGTERM)
        with pytest.raises(SystemExit) as raised, orderly_ends(), around():
            signal.raise_signal(signal.SIGTERM)
        assert raised.value.code == 143
        assert signal.getsignal(signal.SIGTERM) is before

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_the_first_signal_sets_the_event(self, number: signal.Signals) -> None:
        """The second one is as before."""
        before = signal.getsignal(number)
        with stop_event() as told:
            assert not told.is_set()
            assert signal.getsignal(number) is not before
            os.kill(os.getpid(), number)
            assert told.wait(10)
            assert signal.getsignal(number) is before
        assert signal.getsignal(number) is before


class Stages:
    """What Spark tells of its stages: tasks, and how many of them have ended."""

    def __init__(self, stages: dict[int, tuple[int, int] | None]) -> None:
        self.stages = stages
        self.asked = False

    def getActiveStageIds(self) -> list[int]:  # noqa: N802 -- Spark's name
        self.asked = True
        return list(self.stages)

    def getStageInfo(self, stageId: int) -> SparkStageInfo | None:  # noqa: N802, N803 -- Spark's names
        stage = self.stages[stageId]
        return None if stage is None else SparkStageInfo(stageId, 0, "", stage[0], 1, stage[1], 0)


def drawn(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    console.file.seek(0)
    console.file.truncate()
    return text


def test_the_bar_follows_sparks_tasks_and_steps_that_count_themselves() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=100, legacy_windows=False)
    progress = JobProgress(console)
    progress.step("counting")
    progress.watch(cast("Any", Stages({1: (6, 4), 2: (4, 0), 3: None})))
    progress.poll()
    progress._bar.start()
    assert "counting" in drawn(console)
    progress._bar.refresh()
    assert " 40%" in drawn(console)
    progress.step("replaying")
    progress._bar.refresh()
    assert "replaying" in (text := drawn(console))
    assert " 40%" not in text
    progress.advance(30, 40)
    progress.poll()
    assert " 75%" in drawn(console)
    progress.step("next")
    progress.poll()
    assert " 40%" in drawn(console)
    progress._bar.stop()


def test_nothing_is_shown_or_asked_off_terminals() -> None:
    pipe = Console(file=io.StringIO(), width=100)
    stages = Stages({1: (10, 4)})
    with JobProgress(pipe) as progress:
        progress.watch(cast("Any", stages))
        progress.step("counting")
        progress.advance(1, 2)
    assert drawn(pipe) == ""
    assert not stages.asked


def test_figures_with_units() -> None:
    assert plain("a\u202eb\n") == "a\\u202eb\\n"
    assert plain("é'\"") == "é'\""
    assert (amount(1234567.0), rate(100, 0.5), rate(100, 0), rate(1, 3)) == ("1,234,567", "200", "0", "0.333")
    assert second(1_763_722_800_999_999) == "2025-11-21 11:00:00"
    lengths_s = {0: "0 s", 0.25: "0.25 s", 59.9: "59.9 s", 60: "1 min", 725: "12 min 5 s", 3_600: "1 h"}
    for length_s, text in (lengths_s | {360_000: "4 d 4 h"}).items():
        assert span(int(length_s * 1_000_000)) == text


def test_the_package_runs_from_the_zip_alone_and_is_always_the_same(tmp_path: Path) -> None:
    package = tmp_path / "topichub.zip"
    count = write_package(package)
    names = zipfile.ZipFile(package).namelist()
    assert len(names) == count
    assert {"hub/prefixes.py", "peers/spark/route.py"} <= set(names)
    assert all(name.endswith(".py") for name in names)
    program = (
        f"import sys; sys.path.insert(0, {str(package)!r})\n"
        "import hub, peers.client, peers.spark.route as route\n"
        f"assert hub.__file__.startswith({str(package)!r}), hub.__file__\n"
        f"assert route.__file__.startswith({str(package)!r}), route.__file__\n"
        "import hub.messages.stretch"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    write_package(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == package.read_bytes()
    with pytest.raises(UsageError, match=r"nothing/x\.zip: No such file"):
        write_package(tmp_path / "nothing" / "x.zip")
