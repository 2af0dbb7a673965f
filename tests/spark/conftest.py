"""One Spark session for all tests of this folder; a few start Java themselves.

Java starts a Python for each streaming query and for each kind of task, and gives it 10 s to answer; all that each
imports takes 1 to 2 s of work, most of it pyspark from a zip. Here these are forked from a process that has imported it
(`tests/forked`). The sessions of test_kills.py and test_session.py have what users get.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from peers.spark.archiving.state import ArchiveOrder
from peers.spark.connector.connection import close_all
from peers.spark.connector.options import Access
from peers.spark.progress import JobProgress
from peers.spark.session import Job, SessionSettings, open_session
from tests.forked.servers import LAUNCHER, Server
from tests.spark.hubs import HubWithJournal
from tests.spark.share_classes import QUICK_CONF

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from peers.spark.archiving.archive import Archived

HERE = "tests/spark/"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests here are slow, and that pyspark leaves files to the garbage collector is no failure of ours."""
    for item in items:
        if item.nodeid.startswith(HERE):
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"))
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    settings = SessionSettings(name="tests", master="local[2]", conf=QUICK_CONF)
    server = Server("workers")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"PYSPARK_PYTHON": LAUNCHER, **server.variables}.items():
            patch.setenv(name, value)
        session = open_session(settings)
    server.start(os.environ | _of_workers(session))
    yield session
    session.stop()


def _of_workers(spark: SparkSession) -> dict[str, str]:
    """What Spark sets for Python before it starts it; the server would refuse to stand for anything else."""
    java = spark.sparkContext._jvm
    assert java is not None
    paths = (java.org.apache.spark.api.python.PythonUtils.sparkPythonPath(), os.environ.get("PYTHONPATH"))
    return {
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        "PYTHONHASHSEED": "0",
        "PYTHONUNBUFFERED": "YES",
        "SPARK_PYTHON_RUNTIME": "PYTHON_WORKER",
    }


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish() -> None:
    pyspark = sys.modules.get("pyspark")
    gateway = None if pyspark is None else pyspark.SparkContext._gateway
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[HubWithJournal]:
    with HubWithJournal(tmp_path / "journal", "--journal-topics", "/,plain") as hub:
        yield hub
    close_all()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "archive"


@pytest.fixture
def run_archive(spark: SparkSession, hub: HubWithJournal, path: Path) -> Callable[..., Archived]:
    from peers.spark.archiving.archive import Tally, archive

    def run(
        every: Callable[[Tally], object] = lambda _: None, stop: threading.Event | None = None, **order: Any
    ) -> Archived:
        given = {"access": Access(hub.url), "path": str(path), **order}
        return archive(Job(spark, JobProgress()), ArchiveOrder(**given), every, stop)

    return run
