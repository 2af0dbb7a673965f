"""`Staging`: messages that writers have brought and that wait for their COMMIT.

```
STAGE(transaction, part, frames) ─▶ kept ─ COMMIT(query, batch, parts) ─▶ routed, some in each turn; journalled at once
                                        └─ abort, or staged_s without anything new ─▶ dropped
```

A writer of many tasks (Spark) brings what each task has made, and tells in the end which parts count. A batch whose
number is not above the last one that its query has committed was committed before: nothing is routed or recorded, and
the answer says so. So a batch that is repeated after a crash of either side stands in the journal once.

Owner: the event loop. Bound: `limit_bytes` over all transactions. Invariants: the parts of one batch are recorded in
one transaction of the file; subscribers get messages in the order of the journal. Subscribers may see a part of a batch
that is not recorded in the end, if the hub dies in between: live delivery is at most once, as always.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from hub.batch import Batch
from hub.core import Core
from hub.errors import CloseCode, ProtocolError, RejectedError
from hub.handler import Handler
from hub.stretch import Run, Stretch
from peers.journal.recorder import Recorder
from peers.journal.store import Write
from peers.wire.records import Commit, Stage
from peers.wire.scanner import NEED_DATA, Rejected, Scanner

__all__ = ["Committed", "OnCommitted", "Staging", "StagingStatistics"]

_TURN_BYTES = 1024 * 1024
"""Routed in one turn of the loop: a millisecond or two."""


class Committed(NamedTuple):
    """What has become of a COMMIT."""

    first: int
    """Offset of its first message."""
    messages: int
    again: bool
    """Whether it had been committed before; then the numbers are those of that time, as far as they are known."""


OnCommitted = Callable[[Committed | RejectedError], None]


class StagingStatistics(NamedTuple):
    """What waits, and what became of it."""

    transactions: int
    bytes: int
    committed_total: int
    repeated_total: int
    """Batches that were committed before."""
    dropped_total: int
    """Transactions that were given up, by their writers or after `staged_s`."""


class _Transaction:
    """What one writer has staged."""

    __slots__ = ("owner", "parts", "size_bytes", "touched_s")

    def __init__(self, owner: Handler) -> None:
        self.owner = owner
        self.parts: dict[int, list[bytes]] = {}
        self.size_bytes = 0
        self.touched_s = 0.0


class _Order(NamedTuple):
    """A batch whose routing is under way."""

    commit: Commit
    source: Handler
    epoch: int
    """Of the recorder when it was begun; -1 before."""
    first: int
    chunks: list[bytes]
    """What is left of it, the last first."""
    answer: OnCommitted


class Staging:
    """What waits for COMMIT.

    Args:
        core: Where committed messages go.
        recorder: Of the journal.
        limit_bytes: Most that waits.
        kept_s: How long.
        frame_limit_bytes: Largest body.
        writes: What queries have committed, as the journal knows it.
        after_turn: Calls a function in the next turn of the loop.
    """

    def __init__(  # noqa: PLR0913 -- one owner of all this
        self,
        core: Core,
        recorder: Recorder,
        *,
        limit_bytes: int,
        kept_s: float,
        frame_limit_bytes: int,
        writes: list[Write],
        after_turn: Callable[[Callable[[], object]], object],
    ) -> None:
        self._core = core
        self._recorder = recorder
        self._limit_bytes = limit_bytes
        self._kept_s = kept_s
        self._frame_limit_bytes = frame_limit_bytes
        self._writes = {write.query: write for write in writes}
        self._after_turn = after_turn
        self._transactions: dict[str, _Transaction] = {}
        self._orders: list[_Order] = []  # one at a time is routed, the first
        self._size_bytes = 0
        self._committed = 0
        self._repeated = 0
        self._dropped = 0

    def stage(self, source: Handler, stage: Stage, now_s: float) -> None:
        """Keep messages until their COMMIT.

        Raises:
            RejectedError: They are no messages, not all of them would be recorded, or too much waits.
        """
        size = len(stage.frames)
        if self._size_bytes + size > self._limit_bytes:
            text = (
                f"{self._size_bytes} bytes are staged, {size} more are over the limit of {self._limit_bytes}: "
                "commit smaller batches, or raise journal.staged_bytes"
            )
            raise RejectedError(CloseCode.TRY_AGAIN_LATER, text)
        self._check(stage.frames)
        transaction = self._transactions.setdefault(stage.transaction, _Transaction(source))
        transaction.parts.setdefault(stage.part, []).append(stage.frames)
        transaction.touched_s = now_s
        transaction.size_bytes += size
        self._size_bytes += size

    def _check(self, frames: bytes) -> None:
        """See to it that every message can be routed, and will be recorded."""
        journal = self._recorder.handler
        scanner = Scanner(self._core.routes, self._frame_limit_bytes)
        scanner.feed(frames)
        try:
            while (item := scanner.next_item()) is not NEED_DATA:
                if isinstance(item, Rejected):
                    raise RejectedError(item.code, item.text)
                routes = [item.route] if isinstance(item, Run) else item.routes if isinstance(item, Stretch) else None
                if routes is None:
                    raise RejectedError(CloseCode.BAD_DATA, "STAGE: MESSAGES frames without CONFIRM expected")
                if any(journal not in route.handlers for route in routes):
                    text = "STAGE: a topic that is not recorded here; see journal.topics of the hub"
                    raise RejectedError(CloseCode.NOT_ALLOWED, text)
        except ProtocolError as error:
            raise RejectedError(error.code, error.text) from error
        if scanner.held_bytes:
            raise RejectedError(CloseCode.BAD_DATA, "STAGE: the last frame is not whole")

    def commit(self, source: Handler, commit: Commit, answer: OnCommitted) -> None:
        """Route and record what was staged, or drop it.

        Args:
            source: Who asks.
            commit: What to do.
            answer: Called once it is on the disk, or cannot be.
        """
        transaction = self._transactions.pop(commit.transaction, None)
        if transaction is not None:
            self._size_bytes -= transaction.size_bytes
        if commit.abort:
            self._dropped += transaction is not None
            answer(Committed(0, 0, again=False))
            return
        before = self._writes.get(commit.query) if commit.query else None
        if before is not None and commit.batch <= before.batch:
            self._repeat(commit, before, answer)
            return
        if commit.query and any(order.commit.query == commit.query for order in self._orders):
            text = f"COMMIT: another batch of {commit.query!r} is being committed; try again"
            answer(RejectedError(CloseCode.TRY_AGAIN_LATER, text))
            return
        parts = transaction.parts if transaction is not None else {}
        missing = [part for part in commit.parts if part not in parts]
        if missing:
            text = f"COMMIT: part {missing[0]} of transaction {commit.transaction!r} was not staged, or was dropped"
            answer(RejectedError(CloseCode.GONE, text))
            return
        chunks = [frames for part in commit.parts for frames in parts[part]]
        chunks.reverse()
        self._orders.append(_Order(commit, source, -1, 0, chunks, answer))
        if len(self._orders) == 1:
            self._begin()

    def _repeat(self, commit: Commit, before: Write, answer: OnCommitted) -> None:
        """Answer for a batch that was committed before, once that is on the disk."""
        self._repeated += 1
        first, messages = (before.first, before.next - before.first) if commit.batch == before.batch else (0, 0)
        committed = Committed(first, messages, again=True)

        def told(outcome: int | RejectedError) -> None:
            answer(outcome if isinstance(outcome, RejectedError) else committed)

        self._recorder.answer_at_commit(0, told)

    def _begin(self) -> None:
        """Begin with the first order."""
        order = self._orders[0]
        position = self._recorder.position()
        if position is None:
            self._orders.pop(0)
            order.answer(RejectedError(CloseCode.JOURNAL_FAILED, f"not recorded: {self._recorder.error}"))
            self._next()
            return
        self._orders[0] = order._replace(epoch=self._recorder.epoch, first=position)
        self._recorder.begin_batch()
        self._route_some()

    def _route_some(self) -> None:
        """Route a turn's share of the first order."""
        order = self._orders[0]
        if self._recorder.epoch != order.epoch:
            self._orders.pop(0)
            order.answer(RejectedError(CloseCode.JOURNAL_FAILED, f"not recorded: {self._recorder.error}"))
            self._next()
            return
        self._core.begin_read()
        try:
            size = 0
            while order.chunks and size < _TURN_BYTES:
                frames = order.chunks.pop()
                size += len(frames)
                self._route(order.source, frames)
        finally:
            self._core.end_read()
        if order.chunks:
            self._after_turn(self._continue)
        else:
            self._end(order)

    def _continue(self) -> None:
        if self._orders:
            self._route_some()

    def _route(self, source: Handler, frames: bytes) -> None:
        scanner = Scanner(self._core.routes, self._frame_limit_bytes)
        scanner.feed(frames)
        while (item := scanner.next_item()) is not NEED_DATA:
            if isinstance(item, Run):
                self._core.publish(source, item.route, Batch(item.frames, item.messages))
            elif isinstance(item, Stretch):
                self._core.publish_stretch(source, item)

    def _end(self, order: _Order) -> None:
        """All is routed: have it committed."""
        self._orders.pop(0)
        commit = order.commit
        position = self._recorder.position()
        if position is None:
            order.answer(RejectedError(CloseCode.JOURNAL_FAILED, f"not recorded: {self._recorder.error}"))
            self._next()
            return
        write = Write(commit.query, commit.batch, order.first, position) if commit.query else None
        self._recorder.end_batch(write)
        before = self._writes.get(commit.query)
        if write is not None:
            self._writes[commit.query] = write

        def told(outcome: int | RejectedError) -> None:
            if isinstance(outcome, RejectedError):
                self._restore(write, before)
                order.answer(outcome)
            else:
                self._committed += 1
                order.answer(Committed(order.first, position - order.first, again=False))

        self._recorder.answer_at_commit(0, told)
        self._next()

    def _restore(self, write: Write | None, before: Write | None) -> None:
        """A batch was not committed after all."""
        if write is None or self._writes.get(write.query) is not write:
            return
        if before is None:
            del self._writes[write.query]
        else:
            self._writes[write.query] = before

    def _next(self) -> None:
        if self._orders:
            self._after_turn(self._begin_next)

    def _begin_next(self) -> None:
        if self._orders:
            self._begin()

    def finish(self) -> None:
        """The hub stops: route what is being committed, now."""
        while self._orders:
            order = self._orders[0]
            if order.epoch == self._recorder.epoch and order.chunks:
                self._route_some()
            else:
                self._orders.pop(0)
                order.answer(RejectedError(CloseCode.GOING_AWAY, "the hub stops"))

    def sweep(self, now_s: float) -> int:
        """Drop what nobody has touched for too long; return how many transactions."""
        stale = [name for name, one in self._transactions.items() if now_s - one.touched_s > self._kept_s]
        for name in stale:
            self._size_bytes -= self._transactions.pop(name).size_bytes
        self._dropped += len(stale)
        return len(stale)

    def statistics(self) -> StagingStatistics:
        """What waits, and what became of it."""
        return StagingStatistics(
            len(self._transactions), self._size_bytes, self._committed, self._repeated, self._dropped
        )
