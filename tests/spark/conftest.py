"""One Spark session for all tests of this folder but those in `programs`, which start Java themselves or need none."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from peers.spark.session import SessionSettings, open_session
from tests.spark.quick import QUICK_CONF

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests here are slow, and that pyspark leaves files to the garbage collector is no failure of ours."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"))
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session."""
    settings = SessionSettings(
        name="tests",
        master="local[2]",
        shuffle_partitions=2,
        conf=QUICK_CONF,
    )
    session = open_session(settings)
    yield session
    session.stop()


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish() -> None:
    """End the Java that pyspark keeps for the next session of this process; its workers end with it."""
    pyspark = sys.modules.get("pyspark")
    gateway = None if pyspark is None else pyspark.SparkContext._gateway
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()
