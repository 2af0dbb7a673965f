"""One Spark session for all tests of this folder: it takes 5 seconds to start."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from peers.spark.session import SessionSettings, open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUICK_TO_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Py4j and pyspark leave sockets and files to the garbage collector: that is theirs, and no failure of ours."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session."""
    settings = SessionSettings(
        name="tests",
        master="local[2]",
        shuffle_partitions=2,
        conf={"spark.driver.extraJavaOptions": QUICK_TO_START},
    )
    session = open_session(settings)
    yield session
    session.stop()
