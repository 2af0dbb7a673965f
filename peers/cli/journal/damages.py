"""`Damages`: what a command could not read, told on standard error when it is done, one line each.

Ranges that touch and have the same cause are one line. Memory: `_LINES` lines. Owner: one command.
"""

from __future__ import annotations

import sys
from enum import IntEnum

from peers.cli.texts import escaped
from peers.journal.damage import Damage

__all__ = ["Damages", "ExitCode"]

_LINES = 100
"""Most lines that are told; of further ones only their number is. `hub journal verify` lists more."""


class ExitCode(IntEnum):
    """The exit codes of the commands that read a journal."""

    DONE = 0
    INCOMPLETE = 1
    """Records were deleted before they were read."""
    DAMAGED = 3
    """Something is damaged; the rest was read."""


class Damages:
    """Collects what a command could not read, and tells it at the end.

    Args:
        command: The name of the command, which stands before each line.
    """

    def __init__(self, command: str) -> None:
        self._command = command
        # The lines to tell, oldest first; at most `_LINES`.
        self._texts: list[str] = []
        # The last range, which the next one may go on; None once it has become a line.
        self._last: Damage | None = None
        # How many lines were too many.
        self._untold = 0

    @property
    def exit_code(self) -> ExitCode:
        """The exit code that the command ends with."""
        return ExitCode.DAMAGED if self._texts or self._last is not None else ExitCode.DONE

    def add(self, damage: Damage) -> None:
        """Take note of a range that cannot be read."""
        last = self._last
        if last is not None and (last.next, last.cause) == (damage.first, damage.cause):
            self._last = last._replace(next=damage.next)
            return
        self._settle()
        self._last = damage

    def note(self, text: str) -> None:
        """Take note of something else that is damaged."""
        self._settle()
        if len(self._texts) < _LINES:
            self._texts.append(text)
        else:
            self._untold += 1

    def _settle(self) -> None:
        """Make a line of the last range, as the next one does not go on with it."""
        last, self._last = self._last, None
        if last is not None:
            self.note(f"passed over {last}")

    def tell(self) -> None:
        """Print the lines on standard error."""
        self._settle()
        for text in self._texts:
            print(escaped(f"hub journal {self._command}: {text}"), file=sys.stderr)
        if self._untold:
            rest = f"and {self._untold:,} damaged places more; see `hub journal verify`"
            print(f"hub journal {self._command}: {rest}", file=sys.stderr)
