"""Sessions: their settings, what is missing, how a job ends; archives as DataFrames stand in test_archive_files."""

from __future__ import annotations

import builtins
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from peers.spark.failure import JobFailedError
from peers.spark.java import SparkUnavailableError
from peers.spark.progress import JobProgress
from peers.spark.session import (
    SHUFFLE_BYTES,
    SHUFFLE_LIMIT,
    Job,
    SessionSettings,
    open_session,
    resolved_master,
    running_job,
    session_conf,
    shuffle_partitions,
)
from tests.spark.hubs import HubWithJournal
from tests.spark.queries import run_stream
from tests.spark.quick import QUICK_JAVA, SHARED_CLASSES
from tests.suite.processes import below

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def python(program: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own, which starts its own Java."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK", "PYSPARK"))}
    return subprocess.run(
        [sys.executable, "-c", program],
        env=environment | variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )


@pytest.mark.parametrize(
    ("master", "resolved"),
    [
        ("local", "local[1,4]"),
        ("local[*]", "local[*,4]"),
        ("local[3]", "local[3,4]"),
        ("local[3,1]", "local[3,1]"),
        ("local-cluster[2,1,1024]", "local-cluster[2,1,1024]"),
        ("spark://host:7077", "spark://host:7077"),
        ("yarn", "yarn"),
    ],
)
def test_tasks_are_tried_again_in_local_mode(master: str, resolved: str) -> None:
    """Unless the user says how often; on clusters they are anyway."""
    assert resolved_master(master) == resolved


def test_settings_of_a_local_session() -> None:
    """Everything stays on this machine, with as many tasks as it has use for."""
    conf = session_conf(SessionSettings(driver_memory="3g"), cores=8)
    assert conf["spark.master"] == "local[*,4]"
    assert conf["spark.driver.memory"] == "3g"
    assert conf["spark.driver.bindAddress"] == conf["spark.driver.host"] == "127.0.0.1"
    assert conf["spark.sql.shuffle.partitions"] == "16"
    assert session_conf(SessionSettings(master="local[3]"), cores=8)["spark.sql.shuffle.partitions"] == "6"
    assert session_conf(SessionSettings(master="local"), cores=8)["spark.sql.shuffle.partitions"] == "2"


def test_settings_of_a_session_on_a_cluster() -> None:
    """Addresses and numbers of tasks are the cluster's; times are UTC there, too."""
    conf = session_conf(SessionSettings(master="yarn"), cores=8)
    assert conf["spark.sql.session.timeZone"] == "UTC"
    assert not conf.keys() & {"spark.driver.bindAddress", "spark.ui.enabled", "spark.sql.shuffle.partitions"}
    assert session_conf(SessionSettings(master="yarn", shuffle_partitions=7), 8)["spark.sql.shuffle.partitions"] == "7"


def test_shuffles_are_as_large_as_what_is_read(spark: SparkSession, tmp_path: Path) -> None:
    """Where nobody has said otherwise, in a session of the job's own."""
    assert [shuffle_partitions(size) for size in (0, 1, SHUFFLE_BYTES + 1, 2**60)] == [1, 1, 2, SHUFFLE_LIMIT]
    spark.range(1000).write.parquet(str(tmp_path / "small"))
    frame = spark.read.parquet(str(tmp_path / "small"))
    before = spark.conf.get("spark.sql.shuffle.partitions")
    Job(spark, JobProgress(shown=False)).size_shuffles(frame)
    assert spark.conf.get("spark.sql.shuffle.partitions") == before
    try:
        Job(spark, JobProgress(shown=False), sizes=True).size_shuffles(frame)
        assert spark.conf.get("spark.sql.shuffle.partitions") == "1"
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)


def test_what_the_user_sets_wins() -> None:
    """Whatever it is."""
    settings = SessionSettings(conf={"spark.ui.enabled": "true", "spark.master": "local[1]"})
    assert session_conf(settings, 2)["spark.ui.enabled"] == "true"
    assert session_conf(settings, 2)["spark.master"] == "local[1]"


def test_a_session_that_runs_is_taken(spark: SparkSession) -> None:
    """With what the jobs rely on set, and not stopped at the end of a job."""
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    assert open_session() is spark
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    with running_job(SessionSettings(), shown=False) as job:
        assert job.spark is spark
    assert spark.range(3).count() == 3


