"""`Folder`: the folder of a journal and its lock.

```
journal/  00000000000000000000.seg   sealed; deleted whole
          00000000000002097152.seg   the newest: appended to
```

A segment's name is the offset of its first record. Names ending with `.new` are files in the making; opening the folder
deletes leftovers. The lock (`flock`) is on the folder itself. Folder and files are readable by their owner only.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from hub.errors import JournalCorruptError, JournalUnavailableError

FILE_MODE = 0o600
MAKING = ".new"  # suffix of a file in the making
_FOLDER_MODE = 0o700
_SUFFIX = ".seg"
_DIGITS = 20  # names sort as their numbers do: offsets have 19 digits at most
CONSUMERS = "consumers.db"  # SQLite, in the folder of the journal
_HARMLESS = frozenset({"lost+found", CONSUMERS, f"{CONSUMERS}-wal", f"{CONSUMERS}-shm"})
"""Names allowed in a folder that becomes a journal: those of a file system's root, and the positions of consumers of a
journal whose segments were deleted."""

_held: set[tuple[int, int]] = set()  # by device and inode: `flock` does not exclude the same process


def sync_data(descriptor: int) -> None:
    """Sync the file's data; macOS has no `fdatasync`."""
    (os.fdatasync if hasattr(os, "fdatasync") else os.fsync)(descriptor)


@contextmanager
def making(path: str) -> Iterator[int]:
    """Yield a descriptor for a new file, renamed to `path` at the end. The caller closes it and syncs the folder."""
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
    """A journal's folder, created if missing and locked for this process until `release`. Raises `StorageError`."""

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
        """Check that this is a journal, or can become one; delete half-made files."""
        names = set(os.listdir(self.path)) - _HARMLESS  # noqa: PTH208 -- names alone
        for name in [name for name in names if name.endswith(_SUFFIX + MAKING)]:
            os.unlink(f"{self.path}/{name}")  # noqa: PTH108
            names.discard(name)
        if names and not any(name.endswith(_SUFFIX) for name in names):
            raise JournalCorruptError(f"{self.path}: a folder, but not a journal; choose another, or an empty one")

    @property
    def is_in_place(self) -> bool:
        return stands(self.path, self._id)

    def sync(self) -> None:
        os.fsync(self._descriptor)

    def release(self) -> None:
        if self._descriptor >= 0:
            _held.discard(self._id)
            os.close(self._descriptor)
            self._descriptor = -1


def identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def stands(path: str, known: tuple[int, int]) -> bool:
    """Return whether the file or folder with this identity has this name; called at every commit."""
    try:
        return identity(os.stat(path)) == known  # noqa: PTH116 -- it is quicker
    except OSError:
        return False


def check_is_folder(path: str) -> None:
    """Check that there is a journal; raises `JournalUnavailableError` or `JournalCorruptError`."""
    place = Path(path)
    if place.is_file():
        raise JournalCorruptError(f"{path}: a file; a journal is a folder, choose another path")
    if not place.is_dir():
        raise JournalUnavailableError(f"{path}: there is no such journal")
    with translated(path):
        if not firsts(path):
            raise JournalCorruptError(f"{path}: a folder, but not a journal: it holds no segment")


def firsts(path: str) -> list[int]:
    """Return the first offset of each segment, ascending; raises `OSError`."""
    names = os.listdir(path)  # noqa: PTH208 -- names alone
    stems = [name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX)]
    return sorted(int(stem) for stem in stems if len(stem) == _DIGITS and stem.isdecimal())


def segment_path(path: str, first: int) -> str:
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


_PARTS_PER_CALL = 512  # most parts of one system call; Linux takes 1024


def write_all(parts: Sequence[bytes], write: Callable[[list[memoryview], int], int]) -> int:
    """Write parts without joining them, and return their length; `write` gets some, and the length before them."""
    total = 0
    left = [memoryview(part) for part in parts if part]
    while left:
        written = write(left[:_PARTS_PER_CALL], total)
        total += written
        while left and written >= len(left[0]):
            written -= len(left.pop(0))
        if written:
            left[0] = left[0][written:]
    return total
