"""`format("hub")` with the option `tier`, run by Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.spark.tiered import COUNT, SEALED, Tiered, small_files, started

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def tiered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tiered]:
    with small_files():
        yield from started(tmp_path_factory.mktemp("tiered"))


def test_a_batch(spark: SparkSession, tiered: Tiered) -> None:
    reader = spark.read.format("hub")
    through_hub = reader.options(url=tiered.hub.url).load().sort("offset").collect()
    assert len(through_hub) == COUNT
    frame = spark.read.format("hub").options(**tiered.options()).load()
    assert frame.sort("offset").collect() == through_hub
    narrow = (
        spark.read.format("hub")
        .options(**tiered.options(endingOffsets=str(SEALED), topics="/n/1"))
        .schema("topic STRING, offset BIGINT")
    )
    assert sorted(row.offset for row in narrow.load().collect()) == list(range(1, SEALED, 4))


def test_files_that_spark_reads_itself(spark: SparkSession, tiered: Tiered) -> None:
    """Without the hub and the connector they are the same rows, of the same types, with the column `encoding`."""
    frame = spark.read.parquet(*map(str, tiered.tier.glob("*/data")))
    through_hub = spark.read.format("hub").options(url=tiered.hub.url, endingOffsets=str(SEALED)).load()
    assert frame.drop("encoding").dtypes == through_hub.dtypes
    assert (
        frame.filter("encoding = 0").drop("encoding").sort("offset").collect() == through_hub.sort("offset").collect()
    )
    assert frame.filter("topic = '/n/1'").count() == SEALED // 4
