"""What an archive looks like, and one as a DataFrame.

```
ARCHIVE/date=2026-11-21/root=zeek/batch=7/part-*.parquet      zstd
ARCHIVE/_hub/                                                 state of the job that writes it; readers skip it

offset BIGINT, timestamp TIMESTAMP (UTC, µs), topic STRING, value BINARY (msgpack)    in the files
date DATE, root STRING, batch BIGINT                                                  from the folders' names
```

In a decoded archive, `value` is not there: `_bytes`, its size, the columns of its fields and `_rest` are, and
`event_time` where there is one, whose date then names the folders (`peers.spark.archiving.typed_rows`).

Where there is a table for each topic, all this stands in `ARCHIVE/table=zeek_conn/`.

`root` is the first component of a topic without slashes: `zeek` of `/zeek/dns`, and of a topic without a leading slash
the text up to its first one. Names of folders have an end, so longer roots are cut (`ROOT_LIMIT_CHARACTERS`).

Invariant: a filter on topics or times never loses a message by way of folders: `date` and `root` only skip folders that
hold none. Cost: reading is columnar, so that what is not asked for is not read; folders are listed once.

Not here: writing one.
"""

from __future__ import annotations

import unicodedata
from datetime import date, datetime
from functools import reduce
from operator import or_
from pathlib import Path

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own name for it

from hub.errors import UsageError
from peers.spark.archiving.folders import batches, parts, root_in, roots
from peers.spark.archiving.iceberg import data_files, is_iceberg
from peers.spark.archiving.state import DecodedState, load
from peers.spark.archiving.typed_columns import EVENT_TIME, SIZE
from peers.spark.selection import EVERYTHING, Selection, microseconds

__all__ = [
    "COLUMNS",
    "NO_ROOT",
    "PARTITIONS",
    "ROOT_LIMIT_CHARACTERS",
    "decoded_state",
    "local_files",
    "read_archive",
    "root_column",
    "root_of",
    "table_of",
]

COLUMNS = "offset BIGINT, timestamp TIMESTAMP, topic STRING, value BINARY"
"""In the files."""

_DECODED_COLUMNS = f"offset BIGINT, timestamp TIMESTAMP, topic STRING, {SIZE} INT"
"""In those of a decoded archive, beside the columns of fields."""

PARTITIONS = "date DATE, root STRING, batch BIGINT"
"""In the names of folders, outermost first. Given to Spark, for it would take a root such as 007 for a number."""

ROOT_LIMIT_CHARACTERS = 60
"""Of a root, more is cut off. A file's name may have 255 bytes; a character is up to 4, or 3 where Spark escapes it."""

NO_ROOT = ""
"""Root of `/` and `//x`. In the name of a folder that is Hive's default partition, which is read as NULL."""

_DAY_US = 86_400_000_000


def root_of(topic: str) -> str:
    """Return the root of a topic, as `root=` bears it."""
    return topic.removeprefix("/").partition("/")[0][:ROOT_LIMIT_CHARACTERS]


def table_of(topic: str, levels: int) -> str:
    """Return the name of the table of a topic: so many of its components (0: all), joined by underscores."""
    text = topic.removeprefix("/")
    if levels:
        text = "/".join(text.split("/", levels)[:levels])
    text = text[:ROOT_LIMIT_CHARACTERS]
    return "".join(one if unicodedata.category(one)[0] in "LN" else "_" for one in text) or "_"


def root_column(topic: Column) -> Column:
    """Return the roots of topics."""
    component = F.regexp_extract(topic, "^/?([^/]*)", 1)
    return F.substring(component, 1, ROOT_LIMIT_CHARACTERS)


