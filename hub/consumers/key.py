"""`Key`: the messages of a consumer that keep their order among each other.

Owner: one `Consumer`. Invariants: `out` and `ready` are in the order of their offsets, and all of `out` stands before
all of `ready`; what is OUT is with one member, `member`, which is None exactly while nothing is OUT.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hub.consumers.item import Item
    from hub.consumers.member import Member

__all__ = ["Key"]


class Key:
    """One key.

    Args:
        name: What tells it from others.
    """

    __slots__ = ("delayed", "member", "name", "out", "ready")

    def __init__(self, name: str) -> None:
        self.name = name
        # Who has what is OUT, and alone gets more of it.
        self.member: Member | None = None
        # What is OUT, by offset. Joins in `take`; goes when it is acknowledged or taken back.
        self.out: dict[int, Item] = {}
        # What waits to be delivered.
        self.ready: deque[Item] = deque()
        # The one of them that is not to be delivered before it is due, nor anything else of the key; None as a rule.
        self.delayed: Item | None = None
