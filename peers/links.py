"""`Links`: which peer hubs are linked, and which of two links to the same hub stays.

Two links between the same two hubs would carry every message twice. Rules, the same on both sides so that both keep
the same link:

| case | kept |
|---|---|
| the far side has this hub's own id | none: 4010 |
| a link is up already, and the far side has used it | that one; the new one is refused: 4009 |
| both have dialled each other at once | the one that the hub with the lower id has dialled; the other is closed: 4009 |

A link counts as used once any frame behind HELLO came in: a hub that dialled sends its filter at once when it has read
the answer, so from then on both sides know of the link.

Owner: the node. No I/O.
"""

from __future__ import annotations

from typing import Protocol

from hub.errors import CloseCode, RejectedError

__all__ = ["Link", "Links"]


class Link(Protocol):
    """A connection to a peer hub."""

    dialled: bool
    """Whether this side has dialled."""

    used: bool
    """Whether a frame behind HELLO has come in, or this side has dialled and got its answer."""

    def refuse(self, code: int, text: str) -> None:
        """Close the link for a reason."""


class Links:
    """Links by the id of the far hub."""

    __slots__ = ("_links", "_own_id")

    def __init__(self, own_id: bytes) -> None:
        self._own_id = own_id
        self._links: dict[bytes, Link] = {}

    def __len__(self) -> int:
        return len(self._links)

    def add(self, hub_id: bytes, link: Link) -> None:
        """Take in a link whose far side has said HELLO; closes an older one where the rules say so.

        Raises:
            RejectedError: The new link is the one that does not stay.
        """
        if hub_id == self._own_id:
            raise RejectedError(CloseCode.THAT_IS_YOURSELF, "that is yourself: a hub does not peer with itself")
        older = self._links.get(hub_id)
        if older is not None:
            text = f"already connected: one link between two hubs is enough, hub {hub_id.hex()} has one"
            dialled_by_lower = link.dialled == (self._own_id < hub_id)
            if older.used or older.dialled == link.dialled or not dialled_by_lower:
                raise RejectedError(CloseCode.ALREADY_CONNECTED, text)
            self._links[hub_id] = link
            older.refuse(CloseCode.ALREADY_CONNECTED, text)
        self._links[hub_id] = link

    def remove(self, hub_id: bytes, link: Link) -> None:
        """Forget a link, unless another has taken its place."""
        if self._links.get(hub_id) is link:
            del self._links[hub_id]
