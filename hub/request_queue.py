"""`RequestQueue`: requests and replies that one slow handler still has to get.

No overflow policy drops any of them: each request has exactly one answer, so what does not fit is not taken, and
whoever asked is told so (`hub.requests.requests`).

Owner: one `hub.waiting.Waiting`, beside the queue of messages. It has the limits of that queue for itself; what is
added with `keep` is bounded by the requests that are pending. Whoever is to get it is charged for it, as for messages.

Cost: O(1) an item.
"""

from __future__ import annotations

from collections import deque

from hub.memory import Account
from hub.overflow import QueueLimits
from hub.quotas.usage import Usage
from hub.request_frame import Item

__all__ = ["ITEM_OVERHEAD_BYTES", "RequestQueue"]

ITEM_OVERHEAD_BYTES = 200
"""What a waiting item costs beside its values: the tuple (88), its numbers (2 x 28), its bytes (33), its place (8)."""


class RequestQueue:
    """The items of one handler, in the order in which they will be written."""

    __slots__ = ("_account", "_items", "_limits", "_usage", "requests", "size_bytes")

    requests: int
    """How many requests and replies are held; those of a batch are added up one by one."""

    size_bytes: int
    """How much memory they take, bytes."""

    def __init__(self, limits: QueueLimits, account: Account, usage: Usage | None = None) -> None:
        self._limits = limits
        self._account = account
        # What the queues of its user hold together; None where nobody is charged.
        self._usage = usage
        # What waits, the oldest first.
        self._items: deque[Item] = deque()
        self.requests = 0
        self.size_bytes = 0

    def __bool__(self) -> bool:
        """Return whether anything waits."""
        return bool(self._items)

    def add(self, item: Item, *, keep: bool) -> bool:
        """Put `item` behind the others, if there is room.

        Args:
            item: A request or a reply that is to wait.
            keep: Add it even if there is no room.

        Returns:
            Whether it was added.
        """
        requests = self.requests + item.requests
        size_bytes = self.size_bytes + item.size_bytes + ITEM_OVERHEAD_BYTES
        if not keep and (requests > self._limits.messages or size_bytes > self._limits.bytes):
            return False
        if self._usage is not None:
            if keep:
                self._usage.add(size_bytes - self.size_bytes)
            elif not self._usage.take(size_bytes - self.size_bytes):
                return False
        self._items.append(item)
        self.requests = requests
        self._account.charge(size_bytes - self.size_bytes)
        self.size_bytes = size_bytes
        return True

    def take(self, limit_bytes: int) -> list[Item]:
        """Remove and return the oldest items, at least one.

        Args:
            limit_bytes: Stop when this much was taken.
        """
        taken: list[Item] = []
        taken_bytes = 0
        while self._items and taken_bytes < limit_bytes:
            item = self._items.popleft()
            taken.append(item)
            taken_bytes += item.size_bytes + ITEM_OVERHEAD_BYTES
            self.requests -= item.requests
        self._let_go(taken_bytes)
        return taken

    def clear(self) -> None:
        """Throw everything away."""
        self._items.clear()
        self._let_go(self.size_bytes)
        self.requests = 0

    def _let_go(self, size_bytes: int) -> None:
        """Hold so much less."""
        self.size_bytes -= size_bytes
        self._account.charge(-size_bytes)
        if self._usage is not None:
            self._usage.give_back(size_bytes)
