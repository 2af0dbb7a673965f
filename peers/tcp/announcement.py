"""`Announcement`: changes of this hub's filter on their way to one peer hub, merged per turn.

A client that subscribes to a thousand prefixes in one read is one SUBSCRIBE frame to the peer, and one that subscribes
and takes it back within a turn is none.

Owner: one connection. Invariant: replaying what was taken gives the core's minimal filter.
"""

from __future__ import annotations

from collections.abc import Callable

from hub.filter import Change
from peers.wire.control import encode_subscription
from peers.wire.kinds import Kind

__all__ = ["Announcement"]

_PREFIXES_PER_FRAME = 1000
"""At 1024 bytes a prefix this stays around 1 MiB, well below the smallest usual frame limit of 16 MiB."""


class Announcement:
    """What is still to be told.

    Args:
        schedule: Called when there is something to tell and nothing was scheduled before.
    """

    __slots__ = ("_changes", "_schedule")

    def __init__(self, schedule: Callable[[], None]) -> None:
        self._schedule = schedule
        self._changes: dict[str, bool] = {}  # prefix → whether it is added

    def __bool__(self) -> bool:
        """Whether there is something to tell."""
        return bool(self._changes)

    def change(self, change: Change) -> None:
        """Note a change; an opposite one that was not told yet cancels it out."""
        if not self._changes:
            self._schedule()
        for prefixes, added in ((change.removed, False), (change.added, True)):
            for prefix in prefixes:
                if self._changes.get(prefix, added) is not added:
                    del self._changes[prefix]
                else:
                    self._changes[prefix] = added

    def take(self) -> list[bytes]:
        """Return the frames that tell it all: additions first, so that no message falls between."""
        changes, self._changes = self._changes, {}
        added = [prefix for prefix, is_added in changes.items() if is_added]
        removed = [prefix for prefix, is_added in changes.items() if not is_added]
        frames = [encode_subscription(Kind.SUBSCRIBE, some) for some in _some(added)]
        # An empty SUBSCRIBE still tells the peer that this side has read its HELLO.
        frames.extend(encode_subscription(Kind.UNSUBSCRIBE, some) for some in _some(removed))
        return frames or [encode_subscription(Kind.SUBSCRIBE, [])]


def _some(prefixes: list[str]) -> list[list[str]]:
    return [prefixes[start : start + _PREFIXES_PER_FRAME] for start in range(0, len(prefixes), _PREFIXES_PER_FRAME)]
