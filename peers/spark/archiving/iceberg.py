"""`IcebergBatches`: micro-batches as commits of an Iceberg table, through PyIceberg (extra `iceberg`).

The number of the last batch of each query stands among the properties of the table, set by the commit that appends the
batch: one that is repeated is recognised. Cost: 60 ms a batch; and it passes through the driver as one Arrow table, so
that its size is bounded by `--max-offsets`.

Invariant: the newest `SNAPSHOTS_KEPT` snapshots can be read, and no record is ever taken out. Not here: merging small
files, which PyIceberg cannot do.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from peers.spark.archiving.iceberg_table import NAMESPACE, TABLE, opened_catalog

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["SNAPSHOTS_KEPT", "IcebergBatches"]

SNAPSHOTS_KEPT = 100
"""Older ones cannot be read any more, their records can. Each is a part of the metadata that every commit writes."""

_PROPERTIES = {
    "commit.manifest-merge.enabled": "true",  # else each batch adds one that every reader opens
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "10",
    "write.parquet.compression-codec": "zstd",
}


class IcebergBatches:
    """Writes batches.

    Args:
        path: Of the archive: a folder of this machine.
        table: Name of the table of some topics; empty where there is one table.
    """

    def __init__(self, path: str, table: str = "") -> None:
        self._path = path
        self._folder = f"table={table}" if table else ""
        self._table = (NAMESPACE, table) if table else TABLE

    def write(self, rows: pa.Table, query: str, batch: int) -> bool:
        """Commit a batch of a query; False if it was committed before."""
        with opened_catalog(self._path) as catalog:
            return self._write(catalog, rows, f"hub.batch.{query}", batch)

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
