"""`Pending`: which of a client's requests are sent and not answered yet, frame by frame.

```
sent    a frame: ids 7 to 10 ─▶ askers [a, b, c, d]        reply 8 to 9: b and c have their values; a and d wait on
```

The requests of one frame have consecutive transaction ids, so that a frame is one entry here, whatever it holds; a
reply to all of it is one dictionary hit. Ids begin anew before they would wrap within a frame.

Owner: one client. No I/O. Invariants: each asker is answered once; an answer nobody waits for changes nothing and is
counted (`late`). Cost: a reply to a whole frame O(1) beside its values; one to a part of a frame a binary search.
"""

from __future__ import annotations

from asyncio import Future
from bisect import bisect_right, insort
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from hub.errors import HubError
from hub.request_frame import TRANSACTIONS

__all__ = ["Asked", "Block", "Many", "Pending", "failures"]


class Many:
    """The one that waits for the answers to several requests at once, which may stand in several frames.

    Args:
        future: Gets the list of all answers, in order; an error stands for each that was not answered with a value.
        requests: How many there are.
    """

    __slots__ = ("answers", "future", "left")

    def __init__(self, future: Future[list[Any]], requests: int) -> None:
        self.future = future
        # The answers in order; a mark stands for each that is still open.
        self.answers: list[Any] = [_OPEN] * requests
        # How many answers are open; the future gets its result when none is.
        self.left = requests

    def put(self, start: int, answers: Sequence[Any]) -> int:
        """Take answers from `start` on; return how many of them were still open."""
        end = start + len(answers)
        fresh = self.answers[start:end].count(_OPEN)
        if fresh == len(answers):
            self.answers[start:end] = answers
        else:
            for place, answer in zip(range(start, end), answers, strict=True):
                if self.answers[place] is _OPEN:
                    self.answers[place] = answer
        self.left -= fresh
        if not self.left and not self.future.done():
            self.future.set_result(self.answers)
        return fresh


_OPEN = object()


class Asked:
    """Those who wait for the answers to one frame, with one future each."""

    __slots__ = ("futures",)

    def __init__(self) -> None:
        # The futures, in the order of the requests; None for one that has its answer.
        self.futures: list[Future[Any] | None] = []

    def put(self, start: int, answers: Sequence[Any]) -> int:
        """Take answers from `start` on; return how many of them were still open."""
        end = start + len(answers)
        futures = self.futures
        whole = end - start == len(futures)
        fresh = 0
        for future, answer in zip(futures if whole else futures[start:end], answers, strict=True):
            if future is None:
                continue
            fresh += 1
            if future.done():
                continue  # the asker was cancelled
            if isinstance(answer, HubError):
                future.set_exception(answer)
            else:
                future.set_result(answer)
        if not whole:
            futures[start:end] = [None] * (end - start)
        return fresh


A = TypeVar("A", Asked, Many)


class Block(Generic[A]):
    """The requests of one frame, from the first one that is made to the last answer.

    Args:
        target: Topic or service name, as the key of a frame has it.
        flags: NAMED.
        timeout_s: Time-out of all of them.
        deadline_s: Time at which that of the first is up.
        askers: Who waits for the answers.
        start: Place of the first of them among the answers that `askers` waits for.
    """

    __slots__ = ("askers", "deadline_s", "first", "flags", "left", "packed", "requests", "size", "start", "target",
                 "timeout_s")  # fmt: skip

    def __init__(  # noqa: PLR0913, PLR0917 -- the parts of a frame
        self, target: bytes, flags: int, timeout_s: float, deadline_s: float, askers: A, start: int = 0
    ) -> None:
        self.target = target
        self.flags = flags
        self.timeout_s = timeout_s
        self.deadline_s = deadline_s
        self.askers: A = askers
        self.start = start
        self.packed: list[bytes] = []
        self.size = 0
        """The length of what is in `packed`, bytes."""
        self.requests = 0
        # Transaction id of the first request, and how many are not answered: both are 0 until the block is sent.
        self.first = self.left = 0

    def put(self, at: int, answers: Sequence[Any]) -> None:
        """Take answers from the request number `at` of this frame on."""
        self.left -= self.askers.put(self.start + at, answers)

    def fail(self, make: Callable[[], HubError]) -> None:
        """Answer all that is open with errors."""
        self.put(0, failures(make, self.requests))


