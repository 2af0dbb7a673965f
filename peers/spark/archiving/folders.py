"""The folders and files of an archive: which batches there are, and how a folder is replaced by another.

```
ARCHIVE/[table=zeek_conn/]date=2026-11-21/root=zeek/batch=7/part-*.parquet
                                         /.compacting.root=zeek/batch=...    being made, or just replaced
```

A folder is replaced by one exchange of two names (`renameat2`), so that a reader lists the old one or the new one.
Where a file system cannot do that, it takes two renames, and for a moment there is neither. Hidden folders may be
deleted unless the folder that they replace is absent. This module is light: the command line imports it.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from hub.errors import UsageError
from hub.topics import check_prefix, printable
from peers.spark.archiving.iceberg import data_files, is_iceberg
from peers.spark.archiving.state import HUB, DecodedState, load

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
    for table in tables(archive):
        for day in sorted(table.glob(_DATES)):
            yield from sorted(day.glob(_ROOTS))


def batches(root: Path) -> dict[int, Path]:
    found = {int(path.name.removeprefix(BATCH)): path for path in root.glob(f"{BATCH}*")}
    return dict(sorted(found.items()))


def size_of(batch: Path) -> int:
    return sum(path.stat().st_size for path in parts(batch))


def parts(batch: Path) -> list[Path]:
    return sorted(batch.glob("*.parquet"))


def hidden_name(root: Path) -> Path:
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
    """Replace the files of a batch by others, which are moved; a reader sees the old files or the new ones."""
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
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def repair(archive: Path) -> int:
    """Finish or undo the work of a killed job; return how many folders that were."""
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


# Roots and tables are cut to this. A file's name may have 255 bytes, a character up to 4.
_NAME_CHARACTERS = 60

_DAY_US = 86_400_000_000


class Selection(NamedTuple):
    """Which messages of an archive are read; all by default."""

    prefixes: Sequence[str] = ()
    """Topics that start with one of these; none: all topics."""
    start: datetime | None = None
    """Not before it; UTC without a zone."""
    end: datetime | None = None
    """Before it; UTC without a zone."""

    def check(self) -> Selection:
        for prefix in self.prefixes:
            check_prefix(prefix)
        if self.start is not None and self.end is not None and microseconds(self.start) >= microseconds(self.end):
            raise UsageError(f"--start, --end: {self.start} is not before {self.end}")
        return self

    def words(self) -> str:
        said = [f"topics that begin with {' or '.join(map(printable, self.prefixes))}"] if self.prefixes else []
        if self.start is not None:
            said.append(f"from {self.start.isoformat()} on")
        if self.end is not None:
            said.append(f"before {self.end.isoformat()}")
        return ", ".join(said) or "everything"


EVERYTHING = Selection()


def microseconds(time: datetime) -> int:
    """Return µs since 1970 UTC; a time without a zone is UTC."""
    time = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return int(time.timestamp()) * 1_000_000 + time.microsecond


def root_of(topic: str) -> str:
    """Return the root of a topic, which names its folder."""
    return topic.removeprefix("/").partition("/")[0][:_NAME_CHARACTERS]


def table_of(topic: str, levels: int) -> str:
    """Return the name of the table of a topic: so many of its components (0: all), joined by underscores."""
    text = topic.removeprefix("/")
    if levels:
        text = "/".join(text.split("/", levels)[:levels])
    text = text[:_NAME_CHARACTERS]
    return "".join(one if unicodedata.category(one)[0] in "LN" else "_" for one in text) or "_"


def decoded_state(path: str) -> DecodedState | None:
    """Return the columns of a decoded archive, None of an archive of values."""
    state = load(Path(path))
    return None if state is None else state.decoded


def files_of(path: str, selection: Selection = EVERYTHING) -> list[str]:
    """Return the Parquet files that may hold messages of a selection."""
    if not Path(path).is_dir():
        raise UsageError(f"{path}: there is no such archive")
    if is_iceberg(path):
        return [file.removeprefix("file://") for file in data_files(path)]
    folders = [root for root in roots(Path(path)) if _may_hold(root, selection)]
    return [str(part) for root in folders for batch in batches(root).values() for part in parts(batch)]


def _may_hold(folder: Path, selection: Selection) -> bool:
    """Return whether the folder of a date and a root may hold a message of a selection."""
    day = (date.fromisoformat(folder.parent.name.removeprefix("date=")) - date(1970, 1, 1)).days * _DAY_US
    if selection.start is not None and day + _DAY_US <= microseconds(selection.start):
        return False
    if selection.end is not None and day >= microseconds(selection.end):
        return False
    root = root_in(folder)
    components = [prefix.removeprefix("/").partition("/") for prefix in selection.prefixes or ("",)]
    return any(
        root == component[:_NAME_CHARACTERS] if component and slash else root.startswith(component[:_NAME_CHARACTERS])
        for component, slash, _ in components
    )
