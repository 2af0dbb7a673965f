"""`ArchiveOrder`, `ArchiveState` (in ARCHIVE/_hub/archive.json): the order of a job, its stored state, and the lock."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from hub.errors import BusyError, UsageError
from peers.spark.connector.options import Access

HUB = "_hub"
"""Folder of the state; readers skip names that begin with an underscore."""

# Columns of a decoded archive, beside those of the fields.
EVENT_TIME = "event_time"
SIZE = "_bytes"
REST = "_rest"

CHECKPOINT = "checkpoint"
_STATE = "archive.json"
_LOCK = "lock"

Format = Literal["parquet", "iceberg"]


@dataclass(frozen=True, kw_only=True)
class ArchiveOrder:
    """Which records a job archives, and how."""

    access: Access
    path: str
    topics: tuple[str, ...] | None = None
    """Prefixes; None for those of the archive, or for all if it is new."""
    starting: str = "earliest"
    """Where a new archive begins: earliest, latest, or an offset."""
    every_s: float | None = None
    """How often the job looks for more; None: it ends at the end of the journal."""
    format: Format = "parquet"
    compact: bool = False
    table_by: int | None = None
    """So many levels of a topic name its table, 0: all; None: as the archive has it, or one table."""
    max_offsets: int | None = None
    decode: bool = False
    schema: str = ""
    """Types of single columns, in Spark's DDL or JSON."""
    event_time: str = ""
    """Field with the date that names the folders; empty for the time of the hub."""
    lossy: bool = False

    def check(self) -> None:
        if "://" in self.path:
            raise UsageError(f"{self.path}: an archive is a folder; to other places, Spark writes by itself")
        if self.compact and self.format == "iceberg":
            raise UsageError("--compact: PyIceberg cannot merge the files of a table")
        if (self.schema or self.event_time) and not self.decode:
            raise UsageError("--schema, --event-time: --decode is needed, too")


class DecodedState(msgspec.Struct, frozen=True):
    """The columns of a decoded archive; see `peers.spark.archiving.typed`."""

    schema: dict[str, Any]
    """Of the fields, as Spark writes a schema in JSON."""
    fields: dict[str, str]
    event_time: str = ""
    """Field of the event time; its date names the folders; empty for the time of the hub."""
    declared: tuple[str, ...] = ()


class ArchiveState(msgspec.Struct, frozen=True):
    """The stored state of an archive."""

    format: Format
    topics: tuple[str, ...]
    compacted: int = -1
    """Batches up to this one may be merged: if Spark repeats one, it is in the archive already."""
    decoded: DecodedState | None = None
    """None for values as published; without columns where there is a table for each topic."""
    table_by: int | None = None
    """So many levels of a topic name its table, 0: all; None for one table."""
    tables: dict[str, DecodedState | None] = {}
    """The tables, and their columns where values were decoded."""


def load(archive: Path) -> ArchiveState | None:
    """Return the state, None of a folder that is no archive yet."""
    path = archive / HUB / _STATE
    try:
        return msgspec.json.decode(path.read_bytes(), type=ArchiveState)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise UsageError(f"{path}: {error}") from error


def store(archive: Path, state: ArchiveState) -> None:
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
    """Make the folder if it is absent, and lock it."""
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
