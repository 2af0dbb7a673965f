"""The examples of docs/spark.md that read and write, in their order. Those of archives run with `test_*_archive.py`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.spark.hubs import HubWithJournal

TEXT = (Path(__file__).parents[2] / "docs" / "spark.md").read_text().partition("\n## Read, count")[0]
BLOCKS = [block for block in re.findall(r"^```python\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE) if "s3:" not in block]


def test_reading_and_writing(spark: SparkSession, hub: HubWithJournal) -> None:
    hub.fill([("/zeek/dns", {"query": "a.example", "qtype_name": "A"}), ("/app/x", 1)])
    names: dict[str, Any] = {}
    for block in BLOCKS:
        if "result.write" in block:
            names["result"] = names["records"].selectExpr("'/app/copies' AS topic", "value")
        exec(block.replace("tcp://127.0.0.1:7400", hub.url), names)  # noqa: S102 -- our own page
    assert len(BLOCKS) == 4
    assert [tuple(row)[2:] for row in names["dns"].collect()] == [("a.example", "A")]
    topics = spark.read.format("hub").option("url", hub.url).load().select("topic").collect()
    assert [row.topic for row in topics] == ["/zeek/dns", "/app/x", "/app/copies"]
