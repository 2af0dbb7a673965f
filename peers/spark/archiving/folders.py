"""The folders of an archive: which batches there are, and how a folder is replaced by another.

```
date=2026-11-21/root=zeek/batch=7/part-*.parquet         visible to readers
date=2026-11-21/.compacting.root=zeek/batch=...          being made, or just replaced: hidden from readers
table=zeek_conn/date=...                                 the same, where there is a table for each topic
_hub/staged/                                             files of a batch that is being written
```

A folder is replaced by one exchange of two names (`renameat2`), so that a reader lists the old one or the new one.
Where a file system cannot do that, it takes two renames, and for a moment there is neither. Hidden folders may be
deleted at any time, unless the folder that they replace is absent; `repair` finishes or undoes what a crash has left.
"""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import unquote

from peers.spark.archiving.state import HUB

BATCH = "batch="
_TABLES = "table=*"
_DATES = "date=*"
_ROOT = "root="
_ROOTS = f"{_ROOT}*"
_NO_ROOT = "__HIVE_DEFAULT_PARTITION__"
# Spark escapes these in the name of a folder.
_ESCAPED = frozenset("\"#%'*/:=?\\\x7f{[]^") | frozenset(map(chr, range(1, 32)))

HIDDEN = ".compacting."
_REPLACED = ".replaced."
STAGED = f"{HUB}/staged"
"""Tasks write the files of a batch here; left behind when a job is killed."""

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


def tables(archive: Path) -> list[Path]:
    """Return the folders of tables: the archive's own first, then those of topics."""
    return [archive, *sorted(archive.glob(_TABLES))]


def roots(archive: Path) -> Iterator[Path]:
    """Yield the folders of a date and a root, in order."""
    for table in tables(archive):
        for date in sorted(table.glob(_DATES)):
            yield from sorted(date.glob(_ROOTS))


def batches(root: Path) -> dict[int, Path]:
    """Return the folders of batches by their numbers, in order."""
    found = {int(path.name.removeprefix(BATCH)): path for path in root.glob(f"{BATCH}*")}
    return dict(sorted(found.items()))


def size_of(batch: Path) -> int:
    """Return the size of the files of a batch, bytes."""
    return sum(path.stat().st_size for path in parts(batch))


def parts(batch: Path) -> list[Path]:
    """Return the Parquet files of a batch, in the order in which they were written."""
    return sorted(batch.glob("*.parquet"))


def hidden_name(root: Path) -> Path:
    """Return where the folder is made that replaces this one."""
    return root.with_name(HIDDEN + root.name)


def link_files(batch: Path, to: Path) -> None:
    """Put the files of a batch into another folder, too, by hard links where that is possible."""
    to.mkdir(parents=True)
    for part in parts(batch):
        try:
            os.link(part, to / part.name)
        except OSError:  # no hard links on this file system
            shutil.copy2(part, to / part.name)


def replace(root: Path) -> None:
    """Replace a folder by its hidden one, and delete the old one."""
    hidden = hidden_name(root)
    sync(hidden)
    if exchange(root, hidden):
        sync(root.parent)
        shutil.rmtree(hidden)
        return
    replaced = root.with_name(_REPLACED + root.name)
    root.rename(replaced)
    hidden.rename(root)
    sync(root.parent)
    shutil.rmtree(replaced)


def place(batch: Path, files: Iterable[Path], made: Path) -> None:
    """Replace the files of a batch by others.

    Args:
        batch: Its folder; a reader sees the old files or the new ones.
        files: They are moved.
        made: Where the new folder is made.
    """
    made.mkdir()
    for file in files:
        file.rename(made / file.name)
    sync(made)
    if not batch.exists():
        batch.parent.mkdir(parents=True, exist_ok=True)
        made.rename(batch)
    elif exchange(batch, made):
        shutil.rmtree(made)
    else:
        shutil.rmtree(batch)
        made.rename(batch)
    sync(batch.parent)


def root_folder(root: str) -> str:
    """Return the name of the folder of a root, as Spark writes it."""
    return _ROOT + ("".join(f"%{ord(one):02X}" if one in _ESCAPED else one for one in root) or _NO_ROOT)


def root_in(folder: Path) -> str:
    """Return the root of a folder; empty for no root."""
    return unquote(folder.name.removeprefix(_ROOT)).replace(_NO_ROOT, "")


def exchange(one: Path, other: Path) -> bool:
    """Exchange the names of two folders at once; False where the system cannot."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    return bool(rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0)


def sync(folder: Path) -> None:
    """Sync the names in a folder to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def repair(archive: Path) -> int:
    """Finish or undo what a killed job has left; return how many folders that were."""
    staged = archive / STAGED
    was_staging = staged.exists()
    if was_staging:
        shutil.rmtree(staged)
    return was_staging + sum(map(_repair, tables(archive)))


def _repair(table: Path) -> int:
    found = 0
    for left in table.glob(f"{_DATES}/{_REPLACED}{_ROOTS}"):
        root = left.with_name(left.name.removeprefix(_REPLACED))
        if not root.exists():
            hidden_name(root).rename(root)  # it was whole before its place was made free
        shutil.rmtree(left)
        found += 1
    for left in table.glob(f"{_DATES}/{HIDDEN}{_ROOTS}"):
        shutil.rmtree(left)
        found += 1
    return found
