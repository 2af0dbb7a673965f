"""`Waiting`: the queues of one handler while its outlet takes no bytes.

```
requests, replies ─ post ─▶ [item][item]                      first: each has one answer in any case
messages ───────── hold ──▶ [batch](17 lost)[batch][batch]    then: bounded by their overflow policy
```

Requests and replies have a queue of their own, since no policy may drop them: the requester gets an error for each that
does not fit. A handler makes this object when its outlet stops taking bytes and drops it once all is written; each of
the two queues is made for its first item. All items are charged to the memory budget.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from hub.handlers.queue import BoundedQueue
from hub.limits import Overflow, QueueLimits
from hub.messages.batch import Batch
from hub.messages.request_frame import Item
from hub.quotas import Usage
from hub.scheduling.memory import Account, HeldBatches, Memory

# Memory of a waiting item beside its values: the tuple (88), numbers (2 x 28), bytes (33), its place (8)
ITEM_OVERHEAD_BYTES = 200


class RequestQueue:
    """The waiting requests and replies of one handler, in order."""

    __slots__ = ("_account", "_items", "_limits", "_usage", "requests", "size_bytes")

    requests: int  # Held requests and replies, those of a batch one by one

    size_bytes: int  # How much memory they take, bytes

    def __init__(self, limits: QueueLimits, account: Account, usage: Usage | None = None) -> None:
        self._limits = limits
        self._account = account
        # Usage of its user over all queues; None if no user is charged.
        self._usage = usage
        # The oldest first.
        self._items: deque[Item] = deque()
        self.requests = 0
        self.size_bytes = 0

    def __bool__(self) -> bool:
        return bool(self._items)

    def add(self, item: Item, *, keep: bool) -> bool:
        """Add an item, if there is room or `keep` is set; return whether it was added."""
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
        """Remove and return the oldest items, at least one, until this much was taken."""
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
        self._items.clear()
        self._let_go(self.size_bytes)
        self.requests = 0

    def _let_go(self, size_bytes: int) -> None:
        self.size_bytes -= size_bytes
        self._account.charge(-size_bytes)
        if self._usage is not None:
            self._usage.give_back(size_bytes)


# Bytes that a handler collects in one turn before it writes early, and that it writes at a time from its queue: one
# read's worth (asyncio reads 256 KiB at most)
WRITE_LIMIT_BYTES: Final = 256 * 1024

# The same to a peer hub: news of the mesh and requests cannot overtake written bytes, and a slow line takes a second
# for some four of these
LINK_WRITE_BYTES: Final = WRITE_LIMIT_BYTES // 8


class WaitingMemory(NamedTuple):
    """The accounts that are charged for queues of handlers."""

    batches: HeldBatches
    requests: Account  # Requests and replies are charged here

    @classmethod
    def of(cls, memory: Memory) -> WaitingMemory:
        """Return the accounts of a budget."""
        account = memory.account("queues")
        return cls(HeldBatches(account), account)


class Waiting:
    """Two queues of one handler."""

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
        return bool(self._requests) or bool(self._queue)

    # In.

    def post(self, item: Item, *, keep: bool) -> bool:
        """Let a request or a reply wait, if there is room or `keep` is set; return whether it does."""
        requests = self._requests
        if requests is None:
            requests = self._requests = RequestQueue(self._limits, self._memory.requests, self._usage)
        return requests.add(item, keep=keep)

    def hold(self, batch: Batch) -> bool:
        """Let messages wait, as far as the policy allows it.

        Returns:
            Whether nothing was dropped. Otherwise the policy has dropped messages; where it is to disconnect it has
            changed nothing, and the caller ends the connection.
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

    def add_gap(self, messages: int) -> None:
        """Let it wait that messages were lost before they came here."""
        self._made_queue().add_gap(messages)

    def _made_queue(self) -> BoundedQueue:
        if self._queue is None:
            self._queue = BoundedQueue(self._limits, self._memory.batches, self._usage)
        return self._queue

    # Out, in the order of these three.

    def take_items(self, limit_bytes: int) -> list[Item]:
        """Remove and return the oldest requests and replies, about so many bytes of them."""
        return self._requests.take(limit_bytes) if self._requests else []

    def take_gap(self) -> int:
        """Remove the gap that is next among the messages; return how many were lost in it, 0 if none is next."""
        return self._queue.take_gap() if self._queue is not None else 0

    def take_batches(self, limit_bytes: int) -> list[Batch]:
        """Remove and return the oldest batches up to the next gap, about so many bytes of them."""
        return self._queue.take(limit_bytes) if self._queue is not None else []

    # Dropped.

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
        """Throw everything away, as the far side is gone."""
        if self._queue is not None:
            self._queue.abandon()
        if self._requests is not None:
            self._requests.clear()

    # How much there is.

    @property
    def messages(self) -> int:
        return self._queue.messages if self._queue is not None else 0

    @property
    def lost_messages(self) -> int:
        """How many messages were dropped since this was made."""
        return self._queue.lost_messages if self._queue is not None else 0

    @property
    def messages_bytes(self) -> int:
        return self._queue.size_bytes if self._queue is not None else 0

    @property
    def size_bytes(self) -> int:
        return self.messages_bytes + (self._requests.size_bytes if self._requests is not None else 0)
