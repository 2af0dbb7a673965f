"""`BoundedQueue`: the waiting messages of one slow handler, bounded in messages and in bytes.

```
drop-oldest   (17 lost) [batch][batch][batch] ← new        the gap is in front of the oldest that is left
drop-newest   [batch][batch](17 lost)[batch]  ← new        the gap is where the new messages would have stood
```

Exactly the oldest (newest) *messages* go, also when they travel in batches, and each lost one is part of exactly one
gap. Its bytes are charged to its user; the queue is full, too, when all queues of that user are (`hub.quotas`).

O(1) a batch while the limit on messages decides: messages dropped from the front of a batch are only counted (`_skip`),
and cut off when the rest is taken. Where the limit on bytes decides, a cut costs the messages that it drops.
"""

from __future__ import annotations

from collections import deque

from hub.errors import InternalError
from hub.limits import Overflow, QueueLimits
from hub.messages.batch import Batch
from hub.quotas import Usage
from hub.scheduling.memory import HeldBatches


class BoundedQueue:
    """Batches in order, with the gaps that overflow has left between them."""

    __slots__ = (
        "_front_gap",
        "_held",
        "_items",
        "_skip",
        "_usage",
        "limits",
        "lost_messages",
        "messages",
        "size_bytes",
    )

    limits: QueueLimits

    messages: int  # Messages held

    size_bytes: int  # Memory held, bytes, as `Batch.size_bytes`

    lost_messages: int  # Messages lost since the queue was made

    def __init__(self, limits: QueueLimits, held: HeldBatches, usage: Usage | None = None) -> None:
        self.limits = limits
        self._held = held
        # Usage of its user over all queues; None if no user is charged.
        self._usage = usage
        self.messages = 0
        self.size_bytes = 0
        self.lost_messages = 0
        # Batches in order. An int among the batches is a gap: so many messages were lost there.
        self._items: deque[Batch | int] = deque()
        # Messages lost before the oldest batch that is left; 0 once `take_gap` has returned them.
        self._front_gap = 0
        # Messages of the first batch that are lost already; 0 once they were cut off, and unless a batch is first.
        self._skip = 0

    def __bool__(self) -> bool:
        return bool(self._items) or self._front_gap > 0

    def append_whole(self, batch: Batch) -> bool:
        """Add `batch` if it fits as a whole without dropping anything; return whether it does."""
        if (
            self.messages + batch.messages > self.limits.messages
            or self.size_bytes + batch.size_bytes > self.limits.bytes
            or (self._usage is not None and not self._usage.take(batch.size_bytes))
        ):
            return False
        self._items.append(batch)  # as `_append`, with a call less for each batch that waits
        self._held.hold(batch)
        self.messages += batch.messages
        self.size_bytes += batch.size_bytes
        return True

    def append_dropping_oldest(self, batch: Batch) -> None:
        """Add `batch`; the oldest messages go until it fits, its own oldest ones last of all."""
        if self._replace_first(batch):
            return
        limit_bytes = self._limit_bytes
        if batch.messages > self.limits.messages or batch.size_bytes > limit_bytes:
            self.clear()
            rest = self._newest_that_fit(batch, limit_bytes)
            if rest is None:
                return
            batch = rest
        self._drop_surplus_messages(self.messages + batch.messages - self.limits.messages)
        while self.size_bytes + batch.size_bytes > limit_bytes:
            self._drop_surplus_bytes(self.size_bytes + batch.size_bytes - limit_bytes)
        self._append(batch)

    def append_dropping_newest(self, batch: Batch) -> None:
        """Add as many of the first messages of `batch` as fit; the rest is lost."""
        fit = batch.messages_within(self.limits.messages - self.messages, self._limit_bytes - self.size_bytes)
        if fit:
            head, _ = batch.split(fit)
            self._append(head)
        lost = batch.messages - fit
        if lost:
            self.lost_messages += lost
            if self._items and isinstance(self._items[-1], int):
                lost += self._items.pop()  # type: ignore[operator]
            self._items.append(lost)

    def add_gap(self, messages: int) -> None:
        """Add a gap for messages lost elsewhere: behind all that waits, or in front where the oldest go first."""
        if self._items and self.limits.overflow is not Overflow.DROP_OLDEST:
            if isinstance(self._items[-1], int):
                messages += self._items.pop()  # type: ignore[operator]
            self._items.append(messages)
        else:
            self._front_gap += messages

    def take_gap(self) -> int:
        """Remove the gap that is next in order; return how many messages were lost in it, 0 if none is next."""
        self._cut_off_skipped()
        gap, self._front_gap = self._front_gap, 0
        if self._items and isinstance(self._items[0], int):
            gap += self._items.popleft()  # type: ignore[operator]
        return gap

    def take(self, limit_bytes: int) -> list[Batch]:
        """Remove and return the oldest batches up to the next gap: about so many bytes, at least one batch."""
        self._cut_off_skipped()
        taken: list[Batch] = []
        taken_bytes = 0
        while self._items and taken_bytes < limit_bytes and not self._front_gap:
            batch = self._items[0]
            if isinstance(batch, int):
                break
            self._items.popleft()
            self._held.let_go(batch)
            taken.append(batch)
            taken_bytes += batch.size_bytes
            self.messages -= batch.messages
        self._shrink(taken_bytes)
        return taken

    def clear(self) -> None:
        """Lose everything that is held; it becomes one gap."""
        gaps = 0
        for item in self._items:
            if isinstance(item, int):
                gaps += item
            else:
                self._held.let_go(item)
        self._items.clear()
        self._front_gap += self.messages + gaps
        self.lost_messages += self.messages
        self._shrink(self.size_bytes)
        self.messages = self._skip = 0

    def abandon(self) -> None:
        """Lose everything without a gap, as the far side is gone. O(1): memory is freed, and uncharged, in steps."""
        self._held.abandon(self._items)
        self._items = deque()
        self.lost_messages += self.messages
        self._shrink(self.size_bytes)
        self.messages = self._skip = self._front_gap = 0

    def drop_oldest(self, surplus_bytes: int) -> None:
        """Lose the oldest batches, so many bytes of them, and the rest of the last one."""
        left = self.size_bytes - surplus_bytes
        while self._items and self.size_bytes > left:
            self._lose(self._first().messages - self._skip)
            self._discard_first()

    def drop_newest(self, surplus_bytes: int) -> None:
        """Lose the newest batches, so many bytes of them, and the rest of the last one."""
        left = self.size_bytes - surplus_bytes
        gap = 0
        while self._items and self.size_bytes > left:
            last = self._items.pop()
            if isinstance(last, int):
                gap += last
                continue
            gap += last.messages
            self.lost_messages += last.messages
            self.messages -= last.messages
            self._shrink(last.size_bytes)
            self._held.let_go(last)
        if self._items and isinstance(self._items[-1], int):
            gap += self._items.pop()  # type: ignore[operator]
        if gap:
            self._items.append(gap)

    @property
    def _limit_bytes(self) -> int:
        if self._usage is None:
            return self.limits.bytes
        return min(self.limits.bytes, self.size_bytes + self._usage.room)

    def _append(self, batch: Batch) -> None:
        self._items.append(batch)
        self._held.hold(batch)
        self.messages += batch.messages
        self.size_bytes += batch.size_bytes  # as `_grow`, with a call less for each batch
        if self._usage is not None:
            self._usage.add(batch.size_bytes)

    def _grow(self, size_bytes: int) -> None:
        self.size_bytes += size_bytes
        if self._usage is not None:
            self._usage.add(size_bytes)

    def _shrink(self, size_bytes: int) -> None:
        self.size_bytes -= size_bytes
        if self._usage is not None:
            self._usage.give_back(size_bytes)

    def _lose(self, messages: int) -> None:
        self.messages -= messages
        self._front_gap += messages
        self.lost_messages += messages

    def _first(self) -> Batch:
        first = self._items[0]
        if isinstance(first, int):
            raise InternalError("a queue that drops its oldest has a gap that is not in front")
        return first

    def _replace_first(self, batch: Batch) -> bool:
        first = self._items[0] if self._items and not self._skip else 0
        if isinstance(first, int) or self.messages + batch.messages - first.messages != self.limits.messages:
            return False
        more_bytes = batch.size_bytes - first.size_bytes
        if more_bytes:
            if self.size_bytes + more_bytes > self._limit_bytes:
                return False
            self._grow(more_bytes)
        del self._items[0]
        self._items.append(batch)
        self._held.exchange(first, batch)
        self.messages = self.limits.messages
        self._front_gap += first.messages
        self.lost_messages += first.messages
        return True

    def _drop_surplus_messages(self, surplus: int) -> None:
        while surplus > 0:
            first = self._first()
            left = first.messages - self._skip
            dropped = min(left, surplus)
            surplus -= dropped
            self._lose(dropped)
            if dropped < left:
                self._skip += dropped
            else:
                self._discard_first()

    def _drop_surplus_bytes(self, surplus_bytes: int) -> None:
        first = self._first()
        if first.size_bytes <= surplus_bytes:
            self._lose(first.messages - self._skip)
            self._discard_first()
            return
        beyond = max(self._skip, first.messages_beyond(first.size_bytes - surplus_bytes))
        self._lose(beyond - self._skip)
        self._skip = beyond
        if beyond == first.messages:
            self._discard_first()
        else:
            self._cut_off_skipped()

    def _discard_first(self) -> None:
        first = self._first()
        self.size_bytes -= first.size_bytes  # as `_shrink`, with a call less for each batch
        if self._usage is not None:
            self._usage.give_back(first.size_bytes)
        self._items.popleft()
        self._held.let_go(first)
        self._skip = 0

    def _cut_off_skipped(self) -> None:
        if not self._skip:
            return
        first = self._first()
        head, rest = first.split(self._skip)
        self._lose(head.messages - self._skip)
        self._discard_first()
        if rest is not None:
            self._items.appendleft(rest)
            self._held.hold(rest)
            self._grow(rest.size_bytes)

    def _newest_that_fit(self, batch: Batch, limit_bytes: int) -> Batch | None:
        beyond = batch.messages_beyond(limit_bytes) if batch.size_bytes > limit_bytes else 0
        beyond = max(beyond, batch.messages - self.limits.messages)
        head, rest = batch.split(beyond)
        self._front_gap += head.messages
        self.lost_messages += head.messages
        return rest
