"""One Spark session for all tests of this folder but those in `programs`, which start Java themselves or need none.

Java starts a Python for each streaming query and for each kind of task, and gives it 10 s to answer; all that each
imports takes 1 to 2 s of work, most of it pyspark from a zip. Here these are forked from a process that has imported it
(`tests/forked`). In `programs` they are what users get.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from peers.spark.session import SessionSettings, open_session
from tests.forked.servers import LAUNCHER, Server
from tests.spark.quick import QUICK_CONF

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = "tests/spark/"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests here are slow, and that pyspark leaves files to the garbage collector is no failure of ours."""
    for item in items:
        if item.nodeid.startswith(HERE):
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"))
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    settings = SessionSettings(
        name="tests",
        master="local[2]",
        conf={"spark.sql.shuffle.partitions": "2", **QUICK_CONF},
    )
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
    """End the Java that pyspark keeps for the next session of this process; its workers end with it."""
    pyspark = sys.modules.get("pyspark")
    gateway = None if pyspark is None else pyspark.SparkContext._gateway
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()
