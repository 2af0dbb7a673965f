"""Copies of a journal's folder, consistent also while a hub writes it.

Sealed segments never change, and the newest one only grows: its copy ends as after a kill, which the next hub repairs.
Positions of consumers are copied first, so that none is behind the last copied record. A hub that opens the copy begins
a new epoch, so that positions after its end are noticed (`hub.journal.segment.Epoch`).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

import apsw

from hub.errors import JournalUnavailableError, UsageError
from peers.journal.folder import (
    CONSUMERS,
    FILE_MODE,
    MAKING,
    Folder,
    check_is_folder,
    firsts,
    making,
    segment_path,
    translated,
)
from peers.journal.tier.tiering import TIER_FILE
from peers.journal.view import View

_BUSY_MS = 10_000
_COPY_BYTES = 1024 * 1024

OnSegment = Callable[[str, int, int], object]  # called before each segment: its name, its number, their count


class Copied(NamedTuple):
    """A finished copy."""

    first: int  # the oldest offset
    next: int  # the offset behind the newest record
    segments: int
    copied_segments: int  # the others were there already
    copied_bytes: int


def copy_journal(source: str, target: str, on_segment: OnSegment = lambda *_: None) -> Copied:
    """Make a folder a copy of a journal; sealed segments that an earlier copy has are not copied again.

    Raises:
        UsageError: The target has something else, or another journal.
        StorageError: Reading or writing fails, or a hub runs on the target.
    """
    check_is_folder(source)
    if Path(target).exists() and os.path.samefile(source, target):  # noqa: PTH121 -- texts
        raise UsageError(f"{target}: the journal itself; choose another folder")
    folder = Folder(target)
    try:
        _check_same(source, target)
        with translated(target):
            _copy_consumers(Path(source, CONSUMERS), Path(target, CONSUMERS))
            tier = _read(Path(source, TIER_FILE))
            copied_segments = copied_bytes = 0
            offsets = firsts(source)
            for number, first in enumerate(offsets):
                name = Path(segment_path(source, first)).name
                on_segment(name, number, len(offsets))
                size = _copy_segment(Path(source, name), Path(target, name))
                copied_segments += size > 0
                copied_bytes += size
            if tier is not None:  # behind the segments: without one, the folder would not be a journal
                Path(target, TIER_FILE).write_bytes(tier)
            for first in set(firsts(target)).difference(firsts(source)):  # the journal has deleted it meanwhile
                Path(segment_path(target, first)).unlink()
            folder.sync()
    finally:
        folder.release()
    with closing(View(target)) as view:
        return Copied(view.extent.first, view.extent.next, len(view.firsts), copied_segments, copied_bytes)


def _check_same(source: str, target: str) -> None:
    """Check that a target is empty, or has an earlier copy of the same journal."""
    if not firsts(target):
        return
    with closing(View(source)) as here, closing(View(target)) as there:
        if here.id != there.id:
            raise UsageError(f"{target}: has another journal; choose an empty folder, or one with an earlier copy")
        if there.extent.next > here.extent.next:
            raise UsageError(f"{target}: has newer records than {source}; choose an empty folder")


def _copy_consumers(source: Path, target: Path) -> None:
    copy = target.with_name(target.name + MAKING)
    for left in (copy, Path(f"{copy}-wal"), Path(f"{copy}-shm")):
        left.unlink(missing_ok=True)
    if not source.exists():
        target.unlink(missing_ok=True)
        return
    try:
        with closing(apsw.Connection(str(source), flags=apsw.SQLITE_OPEN_READWRITE)) as database:
            database.set_busy_timeout(_BUSY_MS)
            database.execute("VACUUM INTO ?", (str(copy),))
    except apsw.Error as error:
        raise JournalUnavailableError(f"{source}: {error}") from error
    copy.chmod(FILE_MODE)
    copy.replace(target)
    for left in (Path(f"{target}-wal"), Path(f"{target}-shm")):
        left.unlink(missing_ok=True)


def _read(path: Path) -> bytes | None:
    with suppress(FileNotFoundError):
        return path.read_bytes()
    return None


def _copy_segment(source: Path, target: Path) -> int:
    """Copy a segment unless the target has it; return the copied bytes, 0 also where the hub has deleted it."""
    try:
        opened = source.open("rb")
    except FileNotFoundError:
        return 0
    with opened:
        status = os.fstat(opened.fileno())
        with suppress(FileNotFoundError):
            there = target.stat()
            if (there.st_size, there.st_mtime_ns) == (status.st_size, status.st_mtime_ns):
                return 0
        with making(str(target)) as descriptor, os.fdopen(descriptor, "wb", closefd=False) as copy:
            shutil.copyfileobj(opened, copy, _COPY_BYTES)
            size = copy.tell()
        os.close(descriptor)
        os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))
        return size
