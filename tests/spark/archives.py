"""Archives for tests and benchmarks, written without Spark."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgpack
import pyarrow as pa
import pyarrow.parquet as pq

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
    """A message of an archive."""

    offset: int
    time_us: int
    topic: str
    value: bytes


def archived(topics: Iterable[str], *, first: int = 0, step_us: int = 1_000_000) -> list[Archived]:
    """One message for each topic, a second apart, from noon on."""
    return [
        Archived(first + number, NOON_US + number * step_us, topic, msgpack.packb({"number": number}))
        for number, topic in enumerate(topics)
    ]


def root_of(topic: str) -> str:
    """The first component."""
    return topic.removeprefix("/").partition("/")[0]


def write_archive(path: Path, messages: Iterable[Archived], batch: int = 0) -> Path:
    """Write an archive, or a further batch of one, as the layout says."""
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
    """The columns of a file."""
    return pa.table([list(column) for column in zip(*rows, strict=True)], schema=SCHEMA)


def write_part(path: Path, table: pa.Table) -> None:
    """Write one file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, compression="zstd")
