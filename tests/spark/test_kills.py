"""kill -9 of driver, Java and workers, in a short form; `tests/soak/spark_kills.py` is the long one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from peers.cli.spark import app
from peers.spark.connector.connection import close_all
from tests.soak.spark_kills import Kills, kill_archive, kill_stream
from tests.spark.copy_stream import copy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    close_all()


@pytest.mark.usefixtures("spark")
@pytest.mark.timeout(600)
def test_each_table_of_an_archive_has_each_record_once(tmp_path: Path) -> None:
    """Though the job is killed when some of the tables have their part of a batch, and others have not."""

    def finish(command: list[str]) -> int:
        return app(command[command.index("archive") :], result_action="return_value") or 0

    kill_archive(tmp_path / "archive", Kills(1, 20_000, 1, finish), tables=40)


@pytest.mark.timeout(600)
def test_a_copy_has_each_record_once(spark: SparkSession, tmp_path: Path) -> None:
    def finish(command: list[str]) -> int:
        copy(spark, *command[1:])
        return 0

    kill_stream(tmp_path / "copy", Kills(1, 20_000, 1, finish))
