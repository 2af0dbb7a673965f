"""What the connector raises beside the errors of the client.

Spark shows the text of what a Python source raises, so it says what to do, and never holds a token.
"""

from __future__ import annotations

from hub.errors import HubError, UsageError

__all__ = ["ColumnError", "DataLostError", "JournalReplacedError", "OptionError", "WriteRefusedError"]


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
