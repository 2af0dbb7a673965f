"""`Staging`: messages of writers that wait for their COMMIT.

```
STAGE(transaction, part, frames) ─▶ checked ─▶ kept ─ COMMIT(query, batch, parts) ─▶ routed and recorded at once
                                                  └─ abort, or nothing new for staged_s ─▶ dropped
```

A writer of many tasks (Spark) stages the output of each task, and commits the parts that count. A batch whose number is
not above the query's last committed one was committed before: it is acknowledged and not recorded again, so a repeated
batch is in the journal once. A COMMIT ends its transaction in any case. Queries are a user's own.

Orders are carried out one after the other, a limited share in each turn. Staged bytes are charged to the user until
they are on the disk or dropped. The parts of a batch are one commit of the journal; if the hub dies, subscribers may
have seen a part of a batch that is not recorded.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import structlog

from hub.core import Core
from hub.errors import CloseCode, ProtocolError, RejectedError
from hub.handlers.handler import Handler
from hub.journal.segment import Write
from hub.messages.batch import Batch
from hub.messages.stretch import Run, Stretch
from hub.policy.policy import Rights
from hub.quotas import Resource, Usage
from hub.routing.routes import Route
from hub.scheduling.memory import STAGED_PARTS
from hub.topics import printable
from peers.journal.recorder import Recorder
from peers.journal.store import WRITERS_LIMIT
from peers.wire.records import Commit, Stage
from peers.wire.scanner import NEED_DATA, SEARCHED, Rejected, Scanner

_TURN_COST = 500  # the share of a turn: a new topic, or a frame, costs 1, about 15 µs
_COST_BYTES = 2048  # message bytes that cost 1: a turn routes a mebibyte, which takes a millisecond or two
_ROUTES_PER_COST = 4
_SEARCH_COST = 8  # cost of a new key with labels: up to 130 µs
COMMITS_LIMIT_BYTES = 64 * 1024 * 1024  # a separate limit, since full staging must be able to drain
_OVERHEAD_BYTES = 1024  # charged for an order beside its frames
_PART_BYTES = 40


class Committed(NamedTuple):
    """Outcome of a COMMIT."""

    first: int
    messages: int
    again: bool  # whether it was committed before; then the numbers are those of that time, as far as known


OnCommitted = Callable[[Committed | RejectedError], None]
OnStaged = Callable[[RejectedError | None], None]
Refuse = Callable[[RejectedError], None]


@dataclass(slots=True, eq=False)
class _Transaction:
    rights: Rights | None  # of the first user; no other user may continue it
    usage: Usage | None  # the user's account of staged bytes, if limited
    checked: set[Rights | None] = field(default_factory=set)  # the rights with which its messages were checked
    parts: dict[int, list[bytes]] = field(default_factory=dict)  # number of a part → its frames, in order
    size_bytes: int = 0  # charged for all parts
    touched_s: float = 0.0  # when it was last extended; `sweep` drops it after `staged_s`


class _Order(NamedTuple):
    steps: Iterator[int]
    refuse: Refuse


class Staging:
    """The staged transactions, and the orders being carried out.

    `writes` are the last batches of the queries as stored, the oldest first; `after_turn` calls a function in the
    loop's next turn.
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
        self._limit_bytes = min(limit_bytes, core.memory.limit_bytes // STAGED_PARTS)
        self._account = core.memory.account("stages")
        self._kept_s = kept_s
        self._frame_limit_bytes = frame_limit_bytes
        self._after_turn = after_turn
        # Query → its last batch, also one that is on its way to the disk. This and the next two lose the first entry
        # again and again: a plain dict walks over all that were taken before, each time.
        self._writes: OrderedDict[str, Write] = OrderedDict()
        # Query → its last batch on the disk, to which `_writes` returns when a commit fails.
        self._on_disk: OrderedDict[str, Write] = OrderedDict()
        # Transactions by name, the one idle for longest first.
        self._transactions: OrderedDict[str, _Transaction] = OrderedDict()
        self._orders: deque[_Order] = deque()
        self._is_routing = False  # true while the first order is in the middle of a batch: `finish` must end that one
        self.size_bytes = 0  # charged for messages that are staged or being written, bytes
        self._commits_bytes = 0  # charged for waiting COMMITs, bytes
        self.committed_total = 0
        self.repeated_total = 0  # batches that had been committed before
        self.dropped_total = 0  # transactions aborted, timed out, or failed to commit
        self._take_writes(writes)
        recorder.on_writes = self._take_writes

    def _take_writes(self, writes: list[Write]) -> None:
        self._on_disk = OrderedDict((write.query, write) for write in writes)
        self._writes = OrderedDict(self._on_disk)

    def __len__(self) -> int:
        return len(self._transactions)

    def stage(self, source: Handler, stage: Stage, now_s: float, answer: OnStaged) -> None:
        """Stage messages; `answer` is called once they are kept, or with the reason why not.

        They must be messages that are all recorded, that `source` may publish, and within the limits; the transaction
        must not be another user's.
        """
        size = _size_bytes(stage)
        if self._core.memory.is_over:
            answer(RejectedError(CloseCode.TRY_AGAIN_LATER, self._core.memory.refusal()))
            return
        if self.size_bytes + size > self._limit_bytes:
            text = (
                f"{self.size_bytes} bytes are staged, {size} more are over the limit of {self._limit_bytes}: "
                "commit smaller batches, or raise journal.staged_bytes"
            )
            answer(RejectedError(CloseCode.TRY_AGAIN_LATER, text))
            return
        usage = None if source.share is None else source.share[Resource.STAGED_BYTES]
        if usage is not None and usage.room < size:
            usage.refuse()
            answer(usage.rejection(size))
            return
        self._hold(size, usage)

        def refuse(error: RejectedError) -> None:
            self._let_go(size, usage)
            answer(error)

        self._put(_Order(self._stage(source, stage, usage, now_s, answer, refuse), refuse))

    def _hold(self, size_bytes: int, usage: Usage | None) -> None:
        self.size_bytes += size_bytes
        self._account.charge(size_bytes)
        if usage is not None:
            usage.add(size_bytes)

    def _let_go(self, size_bytes: int, usage: Usage | None) -> None:
        self.size_bytes -= size_bytes
        self._account.charge(-size_bytes)
        if usage is not None:
            usage.give_back(size_bytes)

    def commit(self, source: Handler, commit: Commit, answer: OnCommitted) -> None:
        """Publish and record a transaction, or drop it; `answer` is called once it is on the disk, or with an error."""
        size = _OVERHEAD_BYTES + _PART_BYTES * len(commit.parts)
        if self._commits_bytes + size > COMMITS_LIMIT_BYTES:
            answer(RejectedError(CloseCode.TRY_AGAIN_LATER, "too many COMMITs wait; try again"))
            return
        self._commits_bytes += size

        def done(outcome: Committed | RejectedError) -> None:
            self._commits_bytes -= size
            answer(outcome)

        self._put(_Order(self._commit(source, commit, done), done))

    def _put(self, order: _Order) -> None:
        self._orders.append(order)
        if len(self._orders) == 1:
            self._after_turn(self._work)

    def _work(self) -> None:
        left = _TURN_COST
        while self._orders and left > 0:
            left -= self._step()
        if self._orders:
            self._after_turn(self._work)

    def _step(self) -> int:
        order = self._orders[0]
        try:
            return next(order.steps)
        except StopIteration:
            pass
        except Exception:  # noqa: BLE001 -- later orders must not wait for ever
            structlog.get_logger("peers").exception("a bug of the journal, please report it")
            order.refuse(RejectedError(CloseCode.JOURNAL_FAILED, "a bug of the hub, please report it"))
        self._is_routing = False
        self._orders.popleft()
        return 1

    def _stage(  # noqa: PLR0913, PLR0917 -- an order, and all that its answer needs
        self, source: Handler, stage: Stage, usage: Usage | None, now_s: float, answer: OnStaged, refuse: Refuse
    ) -> Iterator[int]:
        rights = source.rights
        try:
            yield from self._check(source, stage.frames)
            _check_owner(self._transactions.get(stage.transaction), stage.transaction, rights)
        except RejectedError as error:
            refuse(error)
            return
        transaction = self._transactions.pop(stage.transaction, None) or _Transaction(rights, usage)
        self._transactions[stage.transaction] = transaction
        transaction.checked.add(rights)
        transaction.parts.setdefault(stage.part, []).append(stage.frames)
        transaction.touched_s = now_s
        size = _size_bytes(stage)
        transaction.size_bytes += size
        if transaction.usage is not usage:  # all of a transaction is given back together
            self._let_go(size, usage)
            self._hold(size, transaction.usage)
        answer(None)

    def _check(self, source: Handler, frames: bytes) -> Iterator[int]:
        """Check that every message can be routed, is granted to `source`, and will be recorded."""
        journal = self._recorder.handler
        scanner = Scanner(self._core.routes, self._frame_limit_bytes)
        scanner.feed(frames)
        try:
            while (item := scanner.next_item()) is not NEED_DATA:
                if isinstance(item, Rejected):
                    raise RejectedError(item.code, item.text)
                if item is SEARCHED:
                    yield _SEARCH_COST
                    continue
                if not isinstance(item, Run | Stretch):
                    raise RejectedError(CloseCode.BAD_DATA, "STAGE: MESSAGES frames without CONFIRM expected")
                routes = [item.route] if isinstance(item, Run) else item.routes
                for route in set(routes):
                    _check_route(route, journal)
                if source.rights is not None:
                    self._check_granted(source, item)
                yield 1 + len(routes) // _ROUTES_PER_COST
        except ProtocolError as error:
            raise RejectedError(error.code, error.text) from error
        if scanner.held_bytes:
            raise RejectedError(CloseCode.BAD_DATA, "STAGE: the last frame is not whole")

    def _check_granted(self, source: Handler, item: Run[Route] | Stretch[Route]) -> None:
        if isinstance(item, Run):
            self._core.authority.check(source, item.route, item)
            return
        for route, numbers in item.places.items():
            self._core.authority.check(source, route, item.run(numbers[0]))

    def _commit(self, source: Handler, commit: Commit, answer: OnCommitted) -> Iterator[int]:
        transaction = self._transactions.get(commit.transaction)
        try:
            _check_owner(transaction, commit.transaction, source.rights)
        except RejectedError as error:
            answer(error)
            return
        self._transactions.pop(commit.transaction, None)

        def done(outcome: Committed | RejectedError) -> None:
            if transaction is not None:
                self._let_go(transaction.size_bytes, transaction.usage)
            answer(outcome)

        query = commit.query  # of a user, as `alice/query`: user names have no slash
        if source.rights is not None and query:
            query = f"{source.rights.user.name}/{query}"
        before = self._writes.get(query) if query else None
        if commit.abort:
            self.dropped_total += transaction is not None
            done(Committed(0, 0, again=False))
        elif before is not None and commit.batch <= before.batch:
            self.repeated_total += 1
            sizes = (before.first, before.next - before.first) if commit.batch == before.batch else (0, 0)
            self._answer_at_commit(Committed(*sizes, again=True), done)
        else:
            try:
                chunks = _chunks(commit, transaction)
                if transaction is not None and transaction.checked != {source.rights}:
                    for chunk in chunks:  # they were staged with other rights than those that hold now
                        yield from self._check(source, chunk)
            except RejectedError as error:
                self.dropped_total += transaction is not None
                done(error)
                return
            yield from self._route(source, query, commit.batch, chunks, done)

    def _answer_at_commit(self, committed: Committed, answer: OnCommitted) -> None:
        def settled(outcome: int | RejectedError) -> None:
            answer(outcome if isinstance(outcome, RejectedError) else committed)

        self._recorder.answer_at_commit(0, settled)

    def _route(
        self, source: Handler, query: str, batch: int, chunks: list[bytes], answer: OnCommitted
    ) -> Iterator[int]:
        recorder = self._recorder
        first, epoch = recorder.position(), recorder.epoch
        if first is not None:
            recorder.begin_batch()
            self._is_routing = True
            chunks.reverse()
            try:
                while chunks and recorder.epoch == epoch:
                    yield from self._publish(source, chunks.pop(), epoch)
            except Exception:
                recorder.end_batch(None)  # else nothing would be committed ever again
                raise
        following = recorder.position()
        if first is None or following is None or recorder.epoch != epoch:
            self.dropped_total += 1
            answer(recorder.refusal())
            return
        write = Write(query, batch, first, following)
        recorder.end_batch(write if query else None)
        _remember(self._writes, write)

        def settle(outcome: Committed | RejectedError) -> None:
            if not isinstance(outcome, RejectedError):
                self.committed_total += 1
                _remember(self._on_disk, write)
            else:  # the last one on the disk counts again
                self.dropped_total += 1
                before = self._on_disk.get(query)
                if before is not None:
                    self._writes[query] = before
                else:
                    self._writes.pop(query, None)
            answer(outcome)

        self._answer_at_commit(Committed(first, following - first, again=False), settle)

    def _publish(self, source: Handler, frames: bytes, epoch: int) -> Iterator[int]:
        core = self._core
        scanner = Scanner(core.routes, self._frame_limit_bytes)
        scanner.feed(frames)
        position = 0
        while self._recorder.epoch == epoch and (item := scanner.next_item()) is not NEED_DATA:
            if item is SEARCHED:
                yield _SEARCH_COST
                continue
            core.write_is_due = True
            try:
                if isinstance(item, Run):
                    core.publish(source, item.route, Batch(item.frames, item.messages))
                    size, routes = len(item.frames), 1
                elif isinstance(item, Stretch):
                    core.publish_stretch(source, item)
                    size, routes = item.ends[-1] - position, len(item.routes)
            finally:
                core.end_read()
            position += size
            yield 1 + routes // _ROUTES_PER_COST + size // _COST_BYTES

    def finish(self) -> None:
        while self._is_routing:
            self._step()
        while self._orders:
            self._orders.popleft().refuse(RejectedError(CloseCode.GOING_AWAY, "the hub stops"))

    def sweep(self, now_s: float) -> int:
        dropped = 0
        while self._transactions:
            name, oldest = next(iter(self._transactions.items()))
            if now_s - oldest.touched_s <= self._kept_s:
                break
            del self._transactions[name]
            self._let_go(oldest.size_bytes, oldest.usage)
            dropped += 1
        self.dropped_total += dropped
        return dropped


def _check_owner(transaction: _Transaction | None, name: str, rights: Rights | None) -> None:
    if transaction is None or rights is None:
        return
    if transaction.rights is None or transaction.rights.user.name != rights.user.name:
        raise RejectedError(CloseCode.NOT_ALLOWED, f"transaction {printable(name)} is another user's")


def _size_bytes(stage: Stage) -> int:
    return _OVERHEAD_BYTES + len(stage.frames) + len(stage.transaction)


def _check_route(route: Route, journal: Handler) -> None:
    """Reject topics that are not recorded, and names of senders, which may have another owner at the COMMIT."""
    if route.sender:
        raise RejectedError(CloseCode.NOT_ALLOWED, "STAGE: messages that bear the name of a sender are not staged")
    if route.is_owned:
        raise RejectedError(CloseCode.NOT_ALLOWED, "STAGE: changes of a store are not staged")
    if journal not in route.handlers:
        text = "STAGE: a topic that is not recorded here; see journal.topics of the hub"
        raise RejectedError(CloseCode.NOT_ALLOWED, text)


def _remember(writes: OrderedDict[str, Write], write: Write) -> None:
    if not write.query:
        return
    writes[write.query] = write
    writes.move_to_end(write.query)
    if len(writes) > WRITERS_LIMIT:
        writes.popitem(last=False)


def _chunks(commit: Commit, transaction: _Transaction | None) -> list[bytes]:
    parts = transaction.parts if transaction is not None else {}
    if len(set(commit.parts)) < len(commit.parts):
        raise RejectedError(CloseCode.BAD_DATA, "COMMIT: a part is named twice")
    missing = [part for part in commit.parts if part not in parts]
    if missing:
        text = f"COMMIT: part {missing[0]} of transaction {commit.transaction!r} was not staged, or was dropped"
        raise RejectedError(CloseCode.GONE, text)
    return [frames for part in commit.parts for frames in parts[part]]
