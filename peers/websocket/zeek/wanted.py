"""`Wanted`: which prefixes to ask a Zeek for, and whether what it was asked for is still enough.

The API takes prefixes once, at the beginning. What comes to be wanted later is there already if it is covered by what
was asked for; if not, the Zeek must be asked again, over a new connection. What is no longer wanted is no reason for
that: what comes of it finds nobody, and costs one look into a dictionary.

Owner: one connection. No I/O. Cost: a change costs its prefixes, each a bisection.
"""

from __future__ import annotations

from bisect import bisect_right

from hub.filter import Change

__all__ = ["Wanted"]


class Wanted:
    """The minimal filter of the hub, as `hub.core.Core.attach` tells it, and what was made of it."""

    __slots__ = ("_asked", "_prefixes", "_uncovered")

    def __init__(self) -> None:
        self._prefixes: set[str] = set()
        self._asked: list[str] = []
        self._uncovered: set[str] = set()

    def change(self, change: Change) -> None:
        """Take a change in."""
        self._prefixes.difference_update(change.removed)
        self._uncovered.difference_update(change.removed)
        for prefix in change.added:
            self._prefixes.add(prefix)
            if not self._covers(prefix):
                self._uncovered.add(prefix)

    def ask(self) -> list[str]:
        """Return what is wanted now, to be asked for."""
        self._asked = sorted(self._prefixes)
        self._uncovered.clear()
        return self._asked

    @property
    def is_covered(self) -> bool:
        """Whether all that is wanted was asked for, or is below something that was."""
        return not self._uncovered

    def _covers(self, prefix: str) -> bool:
        # What was asked for is minimal, so only the left neighbour can cover; see `hub.filter`.
        place = bisect_right(self._asked, prefix)
        return place > 0 and prefix.startswith(self._asked[place - 1])
