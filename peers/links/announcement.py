"""`Announcement`: changes of this hub's filter, or of what is served here, on their way to a peer hub, merged per turn.

A client that subscribes to a thousand prefixes in one read is one SUBSCRIBE frame to the peer, and one that subscribes
and takes it back within a turn is none.

Owner: one connection. Invariant: replaying what was taken gives the core's minimal filter (the prefixes served here),
but for what the peer has refused for now (`peers.links.attempts`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from hub.filter import Change
from peers.links.attempts import Attempts
from peers.wire.control import encode_subscription
from peers.wire.kinds import Kind

__all__ = ["Announcement"]

_PREFIXES_PER_FRAME = 1000
"""A turn's share of a connection, see `peers.connections.connection`."""

_AROUND_BYTES = 16
"""What a subscription's body has beside its prefixes: the array, the request, and the length of the list."""

_BESIDE_BYTES = 5
"""What a prefix has beside its text: its length."""


class Announcement:
    """What is still to be told.

    Args:
        due: Called with this object when there is something to tell.
        limit_bytes: Largest body that the peer takes. A prefix that alone is over it is told all the same.
        numbers: Numbers frames that the peer answers.
        kinds: That of the frame that tells of prefixes, and that of the one that takes them back.
        tells_of_itself: Whether the first frame is sent in any case, and be it empty: it still tells the peer that
            this side has read its HELLO.
    """

    __slots__ = ("_changes", "_due", "_less", "_limit_bytes", "_more", "_tells_of_itself", "attempts")

    def __init__(
        self,
        due: Callable[[Announcement], None],
        limit_bytes: int,
        numbers: Iterator[int],
        kinds: tuple[Kind, Kind] = (Kind.SUBSCRIBE, Kind.UNSUBSCRIBE),
        *,
        tells_of_itself: bool = False,
    ) -> None:
        self._tells_of_itself = tells_of_itself  # until the first frame was taken
        self._more, self._less = kinds
        self._due = due
        self._limit_bytes = limit_bytes
        self.attempts: Attempts[str, None] = Attempts(numbers, _PREFIXES_PER_FRAME)
        self._changes: dict[str, bool] = {}  # prefix → whether it is added

    def change(self, change: Change) -> None:
        """Note a change; an opposite one that was not told yet cancels it out."""
        self._due(self)
        for prefixes, added in ((change.removed, False), (change.added, True)):
            for prefix in prefixes:
                if not added and self.attempts.drop(prefix):
                    continue
                if self._changes.get(prefix, added) is not added:
                    del self._changes[prefix]
                else:
                    self._changes[prefix] = added

    def take(self) -> bytes:
        """Return the frames that tell it all: additions first, so that no message falls between."""
        if not self._changes and not self._tells_of_itself:
            return b""
        self._tells_of_itself = False
        changes, self._changes = self._changes, {}
        added = [prefix for prefix, is_added in changes.items() if is_added]
        removed = [prefix for prefix, is_added in changes.items() if not is_added]
        frames = [
            encode_subscription(self._more, some, self.attempts.ask(dict.fromkeys(some))) for some in self._some(added)
        ]
        for prefix in removed:
            self.attempts.forget(prefix)
        frames.extend(encode_subscription(self._less, some) for some in self._some(removed))
        return b"".join(frames) or encode_subscription(self._more, [])

    def refuse(self, number: int, *, for_now: bool) -> bool:
        """The peer has refused a frame; return False if it is none of these."""
        refused = self.attempts.refuse(number, for_now=for_now)
        for prefix in refused or ():
            if self._changes.get(prefix) is False:  # it is not wanted any more, and the peer does not have it
                del self._changes[prefix]
                self.attempts.drop(prefix)
        return refused is not None

    def try_again(self) -> None:
        """Tell some of what the peer has refused."""
        some = self.attempts.some()
        self._changes.update(dict.fromkeys(some, True))
        if some:
            self._due(self)

    def _some(self, prefixes: list[str]) -> Iterator[list[str]]:
        """Cut into what one frame holds."""
        some: list[str] = []
        size_bytes = _AROUND_BYTES
        for prefix in prefixes:
            prefix_bytes = len(prefix.encode()) + _BESIDE_BYTES
            if some and (len(some) == _PREFIXES_PER_FRAME or size_bytes + prefix_bytes > self._limit_bytes):
                yield some
                some, size_bytes = [], _AROUND_BYTES
            some.append(prefix)
            size_bytes += prefix_bytes
        if some:
            yield some
