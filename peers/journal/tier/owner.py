"""`Ownership`: the file in a journal's folder that says who copies it, and how far that has come.

`tier.json` beside the segments, locked by the one process that copies:
`{"tier": ..., "journal": ..., "next": ..., "first": ...}`. What it says was copied may have been deleted here: so a
tier that holds less is not what it was, as where the wrong file system is mounted; then nothing is copied, and nothing
deleted, until people have looked. What it says is not kept was deleted on purpose: a manifest that is made
anew does not name it.

Owner: the copier.
"""

from __future__ import annotations

import fcntl
import os

import msgspec

from hub.errors import JournalCorruptError, JournalUnavailableError
from peers.journal.folder import FILE_MODE, sync_data, translated

__all__ = ["TIER_FILE", "Copied", "Ownership", "read_copied"]

TIER_FILE = "tier.json"

_LIMIT_BYTES = 64 * 1024


class Copied(msgspec.Struct, frozen=True):
    """How far a journal was copied, and where to."""

    tier: str
    journal: str
    next: int
    """Everything before it was copied."""
    first: int | None = None
    """What ends here or before is not kept; None in files of earlier versions."""


class Ownership:
    """The right to copy a journal, until `release`.

    Args:
        path: Path of the journal.

    Raises:
        JournalUnavailableError: Another process has it, or the file cannot be made.
    """

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
        """Return how far the journal was copied; None if it never was.

        Raises:
            JournalCorruptError: The file is damaged.
        """
        with translated(self._path):
            data = os.pread(self._descriptor, _LIMIT_BYTES, 0)
        return _parsed(data, self._path)

    def write(self, copied: Copied) -> None:
        """Note how far it was copied: what follows is deleted here on the strength of that.

        Raises:
            JournalUnavailableError: It cannot be written.
        """
        data = msgspec.json.encode(copied) + b"\n"
        with translated(self._path):
            os.pwrite(self._descriptor, data, 0)
            os.ftruncate(self._descriptor, len(data))
            sync_data(self._descriptor)

    def release(self) -> None:
        """Leave the journal to others."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def read_copied(path: str) -> Copied | None:
    """Return how far a journal was copied, for who only looks; None if it never was.

    Raises:
        JournalCorruptError: The file is damaged.
        JournalUnavailableError: It cannot be read.
    """
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
