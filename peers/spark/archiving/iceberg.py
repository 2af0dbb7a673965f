"""The Iceberg table of an archive, and micro-batches as its commits (extra `iceberg`, which brings PyIceberg).

The catalogue is a SQLite file, ARCHIVE/_hub/iceberg.db. The commit that appends a batch sets its number among the
properties of the table, which so recognises a repeated batch. Cost: 60 ms a batch, which the driver holds as one table.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hub.errors import UsageError
from peers.spark.archiving.state import HUB

if TYPE_CHECKING:
    import pyarrow as pa

# Name of the catalogue.
_CATALOG = "hub"

NAMESPACE = "hub"
TABLE = f"{NAMESPACE}.records"

METADATA = "metadata"

_DATABASE = "iceberg.db"

SNAPSHOTS_KEPT = 100
"""Older ones can no longer be read, their records can. Every commit writes all of them."""

_PROPERTIES = {
    "commit.manifest-merge.enabled": "true",  # else each batch adds one that every reader opens
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "10",
    "write.parquet.compression-codec": "zstd",
}


def check_iceberg(path: str) -> None:
    _kind()
    if "?" in path:
        raise UsageError(f"--format iceberg: {path}: a path with a question mark cannot be that of a catalogue")


def is_iceberg(path: str) -> bool:
    return _database(path).exists()


def data_files(path: str) -> list[str]:
    with opened_catalog(path) as catalog:
        if (NAMESPACE,) not in catalog.list_namespaces():
            return []
        tables = [catalog.load_table(name) for name in catalog.list_tables(NAMESPACE)]
        return [task.file.file_path for table in tables for task in table.scan().plan_files()]


@contextmanager
def opened_catalog(path: str) -> Iterator[Any]:
    """Yield the catalogue of an archive; it is made if it is absent."""
    catalog = _kind()(_CATALOG, uri=f"sqlite:///{_database(path)}")
    try:
        yield catalog
    finally:
        catalog.close()


def _kind() -> Any:
    try:
        from pyiceberg.catalog.sql import SqlCatalog  # noqa: PLC0415 -- an extra
    except ImportError as error:
        raise UsageError("an Iceberg table needs PyIceberg: pip install 'topichub[iceberg]'") from error
    return SqlCatalog


def _database(path: str) -> Path:
    return Path(path).resolve() / HUB / _DATABASE


class IcebergBatches:
    """Writes batches."""

    def __init__(self, path: str, table: str = "") -> None:
        self._path = path
        self._folder = f"table={table}" if table else ""
        self._table = (NAMESPACE, table) if table else TABLE

    def write(self, rows: pa.Table, query: str, batch: int) -> bool:
        """Commit a batch of a query; False if it was committed before."""
        with opened_catalog(self._path) as catalog:
            return self._write(catalog, rows, f"hub.messages.batch.{query}", batch)

    def _write(self, catalog: Any, rows: pa.Table, mark: str, batch: int) -> bool:
        exists = catalog.table_exists(self._table)
        if exists and int(catalog.load_table(self._table).properties.get(mark, -1)) >= batch:
            return False
        if not exists:
            self._create(catalog, rows.schema)
        table = catalog.load_table(self._table)
        with table.transaction() as commit:
            with commit.update_schema() as change:
                change.union_by_name(rows.schema)  # columns of a decoded archive that are new
            commit.set_properties({mark: str(batch)})
            commit.append(rows)
        snapshots = table.snapshots()
        if len(snapshots) > 2 * SNAPSHOTS_KEPT:
            old = [snapshot.snapshot_id for snapshot in snapshots[:-SNAPSHOTS_KEPT]]
            table.maintenance.expire_snapshots().by_ids(old).commit()
        return True

    def _create(self, catalog: Any, schema: Any) -> None:
        location = str(Path(self._path).resolve() / self._folder)
        catalog.create_namespace_if_not_exists(NAMESPACE)
        with (
            catalog.create_table_transaction(
                self._table, schema=schema, location=location, properties=_PROPERTIES
            ) as table,
            table.update_spec() as partitions,
        ):
            partitions.add_identity("date")
            partitions.add_identity("root")