@pytest.mark.usefixtures("spark")
@pytest.mark.skipif(not SHARED_CLASSES.exists(), reason="classes are not shared here: `make test` has it done")
def test_java_takes_classes_from_the_file() -> None:
    """It would pass over one that was written for another Java or other jars, and say nothing."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    assert gateway is not None
    assert str(SHARED_CLASSES) in Path(f"/proc/{gateway.proc.pid}/maps").read_text()


def test_python_is_forked_for_these_tests(spark: SparkSession, tmp_path: Path) -> None:
    """For tasks and for streams; the tests of `programs` start it as users do."""

    def of_workers(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.record_batch({"command": [Path("/proc/self/cmdline").read_bytes()]})

    (row,) = spark.range(1).mapInArrow(of_workers, "command BINARY").collect()
    assert b"tests.forked.server" in row.command
    running: list[str] = []
    with HubWithJournal(tmp_path / "journal") as hub:
        hub.fill_numbers(1)
        options = {"url": hub.url, "startingOffsets": "earliest"}
        run_stream(
            spark,
            options,
            lambda *_: running.extend(process.command for process in below(os.getpid())),
            tmp_path / "at",
        )
    (command,) = (command for command in running if command.endswith("python_streaming_source_runner"))
    assert "tests/forked/launcher.py" in command


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
    """A job that ends well, or by the user, leaves nothing."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with running_job(SessionSettings(), shown=False):
        pass
    with pytest.raises(KeyboardInterrupt), running_job(SessionSettings(), shown=False):
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir())
    with pytest.raises(KeyboardInterrupt), running_job(SessionSettings(), shown=False):
        broken_off()
    assert not list(tmp_path.iterdir())
    with pytest.raises(JobFailedError) as raised, running_job(SessionSettings(), shown=False):
        spark.sql("SELECT nothing FROM nowhere")
    (log,) = tmp_path.iterdir()
    assert "nowhere" in str(raised.value)
    assert str(raised.value).endswith(f"(what Spark said is in {log})")
    assert "\n" not in str(raised.value)


def test_a_failed_job_shows_all_if_asked(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And then leaves no file."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(JobFailedError) as raised, running_job(SessionSettings(), shown=False, verbose=True):
        spark.sql("SELECT nothing FROM nowhere")
    assert "SQLSTATE" in capsys.readouterr().err
    assert "nowhere" in str(raised.value)
    assert not list(tmp_path.iterdir())


def test_without_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    """What to install is said."""
    real = builtins.__import__

    def missing(name: str, *given: Any, **more: Any) -> Any:
        if name.startswith("pyspark"):
            raise ModuleNotFoundError("gone", name=name)
        return real(name, *given, **more)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(SparkUnavailableError, match=r"hub spark needs pyspark.*pip install '\.\[spark\]'"):
        open_session()


def test_the_command_line_does_not_load_pyspark() -> None:
    """Nor does the group `hub spark`, until a job runs."""
    done = python(
        "import sys, peers.cli;"
        "from peers.cli import spark, spark_jobs;"
        "print([name for name in sys.modules if name.split('.')[0] in {'pyspark', 'pyarrow', 'pandas', 'py4j'}])"
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_a_session_of_its_own() -> None:
    """It starts quietly with the settings that were asked for, works, and is stopped."""
    done = python(
        "from peers.spark.session import *\n"
        "quick = {'spark.driver.extraJavaOptions': '" + QUICK_JAVA + "'}\n"
        "with running_job(SessionSettings(master='local[1]', driver_memory='600m', name='mine', conf=quick)) as job:\n"
        "    spark = job.spark\n"
        "    conf = spark.sparkContext.getConf()\n"
        "    print(conf.get('spark.driver.memory'), conf.get('spark.app.name'), conf.get('spark.master'))\n"
        "    print(spark.range(10).count(), spark.conf.get('spark.sql.session.timeZone'))\n"
        "print(type(spark).getActiveSession())\n"
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["600m", "mine", "local[1,4]", "10", "UTC", "None"]


def test_nothing_is_left_where_a_job_was_started(tmp_path: Path) -> None:
    """Spark's folder for tables, which jobs do not have, is elsewhere, and goes with the session."""
    done = python(
        "import os\n"
        "from peers.spark.session import *\n"
        "quick = {'spark.driver.extraJavaOptions': '" + QUICK_JAVA + "'}\n"
        f"os.chdir({str(tmp_path)!r})\n"
        "with running_job(SessionSettings(master='local[1]', driver_memory='600m', conf=quick)) as job:\n"
        "    job.spark.catalog.listTables()\n"
        "    folder = job.spark.conf.get('spark.sql.warehouse.dir').removeprefix('file:')\n"
        "    print(os.path.isdir(folder))\n"
        "print(os.path.isdir(folder))\n"
    )
    assert (done.returncode, done.stdout.split()) == (0, ["True", "False"]), done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_session_that_does_not_start(tmp_path: Path) -> None:
    """Why is told in one line."""
    done = python(
        "from peers.spark.session import *\n"
        "from peers.spark.failure import JobFailedError\n"
        "try:\n"
        "    with running_job(SessionSettings(driver_memory='1q')): pass\n"
        "except JobFailedError as error:\n"
        "    print(error)\n",
        TMPDIR=str(tmp_path),
    )
    assert done.stdout.startswith("Spark does not start: Invalid maximum heap size: -Xmx1q"), done.stderr