def failures(make: Callable[[], HubError], count: int) -> list[HubError]:
    """Make an error for each of several askers: a raised one bears where it was raised."""
    return [make() for _ in range(count)]


class Pending:
    """The frames of one client that are sent and not answered."""

    __slots__ = ("_blocks", "_firsts", "_next", "late", "requests")

    def __init__(self) -> None:
        # Transaction id of the first request → block; a block goes with its last answer.
        self._blocks: dict[int, Block[Any]] = {}
        # The same ids, ascending.
        self._firsts: list[int] = []
        # The transaction id that the next request gets.
        self._next = 1
        self.requests = 0
        """How many requests are not answered."""
        self.late = 0
        """How many answers came that nobody waited for; nothing lowers it."""

    def __bool__(self) -> bool:
        return bool(self._blocks)

    def add(self, block: Block[Any]) -> int:
        """Take a block that is being sent; return the transaction id of its first request."""
        first, count = self._next, block.requests
        if first + count > TRANSACTIONS:
            first = 1
        self._next = first + count
        block.first, block.left = first, count
        self._blocks[first] = block
        if self._firsts and first < self._firsts[-1]:
            insort(self._firsts, first)
        else:
            self._firsts.append(first)
        self.requests += count
        return first

    def answer(self, first: int, answers: Sequence[Any]) -> None:
        """Hand answers to those who wait.

        Args:
            first: Transaction id of the first.
            answers: Values, or `HubError`s.
        """
        block = self._blocks.get(first)
        if block is not None and block.requests == len(answers):
            self._put(block, 0, answers)
            return
        done = 0
        for block, at, count in list(self._find(first, len(answers))):
            if block is None:
                self.late += count
            else:
                self._put(block, at, answers[done : done + count])
            done += count

    def overdue(self, before_s: float) -> list[int]:
        """Return the first ids of the frames whose time was up before then."""
        return [first for first, block in self._blocks.items() if block.deadline_s < before_s]

    def refuse(self, first: int, make: Callable[[], HubError]) -> None:
        """Answer what is open of a whole frame with errors."""
        block = self._blocks.get(first)
        if block is not None:
            self._put(block, 0, failures(make, block.requests))

    def _put(self, block: Block[Any], at: int, answers: Sequence[Any]) -> None:
        left = block.left
        block.put(at, answers)
        answered = left - block.left
        self.requests -= answered
        self.late += len(answers) - answered
        if not block.left:
            del self._blocks[block.first]
            del self._firsts[bisect_right(self._firsts, block.first) - 1]

    def _find(self, first: int, count: int) -> Iterator[tuple[Block[Any] | None, int, int]]:
        """Yield, for the ids from `first` on, the block or nobody, the place in it, and how many ids."""
        firsts = self._firsts
        end = first + count
        place = max(0, bisect_right(firsts, first) - 1)
        while first < end:
            block = self._blocks[firsts[place]] if place < len(firsts) else None
            if block is None or block.first >= end:
                yield None, 0, end - first
                return
            block_end = block.first + block.requests
            if first < block.first:
                yield None, 0, block.first - first
                first = block.first
            if first < block_end:
                taken = min(end, block_end) - first
                yield block, first - block.first, taken
                first += taken
            place += 1

    def fail_all(self, make: Callable[[], HubError]) -> None:
        """Answer everything with errors."""
        blocks = list(self._blocks.values())
        self._blocks.clear()
        self._firsts.clear()
        self.requests = 0
        for block in blocks:
            block.fail(make)
