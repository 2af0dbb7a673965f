"""Sessions: their settings, what is missing, how a job ends and fails."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from hub.errors import UsageError
from peers.spark.session import (
    JobFailedError,
    SessionSettings,
    SparkUnavailableError,
    cause_of,
    last_words,
    open_session,
    resolved_master,
    running_job,
    session_conf,
    spark_errors,
)
from tests.spark.quick import QUICK_JAVA

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
    assert resolved_master(master) == resolved


def test_settings_of_a_local_session() -> None:
    conf = session_conf(SessionSettings(), cores=8)
    assert conf["spark.master"] == "local[*,4]"
    assert conf["spark.driver.bindAddress"] == conf["spark.driver.host"] == "127.0.0.1"
    assert conf["spark.sql.shuffle.partitions"] == "16"
    assert session_conf(SessionSettings(master="local[3]"), cores=8)["spark.sql.shuffle.partitions"] == "6"
    assert session_conf(SessionSettings(master="local"), cores=8)["spark.sql.shuffle.partitions"] == "2"


def test_settings_of_a_session_on_a_cluster() -> None:
    conf = session_conf(SessionSettings(master="yarn"), cores=8)
    assert conf["spark.sql.session.timeZone"] == "UTC"
    assert not conf.keys() & {"spark.driver.bindAddress", "spark.ui.enabled", "spark.sql.shuffle.partitions"}


def test_what_the_user_sets_wins() -> None:
    settings = SessionSettings(conf={"spark.ui.enabled": "true", "spark.master": "local[1]"})
    assert session_conf(settings, 2)["spark.ui.enabled"] == "true"
    assert session_conf(settings, 2)["spark.master"] == "local[1]"


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
    assert not list(tmp_path.iterdir())
    with pytest.raises(KeyboardInterrupt), running_job(SessionSettings()):
        broken_off()
    assert not list(tmp_path.iterdir())
    with pytest.raises(JobFailedError) as raised, running_job(SessionSettings()):
        spark.sql("SELECT nothing FROM nowhere")
    (log,) = tmp_path.iterdir()
    assert "nowhere" in str(raised.value)
    assert str(raised.value).endswith(f"(what Spark said is in {log})")
    assert "\n" not in str(raised.value)


def test_without_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "pyspark" else object())
    with pytest.raises(SparkUnavailableError, match=r"hub spark needs pyspark.*pip install '\.\[spark\]'"):
        open_session()


def test_the_command_line_does_not_load_pyspark() -> None:
    done = python(
        "import sys, peers.cli;"
        "from peers.cli import spark, spark_jobs;"
        "print([name for name in sys.modules if name.split('.')[0] in {'pyspark', 'pyarrow', 'pandas', 'py4j'}])"
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_a_session_of_its_own(tmp_path: Path) -> None:
    """It starts quietly with the settings that were asked for, works, is stopped, and leaves no folder behind."""
    done = python(
        "import os\n"
        "from peers.spark.session import SessionSettings, running_job\n"
        "quick = {'spark.driver.extraJavaOptions': '" + QUICK_JAVA + "', 'spark.driver.memory': '600m'}\n"
        f"os.chdir({str(tmp_path)!r})\n"
        "with running_job(SessionSettings(master='local[1]', name='mine', conf=quick)) as job:\n"
        "    spark = job.spark\n"
        "    conf = spark.sparkContext.getConf()\n"
        "    print(conf.get('spark.driver.memory'), conf.get('spark.app.name'), conf.get('spark.master'))\n"
        "    print(spark.range(10).count(), spark.conf.get('spark.sql.session.timeZone'))\n"
        "    spark.catalog.listTables()\n"
        "    folder = spark.conf.get('spark.sql.warehouse.dir').removeprefix('file:')\n"
        "    print(os.path.isdir(folder))\n"
        "print(os.path.isdir(folder), type(spark).getActiveSession())\n"
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["600m", "mine", "local[1,4]", "10", "UTC", "True", "False", "None"]
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


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("[PATH_NOT_FOUND] Path does not exist: file:/nope. SQLSTATE: 42K03", "Path does not exist: file:/nope."),
        (
            (
                "An error occurred while calling o13.save.\n"
                ": org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Cannot read x.parquet. SQLSTATE: KD001\n"
                "\tat org.apache.spark.A.b(A.scala:920)\n"
                "Caused by: java.lang.RuntimeException: not a Parquet file\n\tat org.apache.B.c(B.java:1)\n"
            ),
            "Cannot read x.parquet: not a Parquet file",
        ),
        (
            (
                "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n"
                '  File "a.py", line 12, in bad\n    raise ValueError("first")\nValueError: first\n\n'
                "During handling of the above exception, another exception occurred:\n\n"
                'Traceback (most recent call last):\n  File "a.py", line 14, in bad\n'
                "hub.errors.UsageError: the start was deleted: fetch on from 7\n\n\tat org.apache.A.b(A.scala:1)\n"
            ),
            "the start was deleted: fetch on from 7",
        ),
        ("An error occurred while calling o1.x", "An error occurred while calling o1.x"),
        ("", "RuntimeError"),
    ],
)
def test_causes_are_one_line(text: str, cause: str) -> None:
    assert cause_of(RuntimeError(text)) == cause


def test_what_a_worker_raises_is_told(spark: SparkSession) -> None:
    def fail(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        next(batches)
        raise UsageError("the start was deleted")
        yield

    with pytest.raises(spark_errors()) as raised:
        spark.range(5).mapInArrow(fail, "id long").collect()
    assert cause_of(raised.value) == "the start was deleted"


def test_a_file_that_is_not_parquet_is_told(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_text("nonsense" * 100)
    with pytest.raises(spark_errors()) as raised:
        spark.read.schema("a INT").parquet(str(tmp_path)).collect()
    assert "x.parquet" in cause_of(raised.value)
    assert "not a Parquet file" in cause_of(raised.value)
    assert "\n" not in cause_of(raised.value)


def test_last_words_of_a_java_that_does_not_start() -> None:
    log = (
        "WARNING: Using incubator modules: jdk.incubator.vector\n"
        "Using Spark's default log4j profile: x\n"
        "26/11/21 13:37:24 WARN Utils: Your hostname resolves\n\n"
        'Exception in thread "main" org.apache.spark.SparkException: Master must start with yarn\n'
        "\tat org.apache.spark.A.b(A.scala:1)\n"
    )
    assert last_words(log) == "Master must start with yarn"
    assert last_words("Invalid maximum heap size: -Xmx1q\nError: x\n") == "Invalid maximum heap size: -Xmx1q"
    assert last_words("WARNING: x\n") == ""
