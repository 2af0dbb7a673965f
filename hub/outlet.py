"""`Outlet` and `Poster`: where a handler writes.

What differs between a client over TCP, one over WebSockets, a peer hub, a Zeek and the journal is the outlet: the thin
object that makes bytes, or records, of what it is given. The core knows no more of it than this. No state.
"""

from __future__ import annotations

from typing import Protocol

from hub.batch import Batch
from hub.request_frame import Item

__all__ = ["Outlet", "Poster", "send_mixed"]


class Outlet(Protocol):
    """Where a handler writes. It may call `Handler.pause` and `Handler.resume` at any time, also from within."""

    def send(self, batches: list[Batch]) -> None:
        """Write the batches with one write, or buffer them; never wait, never raise."""

    def send_gap(self, lost_messages: int) -> None:
        """Tell the far side that so many of its messages were lost at this point."""

    def close(self, code: int, text: str) -> None:
        """Tell the far side why, then end the connection; leads to `Core.detach`."""


class Poster(Protocol):
    """The part of an outlet that writes requests and replies. A handler without one neither asks nor serves."""

    def post(self, items: list[Item]) -> None:
        """Write them with one write, or buffer them; never wait, never raise."""


def send_mixed(outlet: Outlet, poster: Poster, batches: list[Batch], posted: list[tuple[int, Item]]) -> None:
    """Write batches, and what was posted between them, in the order in which they came.

    Args:
        outlet: It gets the batches.
        poster: It gets the rest.
        batches: In their order.
        posted: Requests and replies in their order, each with the number of batches that go before it.
    """
    items: list[Item] = []
    start = 0
    for place, item in posted:
        if place > start:
            if items:
                poster.post(items)
                items = []
            outlet.send(batches[start:place])
            start = place
        items.append(item)
    poster.post(items)
    if start < len(batches):
        outlet.send(batches[start:])
