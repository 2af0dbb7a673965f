"""`FlagError`: the command line makes no sense, and nothing was done. It ends a command with exit code 2.

Other errors of whoever calls us (a file that cannot be read, a line of it that makes no message) show only at work, and
end a command with exit code 1, as all others do.
"""

from __future__ import annotations

from hub.errors import UsageError

__all__ = ["FlagError"]


class FlagError(UsageError):
    """A flag or an argument that makes no sense, alone or beside others."""
