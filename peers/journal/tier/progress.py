"""Progress of a tier: lines of the copying process (`Told`), and `tier.json` beside the segments (`Copied`).

Segments are deleted once `tier.json` says that they were copied. If the tier holds less than that, it is another one
(as when the wrong file system is mounted), and nothing is copied or deleted. Files before `first` were deleted on
purpose: a rebuilt manifest leaves them out. The hub's own process imports this module, so it is light.
"""

from __future__ import annotations

import fcntl
import os
from typing import NamedTuple

import msgspec

from hub.errors import JournalCorruptError, JournalUnavailableError
from peers.journal.folder import FILE_MODE, sync_data, translated

TIER_FILE = "tier.json"

_LIMIT_BYTES = 64 * 1024


class Progress(NamedTuple):
    """Progress of a tier."""

    first: int = 0
    next: int = 0  # everything before it is, or was, in the tier
    files: int = 0
    size_bytes: int = 0
    missed: int = 0  # offsets deleted here before they were copied, as far as the manifest goes back


class Order(msgspec.Struct, frozen=True):
    """Arguments of the copying process; a limit of 0 is none."""

    path: str
    tier: str
    keep_bytes: int = 0
    keep_us: int = 0


class Told(msgspec.Struct, frozen=True):
    """A report of the copying process, as a line of JSON."""

    progress: Progress = Progress()  # the last one known
    failures: int = 0  # failed steps since the process was started
    error: str = ""


class Copied(msgspec.Struct, frozen=True):
    """How far a journal was copied, and where to."""

    tier: str
    journal: str
    next: int  # everything before it was copied
    first: int | None = None  # files that end here or before are not kept


class Ownership:
    """The right to copy a journal, until `release`: a lock on its `tier.json`; raises `JournalUnavailableError`."""

    def __init__(self, path: str) -> None:
        self._path = f"{path}/{TIER_FILE}"
        with translated(self._path):
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._descriptor)
            raise JournalUnavailableError(f"{path}: another process copies this journal to its tier") from error

    def read(self) -> Copied | None:
        """Return how far the journal was copied; None if it never was. Raises `JournalCorruptError` for damage."""
        with translated(self._path):
            data = os.pread(self._descriptor, _LIMIT_BYTES, 0)
        return _parsed(data, self._path)

    def write(self, copied: Copied) -> None:
        """Write and sync how far it was copied, before segments are deleted; raises `JournalUnavailableError`."""
        data = msgspec.json.encode(copied) + b"\n"
        with translated(self._path):
            os.pwrite(self._descriptor, data, 0)
            os.ftruncate(self._descriptor, len(data))
            sync_data(self._descriptor)

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def read_copied(path: str) -> Copied | None:
    """Return how far a journal was copied, without a lock; None if it never was. Raises `StorageError`."""
    name = f"{path}/{TIER_FILE}"
    with translated(name):
        try:
            with open(name, "rb") as file:  # noqa: PTH123
                data = file.read(_LIMIT_BYTES)
        except FileNotFoundError:
            return None
    return _parsed(data, name)


def _parsed(data: bytes, name: str) -> Copied | None:
    if not data:
        return None
    try:
        return msgspec.json.decode(data, type=Copied)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        text = f"{name}: damaged ({error}); delete it if the tier is the right one"
        raise JournalCorruptError(text) from error
