"""`Look`: sums over all handlers, made a step at a time, once a second.

`hub.metrics` sums up all that there is to say, at once, when somebody asks; this is for what is looked at all the time,
with thousands of handlers, most of which are idle: fewer sums, 0.3 µs each, and a turn of others between the steps.

Owner: whoever looks. Invariant: sums only grow from one look to the next, but for what waits; a handler that leaves
while a look is under way counts as it stood when it left. Not here: when (`peers.node.pulse`).
"""

from __future__ import annotations

__all__ = ["Look"]


class Look:
    """What handlers have done, and hold, as far as they were looked at; see `Handler.add_to`."""

    __slots__ = (
        "delivered_bytes",
        "delivered_messages",
        "dropped_messages",
        "published_messages",
        "queued_bytes",
        "queued_messages",
        "subscribers",
        "waiting",
    )

    def __init__(self) -> None:
        self.published_messages = self.delivered_messages = self.delivered_bytes = self.dropped_messages = 0
        self.queued_messages = self.queued_bytes = 0
        self.subscribers = 0
        """How many of them subscribe to something."""
        self.waiting: set[int] = set()
        """The numbers of those for whom messages wait."""

    def wait(self, number: int, messages: int, size_bytes: int, lost_messages: int) -> None:
        """Add what waits for a handler, and what of that was lost and is not told yet.

        Args:
            number: Of the handler.
            messages: How many wait.
            size_bytes: What all that waits takes, requests and replies, too.
            lost_messages: How many were lost while something waits: they are among those that were offered.
        """
        self.queued_messages += messages
        self.queued_bytes += size_bytes
        self.dropped_messages += lost_messages
        self.delivered_messages -= messages + lost_messages
        if messages:
            self.waiting.add(number)

    def add(self, other: Look) -> None:
        """Add what others have done."""
        self._change(other, 1)

    def subtract(self, other: Look) -> None:
        """Leave out what others have done."""
        self._change(other, -1)

    def _change(self, other: Look, times: int) -> None:
        self.published_messages += times * other.published_messages
        self.delivered_messages += times * other.delivered_messages
        self.delivered_bytes += times * other.delivered_bytes
        self.dropped_messages += times * other.dropped_messages
