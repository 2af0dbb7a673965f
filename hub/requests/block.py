"""`Block`: requests of one frame, or a part of them, at one service, until the last of them is answered.

It stands in three places: in the map of who has asked, in that of who is to answer, and in the bucket of what is due at
the same time. Its requests may be answered one by one: then `answered` says which.

Owner: `hub.requests.requests`. Invariant: a block stands in all three places, or is settled (`left` is 0).

Cost: O(1) for a request that came alone. What is answered out of a block costs a byte per request of it, once.

`hub/requests/_block.pyx` is the compiled twin of this module, of 80 bytes instead of 190, and unknown to the garbage
collector, which looks for 0.3 s through a million of these; `hub.requests.pending` chooses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hub.requests.layout import TRANSACTIONS

if TYPE_CHECKING:
    from hub.requests.pending import Party

__all__ = ["Block"]

_MASK = TRANSACTIONS - 1


class Block:
    """Requests of one frame, or a part of them, at one service."""

    __slots__ = ("answered", "asker", "bucket", "count", "first", "left", "own", "responder")

    asker: Party

    responder: Party

    first: int
    """Transaction id of the first, as the requester has it."""

    own: int
    """The same, as the hub has told it to the service."""

    count: int

    left: int
    """How many of them are pending; 0 when the block is settled."""

    answered: bytearray | None
    """A byte for each, 1 for those that are not pending; None while all are."""

    bucket: dict[Block, None]
    """What is due at the same time."""

    def __init__(  # noqa: PLR0913, PLR0917 -- made for each request: by place is quicker than by name
        self, asker: Party, responder: Party, first: int, own: int, count: int, bucket: dict[Block, None]
    ) -> None:
        self.asker = asker
        self.responder = responder
        self.first = first
        self.own = own
        self.count = self.left = count
        self.answered = None
        self.bucket = bucket

    def enter(self) -> None:
        """Stand in both maps and in the bucket."""
        self.bucket[self] = None
        asker, responder = self.asker, self.responder
        asker.asked_requests += self.left
        responder.owed_requests += self.left
        if self.count == 1:
            asker.asked.singles[self.first] = self
            responder.owed.singles[self.own] = self
        else:
            asker.asked.ranges[self.first] = self
            responder.owed.ranges[self.own] = self

    def leave(self) -> None:
        """Stand nowhere any more: settled. Harmless when it is already."""
        left = self.left
        if not left:
            return
        self.left = 0
        asker, responder = self.asker, self.responder
        asker.asked_requests -= left
        responder.owed_requests -= left
        if self.count == 1:
            del asker.asked.singles[self.first]
            del responder.owed.singles[self.own]
        else:
            del asker.asked.ranges[self.first]
            del responder.owed.ranges[self.own]
        bucket = self.bucket
        bucket.pop(self, None)  # what is due was taken out of it
        if not bucket:
            bucket.clear()  # a dictionary that was large keeps its room otherwise

    def pending(self, start: int = 0, stop: int | None = None) -> list[tuple[int, int]]:
        """Return where what is pending begins and ends, within `start` to `stop`, counted from the first."""
        stop = self.count if stop is None else stop
        answered = self.answered
        if answered is None:
            return [(start, stop)]
        found: list[tuple[int, int]] = []
        while (begin := answered.find(0, start, stop)) >= 0:
            start = answered.find(1, begin, stop)
            if start < 0:
                start = stop
            found.append((begin, start))
        return found

    def settle(self, start: int, stop: int) -> list[tuple[int, int]]:
        """Take note that `start` to `stop` are answered; return which of them were pending."""
        if self.answered is None:
            if stop - start == self.count:
                self.leave()
                return [(start, stop)]
            self.answered = bytearray(self.count)
        fresh = self.pending(start, stop)
        settled = sum(end - begin for begin, end in fresh)
        if settled == self.left:
            self.leave()
        elif settled:
            for begin, end in fresh:
                self.answered[begin:end] = b"\x01" * (end - begin)
            self.left -= settled
            self.asker.asked_requests -= settled
            self.responder.owed_requests -= settled
        return fresh

    def part(self, start: int, stop: int) -> None:
        """Make two blocks of it: what stands before `start` and what stands from `stop` on.

        The ids between are not pending, and the requester uses them again.
        """
        if self.answered is None or self.answered.find(0, start, stop) >= 0:
            raise ValueError("what is pending cannot be cut out of a block")
        answered = self.answered
        self.leave()
        for begin, end in ((0, start), (stop, len(answered))):
            rest = answered[begin:end]
            left = rest.count(0)
            if left:
                first = (self.first + begin) & _MASK
                block = Block(self.asker, self.responder, first, self.own + begin, len(rest), self.bucket)
                block.left = left
                block.answered = rest
                block.enter()
