"""`Waiting`: what waits for one handler until its outlet takes bytes again.

```
requests, replies ─ post ─▶ [item][item]                      first: each has one answer in any case
messages ───────── hold ──▶ [batch](17 lost)[batch][batch]    then: their overflow policy decides what is in it
```

Requests and replies have a queue of their own (`hub.request_queue`), since no policy may drop them: whoever asked is
told of what does not fit. Messages are in a `BoundedQueue`, which knows how to drop; which are dropped is said here.

Owner: one `hub.handler.Handler`, which makes it as its outlet stops taking bytes and lets it go once all is written: an
idle or quick handler has none. Each of the two queues is made when the first thing comes for it.

Cost: O(1) a batch and an item, beside what a policy drops. Memory is charged for all that waits.

Not here: when to write (`hub.handler`), how to cut a queue (`hub.queue`).
"""

from __future__ import annotations

from typing import NamedTuple

from hub.batch import Batch
from hub.memory import Account, HeldBatches, Memory
from hub.overflow import Overflow, QueueLimits
from hub.queue import BoundedQueue
from hub.quotas.usage import Usage
from hub.request_frame import Item
from hub.request_queue import RequestQueue

__all__ = ["Waiting", "WaitingMemory"]


class WaitingMemory(NamedTuple):
    """Where what waits for handlers is charged."""

    batches: HeldBatches
    requests: Account
    """Requests and replies are charged here."""

    @classmethod
    def of(cls, memory: Memory) -> WaitingMemory:
        """Return the accounts of this budget that are charged for what waits."""
        account = memory.account("queues")
        return cls(HeldBatches(account), account)


class Waiting:
    """Two queues of one handler.

    Args:
        limits: Of each of the two, and what happens when that of messages is full.
        memory: It is charged for what waits.
        usage: What waits for all handlers of the same user; it is charged, too. None where nobody is.
    """

    __slots__ = ("_limits", "_memory", "_queue", "_requests", "_usage")

    def __init__(self, limits: QueueLimits, memory: WaitingMemory, usage: Usage | None = None) -> None:
        self._usage = usage
        self._limits = limits
        self._memory = memory
        # None until a message has to wait.
        self._queue: BoundedQueue | None = None
        # None until a request or a reply has to wait.
        self._requests: RequestQueue | None = None

    def __bool__(self) -> bool:
        """Return whether anything is left to write: requests, replies, messages or gaps."""
        return bool(self._requests) or bool(self._queue)

    # What comes.

    def post(self, item: Item, *, keep: bool) -> bool:
        """Let a request or a reply wait, if there is room or `keep` is set; return whether it does."""
        requests = self._requests
        if requests is None:
            requests = self._requests = RequestQueue(self._limits, self._memory.requests, self._usage)
        return requests.add(item, keep=keep)

    def hold(self, batch: Batch) -> bool:
        """Let messages wait, as far as the policy allows it.

        Returns:
            Whether all that waited waits still, and the batch with it. Otherwise the policy has dropped messages; where
            it is to disconnect it has changed nothing, and the caller ends the connection.
        """
        queue = self._queue
        if queue is None:
            queue = self._made_queue()
        if queue.append_whole(batch):
            return True
        match self._limits.overflow:
            case Overflow.DROP_OLDEST:
                queue.append_dropping_oldest(batch)
            case Overflow.DROP_NEWEST:
                queue.append_dropping_newest(batch)
            case Overflow.DISCONNECT:
                pass
        return False

    def has_room_for(self, batch: Batch) -> bool:
        """Return whether messages can wait without any being dropped."""
        limits, usage = self._limits, self._usage
        return (
            self.messages + batch.messages <= limits.messages
            and self.messages_bytes + batch.size_bytes <= limits.bytes
            and (usage is None or usage.room >= batch.size_bytes)
        )

    def add_gap(self, messages: int) -> None:
        """Let it wait that messages were lost before they came here."""
        self._made_queue().add_gap(messages)

    def _made_queue(self) -> BoundedQueue:
        if self._queue is None:
            self._queue = BoundedQueue(self._limits, self._memory.batches, self._usage)
        return self._queue

    # What goes, in the order of these three.

    def take_items(self, limit_bytes: int) -> list[Item]:
        """Remove and return the oldest requests and replies: about so many bytes of them, and none if none wait."""
        return self._requests.take(limit_bytes) if self._requests else []

    def take_gap(self) -> int:
        """Remove the gap that is next among the messages; return how many were lost in it, 0 if none is next."""
        return self._queue.take_gap() if self._queue is not None else 0

    def take_batches(self, limit_bytes: int) -> list[Batch]:
        """Remove and return the oldest batches up to the next gap: about so many bytes of them."""
        return self._queue.take(limit_bytes) if self._queue is not None else []

    # What is dropped.

    def why_full(self, batch: Batch) -> str:
        """Return why `hold` has not taken messages: the queue is full, or all queues of its user are."""
        limits, usage, queue = self._limits, self._usage, self._queue
        if (
            usage is not None
            and queue is not None
            and (
                queue.messages + batch.messages <= limits.messages
                and queue.size_bytes + batch.size_bytes <= limits.bytes
            )
        ):
            return f"queues of {usage.user} full ({usage.held} bytes)"
        return f"queue full ({limits.messages} messages, {limits.bytes} bytes)"

    def drop(self, surplus_bytes: int) -> None:
        """Drop so much of the messages, as there is too little memory: the newest where the policy says so."""
        queue = self._queue
        if queue is None:
            return
        if self._limits.overflow is Overflow.DROP_NEWEST:
            queue.drop_newest(surplus_bytes)
        else:
            queue.drop_oldest(surplus_bytes)

    def clear(self) -> None:
        """Throw everything away: whoever it was for is gone."""
        if self._queue is not None:
            self._queue.abandon()
        if self._requests is not None:
            self._requests.clear()

    # How much there is.

    @property
    def messages(self) -> int:
        """How many messages wait."""
        return self._queue.messages if self._queue is not None else 0

    @property
    def lost_messages(self) -> int:
        """How many messages were dropped since this was made."""
        return self._queue.lost_messages if self._queue is not None else 0

    @property
    def messages_bytes(self) -> int:
        """How much memory the messages take, bytes."""
        return self._queue.size_bytes if self._queue is not None else 0

    @property
    def size_bytes(self) -> int:
        """How much memory everything takes, bytes."""
        return self.messages_bytes + (self._requests.size_bytes if self._requests is not None else 0)
