"""`DeltaBatches`: micro-batches as commits of a Delta table, through delta-rs (extra `delta`).

Each commit bears the query and the number of the batch, as Delta's own protocol has it for this (an app transaction):
one that is repeated is recognised. Cost: a batch passes through the driver as one Arrow table, so that its size is
bounded by `--max-offsets`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hub.errors import UsageError
from peers.spark.archiving.compaction import Compacted

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["DeltaBatches", "check_delta"]


def check_delta() -> None:
    """See to it that delta-rs is there.

    Raises:
        UsageError: It is not.
    """
    _deltalake()


def _deltalake() -> Any:
    try:
        import deltalake  # noqa: PLC0415 -- an extra
    except ImportError as error:
        raise UsageError("--format delta needs delta-rs: pip install '.[delta]'") from error
    return deltalake


class DeltaBatches:
    """Writes batches.

    Args:
        path: Of the table.
    """

    def __init__(self, path: str) -> None:
        self._path = path

    def write(self, rows: pa.Table, query: str, batch: int) -> bool:
        """Commit a batch of a query; False if it was committed before."""
        deltalake = _deltalake()
        if self._committed(query) >= batch:
            return False
        deltalake.write_deltalake(
            self._path,
            rows,
            mode="append",
            schema_mode="merge",  # columns of a decoded archive that are new
            partition_by=["date", "root"],
            writer_properties=deltalake.WriterProperties(compression="ZSTD"),
            commit_properties=deltalake.CommitProperties(app_transactions=[deltalake.Transaction(query, batch)]),
        )
        return True

    def _committed(self, query: str) -> int:
        """Return the number of the last batch of a query; -1 if there is none."""
        deltalake = _deltalake()
        if not deltalake.DeltaTable.is_deltatable(self._path):
            return -1
        version = deltalake.DeltaTable(self._path).transaction_version(query)
        return -1 if version is None else int(version)

    def compact(self) -> Compacted:
        """Merge small files. Delta keeps the old ones for readers of old versions."""
        deltalake = _deltalake()
        if not deltalake.DeltaTable.is_deltatable(self._path):
            return Compacted()
        done = deltalake.DeltaTable(self._path).optimize.compact()
        return Compacted(int(done["numFilesRemoved"]), int(done["numFilesAdded"]))
