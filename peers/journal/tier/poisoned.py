"""Files of a tier that end the process that reads them: who reads is told, and they are left alone for a while.

```
reader process ─ Guard ─ writes which file it decodes ─▶ note, shared with the hub
       ✗ a signal, as when pyarrow gives up                  │
hub: Readers ◀── the note, and how it has ended ─────────────┘
       └─▶ Poisoned ─ names, shared with all readers ─▶ Guard: an error, and pyarrow is not asked
```

Checksums find what was damaged by chance; what was made to harm has its own (docs/tier.md, "trust"). pyarrow checks
some of what a file says of itself by ending the process.

Owner: the hub writes the names, each reader its note. Limits: `_FILES_LIMIT` files, `_FORGET_S`. Cost: 10 µs for each
stripe that is decoded, which takes a thousand times as long.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import IO, Protocol

from hub.errors import JournalCorruptError

__all__ = ["ENDED", "UNGUARDED", "Guard", "Guarding", "Note", "Poisoned", "is_crash"]

_FILES_LIMIT = 256
"""Most files that are not read again; one more takes the place of the oldest."""

_FORGET_S = 3_600.0
"""How long a file is not read again, seconds: it may have been mended."""

ENDED = "it has ended the process that read it, and is not read again for an hour"
"""What is said of such a file."""

_SLOT_BYTES = 256
"""What a name and a time take."""

_CRASHES = frozenset({signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGTRAP})
"""Signals that a process gets for what it does itself: who is ended from outside has not read a file that ends it."""


def is_crash(code: int) -> bool:
    """Return whether a process has ended by what it did itself.

    Args:
        code: As `subprocess` has it.
    """
    return -code in _CRASHES


class Poisoned:
    """The files that are not read, as the hub keeps them."""

    def __init__(self) -> None:
        self._file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 -- `close`
        self.total = 0
        """How many processes were ended by files so far."""

    @property
    def descriptor(self) -> int:
        """What reader processes get."""
        return self._file.fileno()

    def add(self, name: str) -> None:
        """Have a file not read for a while."""
        slot = f"{time.time() + _FORGET_S:.0f} {name}\n".encode().ljust(_SLOT_BYTES, b"\n")[:_SLOT_BYTES]
        os.pwrite(self.descriptor, slot, self.total % _FILES_LIMIT * _SLOT_BYTES)
        self.total += 1

    def close(self) -> None:
        """Forget them."""
        self._file.close()


class Note:
    """What one reader process decodes, as the hub sees it."""

    def __init__(self) -> None:
        self._file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 -- `close`

    @property
    def descriptor(self) -> int:
        """What the process gets."""
        return self._file.fileno()

    @property
    def name(self) -> str:
        """The file that is being decoded; empty if none is."""
        return os.pread(self.descriptor, _SLOT_BYTES, 0).decode()

    def close(self) -> None:
        """Forget it."""
        self._file.close()


class Guarding(Protocol):
    """What stands between a reader and pyarrow."""

    def decoding(self, name: str) -> AbstractContextManager[None]:
        """Let a file be decoded for as long as the block lasts.

        Raises:
            JournalCorruptError: It has ended a process already.
        """


class Guard:
    """The side of a reader process.

    Args:
        note: Descriptor of its `Note`.
        poisoned: Descriptor of `Poisoned`.
        clock_s: Seconds since 1970.
    """

    def __init__(self, note: int, poisoned: int, clock_s: Callable[[], float] = time.time) -> None:
        self._note = note
        self._poisoned = poisoned
        self._clock_s = clock_s

    @contextmanager
    def decoding(self, name: str) -> Iterator[None]:
        """As `Guarding` has it."""
        if name in self._names():
            raise JournalCorruptError(ENDED)
        os.pwrite(self._note, name.encode()[:_SLOT_BYTES], 0)
        try:
            yield
        finally:
            os.ftruncate(self._note, 0)

    def _names(self) -> Iterator[str]:
        now_s = self._clock_s()
        for line in os.pread(self._poisoned, _FILES_LIMIT * _SLOT_BYTES, 0).decode().split("\n"):
            until, _, name = line.partition(" ")
            if name and now_s < float(until):
                yield name


class _Unguarded:
    """Who reads for himself: a command, a task of Spark."""

    def decoding(self, name: str) -> AbstractContextManager[None]:  # noqa: ARG002 -- as `Guarding`
        """As `Guarding` has it."""
        return nullcontext()


UNGUARDED: Guarding = _Unguarded()
