"""`Progress`: what is kept of a consumer when the hub ends: enough to deliver again whatever was not acknowledged.

Which member had which message is not kept: nobody is connected any more. Owner: nobody, a value. Bound: what is
acknowledged above the position, which is less than what a consumer may have read and not done with.
"""

from __future__ import annotations

import msgspec

__all__ = ["Progress"]


class Progress(msgspec.Struct, frozen=True):
    """How far a consumer has come."""

    position: int
    """Everything that it wants and that was recorded before this offset is done with."""
    acknowledged: tuple[int, ...] = ()
    """The offsets behind that which are done with, too, in ascending order."""
    failures: dict[int, int] = {}
    """Offset → how often that message has failed, where it has; never of one that is done with."""

    def before(self, offset: int) -> Progress:
        """Return it without what it says of records from an offset on: they are lost, and others get their offsets."""
        return Progress(
            min(self.position, offset),
            tuple(each for each in self.acknowledged if each < offset),
            {each: times for each, times in self.failures.items() if each < offset},
        )
