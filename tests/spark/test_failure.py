"""Causes of failures in one line: of texts as Spark has written them, and of jobs that fail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from hub.errors import UsageError
from peers.spark.failure import cause_of, last_words, spark_errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
    """Without names of classes, conditions and stacks."""
    assert cause_of(RuntimeError(text)) == cause


def test_what_a_worker_raises_is_told(spark: SparkSession) -> None:
    """Its text, as it was raised there."""

    def fail(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        next(batches)
        raise UsageError("the start was deleted")
        yield

    with pytest.raises(spark_errors()) as raised:
        spark.range(5).mapInArrow(fail, "id long").collect()
    assert cause_of(raised.value) == "the start was deleted"


def test_a_file_that_is_not_parquet_is_told(spark: SparkSession, tmp_path: Path) -> None:
    """With its name, and what is wrong with it."""
    (tmp_path / "x.parquet").write_text("nonsense" * 100)
    with pytest.raises(spark_errors()) as raised:
        spark.read.schema("a INT").parquet(str(tmp_path)).collect()
    assert "x.parquet" in cause_of(raised.value)
    assert "not a Parquet file" in cause_of(raised.value)
    assert "\n" not in cause_of(raised.value)


def test_last_words_of_a_java_that_does_not_start() -> None:
    """The first line that is neither a warning nor part of a stack."""
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
