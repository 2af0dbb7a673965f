"""The columns of a decoded archive in one place, for readers that would take them from the first file that they find.

`_common_metadata` in the archive's folder is Parquet's own place for it: Spark looks there, pandas and pyarrow are
given it. It has the columns of the files and those that the names of folders bear. Not here: what the columns are.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql.types import StructType

from hub.errors import UsageError
from peers.spark.connector.record_batches import arrow_schema

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["COMMON", "schema_of", "write_common_schema"]

COMMON = "_common_metadata"

_FOLDERS = (("date", pa.date32()), ("root", pa.string()), ("batch", pa.int64()))


def schema_of(text: str) -> StructType:
    """Return a schema as somebody has written it: `query STRING, rtt DOUBLE`, or what `df.schema.json()` gives.

    Raises:
        UsageError: It is neither.
    """
    try:
        if text.lstrip().startswith("{"):
            return StructType.fromJson(msgspec.json.decode(text))
        schema = StructType.fromDDL(" ".join(text.split()))
    except (PySparkException, ValueError, KeyError, TypeError) as error:
        said = str(error).strip().partition("\n")[0]
        raise UsageError(f"--schema: columns expected such as query STRING, rtt DOUBLE: {said}") from error
    if not isinstance(schema, StructType):
        raise UsageError("--schema: columns expected such as query STRING, rtt DOUBLE")
    return schema


def write_common_schema(archive: Path, schema: StructType) -> None:
    """Write it; readers find the old one or the new one.

    Raises:
        UsageError: It cannot be written.
    """
    path = archive / COMMON
    new = archive / f".{COMMON}.new"
    try:
        pq.write_metadata(_with_folders(arrow_schema(schema)), new)
        os.replace(new, path)  # noqa: PTH105 -- as for the state beside it
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error


def _with_folders(schema: Iterable[pa.Field]) -> pa.Schema:
    return pa.schema([*schema, *(pa.field(name, kind) for name, kind in _FOLDERS)])
