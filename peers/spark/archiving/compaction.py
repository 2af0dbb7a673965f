"""Compaction: many small batches of an archive become few files.

```
root=zeek/batch=0 .. batch=9 (small)   batch=10 (large)   batch=11 (not finished)
root=zeek/batch=9 (all of 0 to 9)      batch=10           batch=11
```

Per date and root, neighbouring small batches are written into one file under the number of the last of them, in a
hidden folder; the files of all other batches are linked into it; then the two folders exchange their names. A reader
that lists the folder sees the old batches or the new ones; a reader that had listed it before finds files missing, and
reads again.

The number of the last finished batch is stored before the first exchange: if Spark repeats that batch (its commit was
lost), the job knows that it is in the archive, in any folder. Owner: the job that has the archive's lock.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from peers.spark.archiving.folders import BATCH, batches, hidden_name, link_files, parts, replace, roots, size_of
from peers.spark.connector.record_batches import joined

SMALL_BYTES = 32 * 1024 * 1024
"""Smaller batches are merged. Above it, opening files costs little of reading them."""

TARGET_BYTES = 128 * 1024 * 1024
"""A merged file stops growing there: Spark's own size of a task."""

# Rows that are held and written together: 100 MB of messages of 100 bytes.
_ROW_GROUP_ROWS = 512 * 1024

# As Spark.
_ZSTD_LEVEL = 3

_TOPIC = "topic"


class Compacted(NamedTuple):
    """How much was merged."""

    merged: int = 0
    """Batches of one date and root."""
    made: int = 0
    """Files that hold them now."""

    def __add__(self, other: object) -> Compacted:
        if not isinstance(other, Compacted):
            return NotImplemented
        return Compacted(*map(sum, zip(self, other, strict=True)))


def compact(archive: Path, through: int, least: int = 2, begin: Callable[[], object] = lambda: None) -> Compacted:
    """Merge small batches.

    Args:
        archive: Its folder.
        through: Number of the last finished batch; later ones stay.
        least: Fewest batches that are worth a merge.
        begin: Called before the first folder is replaced.
    """
    done = Compacted()
    for root in roots(archive):
        found = batches(root)
        sizes = {number: size_of(path) for number, path in found.items() if number <= through}
        merging = [group for group in groups(sizes) if len(group) >= least]
        if merging:
            _make(root, found, merging)
            begin()
            begin = lambda: None  # noqa: E731 -- it has begun
            replace(root)
            done += Compacted(sum(map(len, merging)), len(merging))
    return done


def groups(sizes: dict[int, int]) -> Iterator[list[int]]:
    """Yield neighbouring small batches that are not larger than the target together."""
    group: list[int] = []
    total = 0
    for number, size in sizes.items():
        if group and (size >= SMALL_BYTES or total + size > TARGET_BYTES):
            yield group
            group, total = [], 0
        if size < SMALL_BYTES:
            group.append(number)
            total += size
    if group:
        yield group


def _make(root: Path, found: dict[int, Path], merging: Iterable[list[int]]) -> None:
    """Make the hidden folder."""
    hidden = hidden_name(root)
    if hidden.exists():
        shutil.rmtree(hidden)
    merged: set[int] = set()
    for group in merging:
        merged.update(group)
        target = hidden / f"{BATCH}{group[-1]}"
        target.mkdir(parents=True)
        merge([part for number in group for part in parts(found[number])], target / "part-00000.zstd.parquet")
    for number, path in found.items():
        if number not in merged:
            link_files(path, hidden / path.name)


def merge(sources: list[Path], target: Path) -> None:
    """Write the rows of files into one, in their order, and sync it.

    Files of a decoded archive may differ in their columns: the new one has all of them, each as wide as its widest.
    """
    schema = _schema_of(sources)
    with target.open("wb") as file:
        with pq.ParquetWriter(
            file,
            schema,
            compression="zstd",
            compression_level=_ZSTD_LEVEL,
            use_dictionary=[_TOPIC],
        ) as writer:
            for rows in joined(_batches_of(sources, schema), _ROW_GROUP_ROWS, attrgetter("num_rows")):
                writer.write_table(rows, row_group_size=_ROW_GROUP_ROWS)
        file.flush()
        os.fsync(file.fileno())


def _schema_of(sources: list[Path]) -> pa.Schema:
    schemas = [pq.read_schema(source) for source in sources]
    if all(schema.equals(schemas[0]) for schema in schemas[1:]):
        return schemas[0]
    plain = [schema.remove_metadata() for schema in schemas]  # Spark's says which columns there are
    return pa.unify_schemas(plain, promote_options="permissive")


def _fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return rows with all columns of a schema."""
    if batch.schema.names == schema.names:
        return batch.cast(schema) if not batch.schema.equals(schema) else batch
    present = set(batch.schema.names)
    columns = [
        batch.column(field.name).cast(field.type) if field.name in present else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _batches_of(sources: Iterable[Path], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for source in sources:
        with pq.ParquetFile(source) as file:
            for batch in file.iter_batches():
                yield _fitted(batch, schema)
