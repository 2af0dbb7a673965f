"""`Folder`: where the segments of a journal stand, and who may write there.

```
journal/  00000000000000000000.seg   sealed; deleted whole
          00000000000001048576.seg
          00000000000002097152.seg   the newest: appended to
```

The name of a segment is the offset of its first record. A file whose name ends with `.new` is being made; what a crash
has left of one is deleted when the folder is taken. The lock (`flock`) is on the folder itself, for as long as the
process lives. Folder and files are for their owner alone.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hub.errors import JournalCorruptError, JournalUnavailableError

FILE_MODE = 0o600

MAKING = ".new"
"""Behind the name of a file that is being made."""

_FOLDER_MODE = 0o700

_SUFFIX = ".seg"

_DIGITS = 20  # names sort as their numbers do: offsets have 19 digits at most

_HARMLESS = frozenset({"lost+found", "consumers.db", "consumers.db-wal", "consumers.db-shm"})
"""What may stand in a folder that becomes a journal: what the root of a file system has, and positions of consumers,
which belong to a journal whose segments were deleted."""

_held: set[tuple[int, int]] = set()
"""Folders that this process has taken, by device and inode."""


def sync_data(descriptor: int) -> None:
    """Wait until what a descriptor's file holds is on the disk; macOS has no `fdatasync`."""
    (os.fdatasync if hasattr(os, "fdatasync") else os.fsync)(descriptor)


@contextmanager
def making(path: str) -> Iterator[int]:
    """Give a descriptor, to write a file by, which gets its name once it is whole; it vanishes if anything fails.

    Behind the block the descriptor is the caller's, who closes it; after a failure it is closed. Whether the name is on
    the disk is the caller's care.
    """
    descriptor = os.open(path + MAKING, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
    try:
        yield descriptor
        os.fsync(descriptor)
        os.rename(path + MAKING, path)  # noqa: PTH104
    except BaseException:
        os.close(descriptor)
        with suppress(OSError):
            os.unlink(path + MAKING)  # noqa: PTH108
        raise


class Folder:
    """A journal's folder, made if it is absent and taken for this process until `release`.

    Raises:
        JournalUnavailableError: Another process has it, or it cannot be opened.
        JournalCorruptError: It is something else than a journal.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        if Path(path).is_file():
            raise JournalCorruptError(f"{path}: a file; a journal is a folder, choose another path")
        with translated(path):
            Path(path).mkdir(mode=_FOLDER_MODE, exist_ok=True)
            self._descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)  # bears the lock
        try:
            self._id = identity(os.fstat(self._descriptor))
            self._lock()
            self._check_contents()
        except BaseException:
            os.close(self._descriptor)
            raise
        _held.add(self._id)

    def _lock(self) -> None:
        in_use = f"{self.path}: another hub has this journal open; give each its own folder"
        if self._id in _held:
            raise JournalUnavailableError(in_use)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise JournalUnavailableError(in_use) from error

    def _check_contents(self) -> None:
        """Check that this is a journal, or can become one; delete what a crash has left half made."""
        names = set(os.listdir(self.path)) - _HARMLESS  # noqa: PTH208 -- names alone
        for name in [name for name in names if name.endswith(_SUFFIX + MAKING)]:
            os.unlink(f"{self.path}/{name}")  # noqa: PTH108
            names.discard(name)
        if names and not any(name.endswith(_SUFFIX) for name in names):
            raise JournalCorruptError(f"{self.path}: a folder, but not a journal; choose another, or an empty one")

    @property
    def is_in_place(self) -> bool:
        """Whether the folder that was taken still stands where it stood."""
        return stands(self.path, self._id)

    def sync(self) -> None:
        """Wait until the names in the folder are on the disk; raises `OSError`."""
        os.fsync(self._descriptor)

    def release(self) -> None:
        """Leave the folder to others."""
        if self._descriptor >= 0:
            _held.discard(self._id)
            os.close(self._descriptor)
            self._descriptor = -1


def identity(status: os.stat_result) -> tuple[int, int]:
    """Return device and inode, which identify a file or folder under any name."""
    return status.st_dev, status.st_ino


def stands(path: str, known: tuple[int, int]) -> bool:
    """Return whether the file or folder with that identity still stands under a name; asked at every commit."""
    try:
        return identity(os.stat(path)) == known  # noqa: PTH116 -- it is quicker
    except OSError:
        return False


def check_is_folder(path: str) -> None:
    """Check that there is a journal; raises `JournalUnavailableError`, or `JournalCorruptError` for something else."""
    place = Path(path)
    if place.is_file():
        raise JournalCorruptError(f"{path}: a file; a journal is a folder, choose another path")
    if not place.is_dir():
        raise JournalUnavailableError(f"{path}: there is no such journal")
    with translated(path):
        if not firsts(path):
            raise JournalCorruptError(f"{path}: a folder, but not a journal: it holds no segment")


def firsts(path: str) -> list[int]:
    """Return the first offset of each segment, ascending, as their names say; raises `OSError`."""
    names = os.listdir(path)  # noqa: PTH208 -- names alone
    stems = [name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX)]
    return sorted(int(stem) for stem in stems if len(stem) == _DIGITS and stem.isdecimal())


def segment_path(path: str, first: int) -> str:
    """Return the path of a segment."""
    return f"{path}/{first:0{_DIGITS}}{_SUFFIX}"


class JournalFullError(JournalUnavailableError):
    """There is no room on the disk for the journal."""


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Turn an `OSError` into a `JournalUnavailableError` that names the place."""
    try:
        yield
    except OSError as error:
        place = error.filename if isinstance(error.filename, str) else path
        if error.errno == errno.ENOSPC:
            raise JournalFullError(f"{place}: the disk is full") from error
        if isinstance(error, PermissionError):
            text = f"{place}: this account may not write there; choose a folder that it may write in"
            raise JournalUnavailableError(text) from error
        raise JournalUnavailableError(f"{place}: {error.strerror or error}") from error
