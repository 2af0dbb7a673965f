"""`Damages`: what a command could not read, told on standard error when it is done, one line each.

Ranges that touch and have the same cause are one line. Memory: `_LINES` lines. Owner: one command.
"""

from __future__ import annotations

import sys
from enum import IntEnum

from peers.cli.formats import escaped
from peers.journal.damage import Damage

__all__ = ["Damages", "ExitCode"]

_LINES = 100
"""Most that are told; of more, their number. `hub journal verify` reads on as long as one likes."""


class ExitCode(IntEnum):
    """Of the commands that read a journal."""

    DONE = 0
    INCOMPLETE = 1
    """Records were deleted before they were read."""
    DAMAGED = 3
    """Something is damaged; the rest was read."""


class Damages:
    """What was met.

    Args:
        command: Whose; its name stands before each line.
    """

    def __init__(self, command: str) -> None:
        self._command = command
        self._texts: list[str] = []
        self._last: Damage | None = None
        self._untold = 0

    @property
    def exit_code(self) -> ExitCode:
        """What the command ends with."""
        return ExitCode.DAMAGED if self._texts or self._last is not None else ExitCode.DONE

    def add(self, damage: Damage) -> None:
        """Note a range."""
        last = self._last
        if last is not None and (last.next, last.cause) == (damage.first, damage.cause):
            self._last = last._replace(next=damage.next)
            return
        self._settle()
        self._last = damage

    def note(self, text: str) -> None:
        """Note something that is no range."""
        self._settle()
        if len(self._texts) < _LINES:
            self._texts.append(text)
        else:
            self._untold += 1

    def _settle(self) -> None:
        last, self._last = self._last, None
        if last is not None:
            self.note(f"passed over {last}")

    def tell(self) -> None:
        """Print it."""
        self._settle()
        for text in self._texts:
            print(escaped(f"hub journal {self._command}: {text}"), file=sys.stderr)
        if self._untold:
            rest = f"and {self._untold:,} damaged places more; see `hub journal verify`"
            print(f"hub journal {self._command}: {rest}", file=sys.stderr)
