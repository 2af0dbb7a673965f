"""The Iceberg table of an archive: where it stands, and in which files (extra `iceberg`, which brings PyIceberg).

```
ARCHIVE/data/date=…/root=…/*.parquet       records
ARCHIVE/metadata/                          Iceberg's own: snapshots, manifests
ARCHIVE/_hub/iceberg.db                    the catalogue, SQLite: which metadata file is the newest
```

Iceberg needs a catalogue, which says atomically what the newest state of a table is. Where there is no service for
that, a file of SQLite does it, beside the rest of what a job remembers.

Not here: what writes it (`peers.spark.archiving.iceberg`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hub.errors import UsageError
from peers.spark.archiving.state import HUB

__all__ = ["METADATA", "NAMESPACE", "TABLE", "check_iceberg", "data_files", "is_iceberg", "opened_catalog"]

_CATALOG = "hub"
"""Name of the catalogue: tables stand in it under this name."""

NAMESPACE = "hub"
TABLE = f"{NAMESPACE}.records"

METADATA = "metadata"
"""Folder of what Iceberg knows of a table."""

_DATABASE = "iceberg.db"


def check_iceberg(path: str) -> None:
    """See to it that an archive of this format can be written.

    Raises:
        UsageError: PyIceberg is not there, or it cannot stand at this path.
    """
    _kind()
    if "://" in path:
        raise UsageError("--format iceberg: only on a local disk, where its catalogue can stand beside it")
    if "?" in path:
        raise UsageError(f"--format iceberg: {path}: a path with a question mark cannot be that of a catalogue")


def is_iceberg(path: str) -> bool:
    """Return whether a folder is an archive of this format."""
    return "://" not in path and _database(path).exists()


def data_files(path: str) -> list[str]:
    """Return the files of Parquet that are valid now.

    Raises:
        UsageError: PyIceberg is not there.
    """
    with opened_catalog(path) as catalog:
        if (NAMESPACE,) not in catalog.list_namespaces():
            return []
        tables = [catalog.load_table(name) for name in catalog.list_tables(NAMESPACE)]
        return [task.file.file_path for table in tables for task in table.scan().plan_files()]


@contextmanager
def opened_catalog(path: str) -> Iterator[Any]:
    """Yield the catalogue of an archive; it is made if it is absent.

    Raises:
        UsageError: PyIceberg is not there.
    """
    catalog = _kind()(_CATALOG, uri=f"sqlite:///{_database(path)}")
    try:
        yield catalog
    finally:
        catalog.close()


def _kind() -> Any:
    try:
        from pyiceberg.catalog.sql import SqlCatalog  # noqa: PLC0415 -- an extra
    except ImportError as error:
        raise UsageError("an Iceberg table needs PyIceberg: pip install '.[iceberg]'") from error
    return SqlCatalog


def _database(path: str) -> Path:
    return Path(path).resolve() / HUB / _DATABASE
