"""`Journal`: the journal of a hub that records; connects the parts.

```
connections ─ published messages ─▶ recorder (loop) ─▶ writer (thread) ─▶ store ─▶ segments
            ─ FETCH ─▶ readers (processes) ◀──────────────────────────────────────── segments
            ─ STAGE, COMMIT ─▶ staging (loop) ─▶ recorder
              tiering (loop) ─▶ a process that copies sealed segments
            ─ $hub/consumers ─▶ consumers (loop) ─▶ FETCH, as above; positions (thread)
```
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection
from functools import partial
from struct import Struct

import msgspec
import structlog

from hub.core import Core
from hub.errors import CloseCode, InvalidTopicError, JournalUnavailableError, RejectedError, UsageError
from hub.handlers.handler import Handler
from hub.journal.segment import end_of
from hub.messages.batch import Batch
from hub.messages.frame import HEADER_BYTES
from hub.quotas import Usage
from hub.routing.routes import Route
from hub.settings.settings import JournalSettings, Limits
from hub.topics import check_prefix
from peers.journal.consumers.positions import Positions
from peers.journal.consumers.service import Consumers
from peers.journal.folder import CONSUMERS
from peers.journal.forms import Order, may_read
from peers.journal.readers import Deliver, Readers, SharedPieces
from peers.journal.recorder import Answer, Progress, Recorder, Writer
from peers.journal.remote_journals import Cancel, JournalStatistics, Publish, nothing
from peers.journal.staging import OnCommitted, OnStaged, Staging
from peers.journal.store import Retention, Store
from peers.journal.tier.place import check_address, check_installed
from peers.journal.tier.tiering import Order as TierOrder
from peers.journal.tier.tiering import Tiering
from peers.wire.control import decode_notice, encode_notice
from peers.wire.kinds import Kind
from peers.wire.records import REPLACED, Commit, Fetch, Stage, encode_fetch

_US = 1_000_000
_SETTLE_S = 1.0  # how long a stopping hub waits for due confirmations, seconds
_COMMIT_WAIT_S = 1.0  # how long a FETCH waits at least for records that are being written, seconds
NOT_RECORDED = "topic not recorded here; see journal.topics of the hub"
_SHARED = 1  # request number of a FETCH whose answer is for several clients
_KIND = 4
_NUMBER = Struct(">I")  # a RECORDS frame begins with the request number
_FRAME_LIMIT_BYTES = 512 * 1024 * 1024  # lengths in a block have 31 bits, and a reader holds it twice


class _Waiting:
    """A FETCH that waits for a commit; freed as soon as it is over, since streams make many of them."""

    __slots__ = ("allows", "deliver", "fetch", "is_for_records", "prefixes", "timer", "usage")

    def __init__(self, fetch: Fetch, deliver: Deliver, usage: Usage | None) -> None:
        self.fetch = fetch
        self.deliver = deliver
        self.usage = usage
        # Whether it waits for records that it wants. One with an `end` has to know when that is reached, one without
        # `wait_ms` waits for records being written: both go on with the next commit behind their start.
        self.is_for_records = bool(fetch.wait_ms and fetch.end is None)
        self.prefixes = set(fetch.prefixes) if self.is_for_records else {""}
        self.allows = may_read(fetch) if self.is_for_records else None
        self.timer: asyncio.TimerHandle | None = None


class WaitingFetches:
    """FETCHes that wait for a commit, so that no reader process is asked in vain.

    ```
    commit of offsets 40 to 49, topics /a/x and /b ─▶ /a/  ─▶ read from 40: nothing wanted was before
                                                      /c   ─▶ waits on, at no cost
                                           timeout ─▶ /c   ─▶ read from 50: an empty answer
    ```

    A commit costs a dictionary lookup for each of its topics and each length of a prefix. `read` starts a read;
    `head` returns the offset behind the last committed record.
    """

    def __init__(self, read: Callable[[Fetch, Deliver, Usage | None], None], head: Callable[[], int]) -> None:
        self._read = read
        self._head = head
        self._loop = asyncio.get_running_loop()
        self._all: dict[_Waiting, None] = {}
        self._by_prefix: dict[str, dict[_Waiting, None]] = {}
        self._lengths: Counter[int] = Counter()  # length of a prefix → how many of these prefixes have it

    def __len__(self) -> int:
        return len(self._all)

    def add(self, fetch: Fetch, deliver: Deliver, usage: Usage | None, wait_s: float) -> Cancel:
        """Read at the next matching commit, or after `wait_s`; return a function that cancels."""
        waiting = _Waiting(fetch, deliver, usage)
        waiting.timer = self._loop.call_later(wait_s, lambda: self._wake(waiting, self._head()))
        self._all[waiting] = None
        for prefix in waiting.prefixes:
            if prefix not in self._by_prefix:
                self._by_prefix[prefix] = {}
                self._lengths[len(prefix)] += 1
            self._by_prefix[prefix][waiting] = None
        return partial(self._forget, waiting)

    def committed(self, first: int, head: int, topics: Collection[str] | None) -> None:
        """Wake the FETCHes that want records in [first, head); None: topics are unknown."""
        due = dict.fromkeys(self._all) if topics is None else {}
        for topic in topics or ():
            for size in self._lengths:
                for waiting in self._by_prefix.get(topic[:size], ()):
                    if waiting.fetch.start < head and (waiting.allows is None or waiting.allows(topic)):
                        due[waiting] = None
        for waiting in due:
            self._wake(waiting, waiting.fetch.start if topics is None else first)

    def _wake(self, waiting: _Waiting, start: int) -> None:
        self._forget(waiting)
        fetch = waiting.fetch
        if waiting.is_for_records and start > fetch.start:
            fetch = msgspec.structs.replace(fetch, start=start)
        self._read(fetch, waiting.deliver, waiting.usage)

    def _forget(self, waiting: _Waiting) -> bool:
        if self._all.pop(waiting, self) is self:
            return False
        if waiting.timer is not None:
            waiting.timer.cancel()
            waiting.timer = None
        for prefix in waiting.prefixes:
            of_prefix = self._by_prefix[prefix]
            del of_prefix[waiting]
            if not of_prefix:
                del self._by_prefix[prefix]
                size = len(prefix)
                self._lengths[size] -= 1
                if not self._lengths[size]:
                    del self._lengths[size]
        return True


class Journal:
    """The journal of a hub that records. Raises `JournalCorruptError` or `JournalUnavailableError`."""

    def __init__(self, core: Core, settings: JournalSettings, limits: Limits) -> None:
        if limits.frame_bytes > _FRAME_LIMIT_BYTES:
            most = f"a hub with a journal takes at most {_FRAME_LIMIT_BYTES}"
            raise JournalUnavailableError(f"limits.frame_bytes is {limits.frame_bytes}, {most}")
        if settings.tier:
            try:
                check_address(settings.tier)
                check_installed()
            except UsageError as error:
                raise JournalUnavailableError(str(error)) from error
        self._loop = asyncio.get_running_loop()
        self._topics = settings.topics
        self._prefixes_limit = limits.prefixes_per_client
        self._waiting = WaitingFetches(self._read, lambda: self.recorder.committed)
        behind_bytes = settings.tier_behind_bytes if settings.tier else 0
        retention = Retention(settings.keep_bytes, int(settings.keep_s * _US), behind_bytes)
        store = Store(
            settings.path,
            full_sync=settings.sync == "full",
            retention=retention,
            compresses=settings.compression != "none",
        )
        self.id = store.id
        self._epochs = store.epochs
        try:  # before anything else knows of this journal
            path, is_full = f"{settings.path}/{CONSUMERS}", settings.sync == "full"
            positions = Positions(path, self.id, epoch=self.epoch, full_sync=is_full)
        except BaseException:
            store.close()
            raise
        self._log: structlog.stdlib.BoundLogger = structlog.get_logger("peers")
        self._cuts_total = 0  # how many positions were cut back
        self._writer = Writer(store, settings.commit_s)
        self.recorder = Recorder(
            core,
            settings.topics,
            self._writer.submit,
            buffer_bytes=settings.buffer_bytes,
            at=Progress(store.first, store.next, store.size_bytes),
        )
        self.recorder.on_news = self._waiting.committed
        self._readers = Readers(store.path, settings.readers, settings.fetch_s, settings.tier)
        self._pieces = SharedPieces(self._readers.fetch, core.scheduler)
        self._tiering: Tiering | None = None
        if settings.tier:
            keep_us = int(settings.tier_keep_s * _US)
            order = TierOrder(store.path, settings.tier, settings.tier_keep_bytes, keep_us)
            self._tiering = Tiering(order, partial(setattr, store, "copied"))
        self._staging = Staging(
            core,
            self.recorder,
            limit_bytes=settings.staged_bytes,
            kept_s=settings.staged_s,
            frame_limit_bytes=limits.frame_bytes,
            writes=store.writes,
            after_turn=self._loop.call_soon,
        )
        self._writer.start(self.recorder)
        self.consumers = Consumers(core, self, settings, positions, limits.frame_bytes)

    @property
    def epoch(self) -> int:
        return self._epochs[-1].number

    def confirm(self, route: Route, batch: Batch, publish: Publish, answer: Answer) -> None:
        """Publish, and answer once the messages are committed, or with the reason why they will not be."""
        publish(batch)
        if self.recorder.records(route):
            self.recorder.answer_at_commit(batch.messages, answer)
        else:
            answer(RejectedError(CloseCode.NOT_ALLOWED, NOT_RECORDED))

    def fetch(self, fetch: Fetch, deliver: Deliver, usage: Usage | None = None) -> Cancel:
        """Read a piece; if its records are not there yet but may come, wait for them.

        `deliver` gets the answer, unless the returned function was called before; `usage` is charged meanwhile.
        """
        try:
            fetch = self._checked(fetch)
        except RejectedError as error:
            deliver(error)
            return nothing
        recorder = self.recorder
        start = fetch.start
        on_its_way = start < (recorder.position() or 0)
        if fetch.time is None and start >= recorder.committed and fetch.bytes and (on_its_way or fetch.wait_ms):
            # It only makes sense to wait for topics that are recorded.
            if not on_its_way and not any(
                prefix.startswith(topic) or topic.startswith(prefix)
                for prefix in fetch.prefixes
                for topic in self._topics
            ):
                deliver(RejectedError(CloseCode.NOT_ALLOWED, NOT_RECORDED))
                return nothing
            wait_s = max(fetch.wait_ms / 1000, _COMMIT_WAIT_S)
            return self._waiting.add(fetch, deliver, usage, wait_s)
        self._read(fetch, deliver, usage)
        return nothing

    def _checked(self, fetch: Fetch) -> Fetch:
        """Apply the limits of a subscription, as it may wait; add the epoch, and the journal's id if requested."""
        if len(fetch.prefixes) > self._prefixes_limit:
            text = f"FETCH: {len(fetch.prefixes)} prefixes, the limit for a client is {self._prefixes_limit}"
            raise RejectedError(CloseCode.NOT_ALLOWED, text)
        try:
            for prefix in fetch.prefixes:
                check_prefix(prefix)
        except InvalidTopicError as error:
            raise RejectedError(CloseCode.BAD_DATA, f"FETCH: {error}") from error
        if fetch.journal not in {None, b"", self.id}:
            raise RejectedError(CloseCode.GONE, REPLACED)
        journal = None if fetch.journal is None else self.id
        start = fetch.start if fetch.time is not None else self.cut_back(fetch.start, fetch.epoch)
        return msgspec.structs.replace(fetch, start=start, journal=journal, epoch=self.epoch)

    def _read(self, fetch: Fetch, deliver: Deliver, usage: Usage | None) -> None:
        """Start a read; waiting clients with the same FETCH share one answer."""
        form = fetch.form if isinstance(fetch, Order) else "frame"
        if form == "events":
            self._pieces.fetch(encode_fetch(fetch), deliver, usage)
        elif form == "frame" and fetch.wait_ms:
            order = encode_fetch(msgspec.structs.replace(fetch, request=_SHARED, wait_ms=0))
            self._pieces.fetch(order, partial(_renumbered, fetch.request, deliver), usage)
        else:
            self._readers.fetch(encode_fetch(fetch), deliver, usage)

    def end_of(self, epoch: int) -> int | None:
        """Return the end of an epoch: positions read in it hold up to this offset; None if it has not ended."""
        return end_of(self._epochs, epoch)

    def cut_back(self, position: int, epoch: int) -> int:
        """Return where a reader goes on that was at `position` in `epoch`: earlier, if records were lost."""
        end = self.end_of(epoch) if epoch else None
        if end is None or position <= end:
            return position
        if not self._cuts_total:
            self._log.warning(
                "a reader was ahead of the journal, whose end is lost: it continues at its end; "
                "hub_journal_positions_moved_back_total counts others",
                position=position,
                end=end,
            )
        self._cuts_total += 1
        return end

    def stage(self, source: Handler, stage: Stage, answer: OnStaged) -> None:
        self._staging.stage(source, stage, self._loop.time(), answer)

    def commit(self, source: Handler, commit: Commit, answer: OnCommitted) -> None:
        """Publish and record a transaction, or drop it; answer once it is on the disk."""
        self._staging.commit(source, commit, answer)

    def tick(self) -> None:
        now_s = self._loop.time()
        self._staging.sweep(now_s)
        self._readers.tick(now_s)
        self.consumers.tick()
        if self._tiering is not None:
            self._tiering.tick(now_s)

    @property
    def trouble(self) -> str:
        error = self.recorder.error
        return "" if error is None else f"the journal cannot be written: {error}"

    def statistics(self) -> JournalStatistics | None:
        return JournalStatistics(
            self.recorder,
            self._staging,
            len(self._readers),
            self._readers.pending + len(self._waiting),
            self.consumers.statistics(),
            None if self._tiering is None else self._tiering.statistics,
            self.epoch,
            self._cuts_total + self.consumers.cuts_total,
        )

    async def settle(self) -> None:
        settled: asyncio.Future[None] = self._loop.create_future()

        def settle(_: int | RejectedError) -> None:
            if not settled.done():
                settled.set_result(None)

        self.recorder.answer_at_commit(0, settle)
        await asyncio.wait([settled], timeout=_SETTLE_S)

    async def stop(self) -> None:
        self._staging.finish()
        await self.consumers.stop()
        self.recorder.stop()
        await self._readers.stop()
        if self._tiering is not None:
            await self._tiering.stop()
        await self._loop.run_in_executor(None, self._writer.stop)
        await asyncio.sleep(0)  # run the writer's last callbacks


def _renumbered(request: int, deliver: Deliver, outcome: bytes | bytearray | RejectedError) -> None:
    if isinstance(outcome, RejectedError):
        deliver(outcome)
    elif outcome[_KIND] == Kind.RECORDS:
        frame = bytearray(outcome)
        _NUMBER.pack_into(frame, HEADER_BYTES, request)
        deliver(frame)
    else:
        notice = decode_notice(bytes(outcome[HEADER_BYTES:]))
        deliver(encode_notice(msgspec.structs.replace(notice, request=request)))
