"""`Upstreams`: from which link the messages of each hub are taken.

A message belongs to the *epoch* of its origin in which it entered the mesh there. Of each epoch, a hub takes messages
from one neighbour only, the one that brought the first of them; and once it has taken a newer epoch, nothing of an
older one. From the neighbour it takes them by one link, and by another one only when that is gone.

That alone ensures that no message arrives twice or goes around, and that those of one origin arrive in order, whatever
hubs believe of the graph: each hub has one upstream in an epoch, which never changes; a ring of such upstreams never
gets a first message, as that comes from the origin; and epochs only grow. The graph decides only
whether messages arrive: see `hub.mesh.mesh`.

Epochs above `FAR_EPOCH` of a hub that is linked here are not accepted from other hubs: no hub reaches them in years.
One that was accepted before the link is forgotten with the first message from the hub. Lower ones are reported to that
hub (`ahead`), which goes above forged ones.
"""

from __future__ import annotations

from collections import deque
from typing import Final, Generic, TypeVar

from hub.messages.frame import EPOCH_LIMIT, Origin

L = TypeVar("L")

# For how many earlier epochs of an origin it is known from which link they were taken; a cut makes several at once
_EPOCHS_KEPT: Final = 8

# The highest epoch that others may say of a hub that is linked here, and that this hub goes above
FAR_EPOCH: Final = EPOCH_LIMIT // 2


class _Upstream(Generic[L]):
    __slots__ = ("before", "epoch", "far", "link")

    def __init__(self, epoch: int, link: L, far: bytes) -> None:
        self.epoch = epoch
        # The hub at the other end of the link; it stays when that link is gone.
        self.far = far
        # None once that link is gone: then another link to the same hub takes its place.
        self.link: L | None = link
        # Earlier epochs and their links, as far as these are not gone, oldest first.
        self.before: deque[tuple[int, L]] = deque(maxlen=_EPOCHS_KEPT)


class Upstreams(Generic[L]):
    """The upstream of each origin, until the origin is forgotten."""

    def __init__(self) -> None:
        # Grows with each change of an upstream: while it is the same, answers of `accepts` hold.
        self.turnover = 0
        self._of: dict[bytes, _Upstream[L]] = {}
        # Link → the hub at its other end, from `come` to `leave`.
        self._far: dict[L, bytes] = {}
        # Link → how often an upstream has moved to it. A link that is cut and made again is the same path.
        self._moves: dict[L, int] = {}

    def come(self, link: L, far: bytes) -> None:
        self._far[link] = far

    def far_of(self, link: L) -> bytes | None:
        return self._far.get(link)

    def moves(self, link: L) -> int:
        """Return how often messages of some hub began to come by this link that had come by way of another hub."""
        return self._moves.get(link, 0)

    def accepts(self, link: L, origin: bytes, epoch: int, own: L | None = None) -> bool:
        """Return whether a message that a link brings now is taken; `own` is the link to its origin, or None."""
        if own is not None and link is not own and epoch > FAR_EPOCH:
            return False
        upstream = self._of.get(origin)
        if upstream is not None and link is own and upstream.far != origin and upstream.epoch > FAR_EPOCH:
            upstream = None
        if upstream is None:
            self._of[origin] = _Upstream(epoch, link, self._far.get(link, b""))
            self.turnover += 1
            return True
        if epoch > upstream.epoch:
            self._note_way(upstream, link)
            if upstream.link is not None:
                upstream.before.append((upstream.epoch, upstream.link))
            upstream.epoch, upstream.link = epoch, link
            self.turnover += 1
            return True
        if epoch != upstream.epoch:
            return False
        if upstream.link is None and upstream.far == self._far.get(link):
            upstream.link = link
            self.turnover += 1
        return upstream.link is link

    def _note_way(self, upstream: _Upstream[L], link: L) -> None:
        far = self._far.get(link, b"")
        if far != upstream.far:
            upstream.far = far
            self._moves[link] = self.moves(link) + 1

    def ahead(self, origin: Origin) -> Origin | None:
        """Return the newer epoch that others have said of a hub, which says this one by its own link; None for none."""
        upstream = self._of.get(origin.hub)
        if upstream is None or upstream.far == origin.hub or upstream.epoch <= origin.epoch:
            return None
        return Origin(origin.hub, upstream.epoch)

    def is_lost(self, link: L, origin: bytes, epoch: int) -> bool:
        """Return whether a message that was not taken is lost for sure: a newer epoch has overtaken it.

        That is so if its own epoch was taken from this link, and so from no other one. Any other message that was not
        taken may have come by another link.
        """
        upstream = self._of.get(origin)
        return upstream is not None and (epoch, link) in upstream.before

    def leave(self, link: L) -> None:
        """A link is gone. Nothing more of the epochs in which it was upstream is taken from other hubs."""
        self.turnover += 1
        self._far.pop(link, None)
        self._moves.pop(link, None)
        for upstream in self._of.values():
            if upstream.link is link:
                upstream.link = None
            if any(one is link for _, one in upstream.before):
                kept = (one for one in upstream.before if one[1] is not link)
                upstream.before = deque(kept, maxlen=_EPOCHS_KEPT)

    def forget(self, origin: bytes) -> None:
        self.turnover += 1
        self._of.pop(origin, None)
