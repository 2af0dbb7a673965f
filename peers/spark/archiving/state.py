"""What a job that writes an archive is asked (`ArchiveOrder`) and must remember (`ArchiveState`), and its lock.

Spark has a checkpoint of its own beside it:

```
ARCHIVE/_hub/archive.json    format, topics, how far batches were compacted
ARCHIVE/_hub/checkpoint/     Spark's
ARCHIVE/_hub/lock            held while a job writes
```

Owner: the job that has the lock. Invariant: the file is whole, the old one or the new one. No Spark here.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec

from hub.errors import BusyError, UsageError

__all__ = ["CHECKPOINT", "HUB", "ArchiveOrder", "ArchiveState", "DecodedState", "Format", "load", "locked", "store"]

HUB = "_hub"
"""Folder of all this; readers skip names that begin with an underscore."""

CHECKPOINT = "checkpoint"
_STATE = "archive.json"
_LOCK = "lock"

Format = Literal["parquet", "iceberg"]


@dataclass(frozen=True, kw_only=True)
class ArchiveOrder:
    """What a job is asked to archive, and how."""

    url: str
    path: str
    topics: tuple[str, ...] | None = None
    """Prefixes; None stands for those of the archive, or for all if it is new."""
    starting: str = "earliest"
    """Where a new archive begins: earliest, latest, or an offset."""
    every_s: float | None = None
    """How often the job looks for more; None: it archives what is there, and ends."""
    format: Format = "parquet"
    compact: bool = False
    table_by: int | None = None
    """So many levels of a topic name the table of a message, 0: all; None: as the archive has it, or one table."""
    max_offsets: int | None = None
    decode: bool = False
    """Whether fields of messages become typed columns."""
    schema: str = ""
    """Types of single columns, in Spark's DDL or JSON, in place of those that are looked up."""
    event_time: str = ""
    """Field by whose date folders are named; empty for the time of the hub."""
    lossy: bool = False
    """Whether the job goes on where records were deleted before they were archived."""
    token: str = field(default="", repr=False)
    token_file: str = ""
    """In place of the token: the path of a file with it."""
    consumer: str = ""
    """By which name the hub is told how far the archive is; empty for not at all."""
    ca: str = ""
    certificate: str = ""
    key: str = ""

    @property
    def is_local(self) -> bool:
        """Whether the archive is a folder of this machine."""
        return "://" not in self.path


class DecodedState(msgspec.Struct, frozen=True):
    """What the columns of a decoded archive are; see `peers.spark.archiving.typed_columns`."""

    schema: dict[str, Any]
    """Of the fields, as Spark writes a schema in JSON."""
    fields: dict[str, str]
    """The field of each column."""
    event_time: str = ""
    """Field of the event time, by which folders are named; empty where they are named by the time of the hub."""
    declared: tuple[str, ...] = ()
    """Columns whose types were written down."""


class ArchiveState(msgspec.Struct, frozen=True):
    """What an archive is."""

    format: Format
    topics: tuple[str, ...]
    compacted: int = -1
    """Batches up to this one may have been merged: if Spark repeats one, it is there already."""
    decoded: DecodedState | None = None
    """None where values stand as they came; without columns where there is a table for each topic."""
    table_by: int | None = None
    """So many levels of a topic name its table, 0: all; None where there is one table."""
    tables: dict[str, DecodedState | None] = {}
    """The tables by their names, and their columns where values were decoded."""


def load(archive: Path) -> ArchiveState | None:
    """Return the state, None of a folder that is no archive yet.

    Raises:
        UsageError: It cannot be read.
    """
    path = archive / HUB / _STATE
    try:
        return msgspec.json.decode(path.read_bytes(), type=ArchiveState)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise UsageError(f"{path}: {error}") from error


def store(archive: Path, state: ArchiveState) -> None:
    """Write the state, and have it on the disk.

    Raises:
        UsageError: That cannot be.
    """
    path = archive / HUB / _STATE
    new = path.with_suffix(".new")
    try:
        with new.open("wb") as file:
            file.write(msgspec.json.encode(state))
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error


@contextmanager
def locked(archive: Path) -> Iterator[None]:
    """Make the folder if it is absent, and keep other jobs from writing there.

    Raises:
        BusyError: Another job does.
        UsageError: It cannot be made.
    """
    folder = archive / HUB
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise UsageError(f"{archive}: {error.strerror}") from error
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise BusyError(f"{archive}: another job writes this archive; give each its own folder") from error
        yield
    finally:
        os.close(lock)
