"""`Member`: one of those who share a consumer, and what it has.

Owner: one `Consumer`; who that is, and how it is told, knows whoever has made it. Invariant: `out_bytes` is what all of
`out` is charged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hub.consumers.item import Item

__all__ = ["Member"]


class Member:
    """One member.

    Args:
        most_messages: How many messages it may have.
        most_bytes: How much it may have, bytes; a single message is never too much.
    """

    __slots__ = ("most_bytes", "most_messages", "out", "out_bytes", "own")

    def __init__(self, most_messages: int, most_bytes: int) -> None:
        self.most_messages = most_messages
        self.most_bytes = most_bytes
        # What it has, by offset. Joins in `take`; goes when it is acknowledged or taken back.
        self.out: dict[int, Item] = {}
        self.out_bytes = 0
        # A heap of offset and key of what is READY of keys that it has. Entries that are no more true are passed over.
        self.own: list[tuple[int, str]] = []

    def has_room_for(self, item: Item) -> bool:
        """Return whether it may be given one more message."""
        if not self.out:
            return True
        return len(self.out) < self.most_messages and self.out_bytes + item.size_bytes <= self.most_bytes
