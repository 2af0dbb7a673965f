"""What the connector raises beside the errors of the client.

Spark shows the text of what a Python source raises, so it says what to do, and never holds a token.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from hub.errors import HubError, UsageError

P = ParamSpec("P")
R = TypeVar("R")


def shortened(method: Callable[P, R]) -> Callable[P, R]:
    """Have a method raise our errors without their causes and without the calls below it.

    Spark shows the traceback of what a source raises before its text.
    """

    @wraps(method)
    def shorter(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(*args, **kwargs)
        except HubError as error:
            raise error.with_traceback(None) from None

    return shorter


class OptionError(UsageError):
    """An option that does not exist, or whose value makes no sense."""


class ColumnError(UsageError):
    """A column that cannot be read or written."""


class DataLostError(HubError):
    """Records that should be read are no longer in the journal."""


class JournalReplacedError(HubError):
    """The hub has another journal than the one whose offsets are known: they mean nothing there."""


class WriteRefusedError(HubError):
    """Rows that make no messages, or that the hub does not take: as they are they can never be written."""
