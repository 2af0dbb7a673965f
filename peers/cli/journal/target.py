"""`Target`: where an export goes, a file or standard output; and `stoppable`, which lets Ctrl-C end it between lines.

Invariant: what is given is written completely before Ctrl-C ends the command, so that the last line is a whole one. A
second Ctrl-C ends it at once: then nobody takes the rest anyway.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hub.errors import UsageError

__all__ = ["Target", "stoppable"]


class Target:
    """An open descriptor that is written to."""

    def __init__(self, descriptor: int, name: str) -> None:
        self._descriptor = descriptor
        self._name = name

    @classmethod
    @contextmanager
    def opened(cls, path: str | None, journal: str) -> Iterator[Target]:
        """Open a target for as long as the block lasts.

        Args:
            path: Path of a file, which is written anew; None for standard output.
            journal: Path of the journal, which is not written to.

        Raises:
            UsageError: The file cannot be opened, or is one of the journal's.
        """
        if path is None:
            sys.stdout.flush()
            yield cls(sys.stdout.fileno(), "standard output")
            return
        if _is_within(path, journal):
            raise UsageError(f"{path}: that is a file of the journal; choose another one")
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}") from error
        try:
            yield cls(descriptor, path)
        finally:
            os.close(descriptor)

    @property
    def is_terminal(self) -> bool:
        """Whether a person looks at it."""
        return os.isatty(self._descriptor)

    def write(self, written: bytes) -> None:
        """Write all of a text, however often the operating system takes only a part.

        Raises:
            UsageError: It cannot be written, as when the disk is full.
            BrokenPipeError: The reader of a pipe has gone.
        """
        rest = memoryview(written)
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except BrokenPipeError:
            raise
        except OSError as error:
            raise UsageError(f"{self._name}: {error.strerror}") from error


def _is_within(path: str, journal: str) -> bool:
    """Return whether a file is one of a journal's, or would be, by whatever way it is named."""
    try:
        if Path(path).resolve().parent.samefile(journal):
            return True
        return any(os.path.samestat(os.stat(path), each.stat()) for each in os.scandir(journal))  # noqa: PTH116
    except OSError:  # one of them does not exist
        return False


class _Stop:
    """Remembers whether somebody has asked to stop."""

    def __init__(self) -> None:
        # True from the first Ctrl-C on.
        self.asked = False

    def ask(self, *_: object) -> None:
        """Stop soon; asked again, at once."""
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True

    def check(self) -> None:
        """Stop here if that was asked.

        Raises:
            KeyboardInterrupt: It was.
        """
        if self.asked:
            raise KeyboardInterrupt


@contextmanager
def stoppable() -> Iterator[_Stop]:
    """Have Ctrl-C wait for the next `check` while the block lasts."""
    stop = _Stop()
    before = signal.signal(signal.SIGINT, stop.ask)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)
