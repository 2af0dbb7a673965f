"""Archives for tests and benchmarks, written without Spark."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgpack
import pyarrow as pa
import pyarrow.parquet as pq

from peers.spark.archiving.folders import EVERYTHING, Selection, files_of
from peers.spark.archiving.state import EVENT_TIME
from peers.spark.scan import Reading

NOON_US = int(datetime(2026, 11, 21, 12, tzinfo=UTC).timestamp()) * 1_000_000

SCHEMA = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("us", "UTC"), nullable=False),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("value", pa.binary(), nullable=False),
    ]
)


class Archived(NamedTuple):
    offset: int
    time_us: int
    topic: str
    value: bytes


def archived(topics: Iterable[str], *, first: int = 0, step_us: int = 1_000_000) -> list[Archived]:
    return [
        Archived(first + number, NOON_US + number * step_us, topic, msgpack.packb({"number": number}))
        for number, topic in enumerate(topics)
    ]


def root_of(topic: str) -> str:
    return topic.removeprefix("/").partition("/")[0]


def write_archive(path: Path, messages: Iterable[Archived], batch: int = 0) -> Path:
    folders: dict[str, list[Archived]] = defaultdict(list)
    for message in messages:
        day = datetime.fromtimestamp(message.time_us // 1_000_000, UTC).date()
        root = root_of(message.topic) or "__HIVE_DEFAULT_PARTITION__"
        folders[f"date={day}/root={root}"].append(message)
    for folder, rows in folders.items():
        write_part(path / folder / f"batch={batch}" / "part-0.parquet", table_of(rows))
    (path / "_hub").mkdir(parents=True, exist_ok=True)
    (path / "_hub" / "state").write_text("readers skip this")
    return path


def table_of(rows: list[Archived]) -> pa.Table:
    return pa.table([list(column) for column in zip(*rows, strict=True)], schema=SCHEMA)


def write_part(path: Path, table: pa.Table) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, compression="zstd")


def rows_of(path: Path) -> list[dict[str, Any]]:
    rows = [row for file in files_of(str(path)) for row in pq.ParquetFile(file).read().to_pylist()]
    return sorted(rows, key=lambda row: int(row["offset"]))


def offsets_of(path: Path, selection: Selection = EVERYTHING) -> list[int]:
    files = files_of(str(path), selection)
    is_dated = any(EVENT_TIME in pq.read_schema(file).names for file in files)
    reading = Reading(selection, "value", is_dated, frozenset({"offsets"}))
    return sorted(offset for batch in reading.batches(files) for offset in batch.offsets.tolist())