def read_archive(spark: SparkSession, path: str, selection: Selection = EVERYTHING) -> DataFrame:
    """Return the messages of an archive, with the columns `COLUMNS` and `PARTITIONS`, and `size`, that of the value.

    Those of a decoded archive have no `value`. A selection by time is one by event time where folders bear its date.

    Args:
        spark: The session.
        path: A local folder, or a URL that this Spark can read.
        selection: Which messages.

    Raises:
        UsageError: There is no archive, or it needs a package that is not installed.
    """
    decoded = decoded_state(path)
    frame = _whole(spark, path, decoded).drop("table").withColumn("root", F.coalesce("root", F.lit(NO_ROOT)))
    frame = frame.withColumn("size", F.octet_length("value") if decoded is None else F.col(SIZE))
    time = F.col("timestamp") if decoded is None or not decoded.event_time else F.coalesce(EVENT_TIME, "timestamp")
    if selection.prefixes:
        frame = frame.where(reduce(or_, map(_begins, selection.prefixes)))
    if selection.start is not None:
        frame = frame.where(_at(selection.start) <= time).where(_day(selection.start) <= F.col("date"))
    if selection.end is not None:
        frame = frame.where(_at(selection.end) > time).where(_day(selection.end) >= F.col("date"))
    return frame


def local_files(path: str, selection: Selection = EVERYTHING) -> list[str] | None:
    """Return the files that may hold messages that are selected; None where only Spark can reach them.

    Raises:
        UsageError: There is no archive, or it needs a package that is not installed.
    """
    if "://" in path:
        return None
    if not Path(path).is_dir():
        raise UsageError(f"{path}: there is no such archive")
    if is_iceberg(path):
        return [file.removeprefix("file://") for file in data_files(path)]
    folders = [root for root in roots(Path(path)) if _may_hold(root, selection)]
    return [str(part) for root in folders for batch in batches(root).values() for part in parts(batch)]


def _may_hold(folder: Path, selection: Selection) -> bool:
    """Return whether the folder of a date and a root may hold what is selected."""
    day = (date.fromisoformat(folder.parent.name.removeprefix("date=")) - date(1970, 1, 1)).days * _DAY_US
    if selection.start is not None and day + _DAY_US <= microseconds(selection.start):
        return False
    if selection.end is not None and day >= microseconds(selection.end):
        return False
    root = root_in(folder)
    parts_of = [prefix.removeprefix("/").partition("/") for prefix in selection.prefixes or ("",)]
    return any(
        root == component[:ROOT_LIMIT_CHARACTERS]
        if component and slash
        else root.startswith(component[:ROOT_LIMIT_CHARACTERS])
        for component, slash, _ in parts_of
    )


def decoded_state(path: str) -> DecodedState | None:
    """Return what the columns of a decoded archive are; None of one whose values stand as they came.

    Raises:
        UsageError: It cannot be read.
    """
    state = None if "://" in path else load(Path(path))
    return None if state is None else state.decoded


def _columns(decoded: DecodedState | None) -> str:
    if decoded is None:
        return COLUMNS
    return f"{_DECODED_COLUMNS}, {EVENT_TIME} TIMESTAMP" if decoded.event_time else _DECODED_COLUMNS


def _whole(spark: SparkSession, path: str, decoded: DecodedState | None) -> DataFrame:
    schema = f"{_columns(decoded)}, {PARTITIONS}"
    try:
        is_table = is_iceberg(path)
        files = data_files(path) if is_table else [path]
        if not files:
            return spark.createDataFrame([], schema)
        # Of an Iceberg table, the files hold the columns that name their folders, too.
        option = ("recursiveFileLookup", "true") if is_table else ("basePath", path)
        return spark.read.schema(schema).option(*option).parquet(*files)
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            raise UsageError(f"{path}: there is no such archive") from error
        raise


def _begins(prefix: str) -> Column:
    """Return whether a topic has the prefix, with what its root must be then, so that other folders are skipped."""
    matches = F.col("topic").startswith(prefix)
    component, slash, _ = prefix.removeprefix("/").partition("/")
    component = component[:ROOT_LIMIT_CHARACTERS]
    if not component:
        return matches
    root = F.col("root")
    return matches & (root == component if slash else root.startswith(component))


def _at(time: datetime) -> Column:
    return F.timestamp_micros(F.lit(microseconds(time)))


def _day(time: datetime) -> Column:
    return F.to_date(_at(time))
