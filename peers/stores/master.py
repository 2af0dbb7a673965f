"""`Master`: a store in a running hub. It answers requests, publishes changes, and lets entries expire.

```
requests, messages ─▶ Store.apply ─▶ changes ─▶ Keeper ── kept ─▶ published, answered
a timer ────────────▶ Store.expire ─▶
```

It is a service of this process (`Requests.serve_here`), reachable from every hub of the mesh. The commands of a frame
are one batch: kept together, and published in one message. No change is answered or published before it is kept.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import count, groupby
from typing import NamedTuple, TypeVar

import msgspec

from hub.core import Core
from hub.errors import CloseCode, HubError, StoreError
from hub.handlers.delivery import Role
from hub.handlers.handler import Handler
from hub.limits import QueueLimits
from hub.messages.batch import Batch, value_ends
from hub.messages.frame import BATCH_COUNT, FLAG_BATCH, FLAG_SHARED, KIND_MESSAGES, Encoding, Frame, encode_frame
from hub.messages.request_frame import Item, Reply, Request, Status, as_bytes
from hub.quotas import Resource
from hub.stores.command import Change, Command, StoreLimits, store_topic
from hub.stores.store import Row, Snapshot, Store, StoreStatistics
from peers.stores.keeping import NO_NOTES, Keeper, Notes
from peers.stores.operations import TypedOperations
from peers.stores.wire import (
    PAGE_BYTES,
    PAGE_ROWS,
    Answers,
    Exists,
    Get,
    Index,
    More,
    Page,
    Read,
    Rows,
    Since,
    SinceAnswer,
    State,
    answer_of,
    change_rows,
    changes_topic,
    commands_of,
    give_answers,
    read_topic,
    reads_of,
    refusal,
    unknown,
    write_topic,
)
from peers.values.msgpack import array_header

_EXPIRED_AT_ONCE = 1_000  # most entries that expire in one turn: 3 ms
_HEAD_BYTES = 8
_LENGTH_BYTES = 4
_SHRINKING = frozenset({"erase", "clear"})  # commands that are allowed without free memory
SNAPSHOTS_LIMIT = 64  # more readers are rejected: replacing an older one could starve all of them
SNAPSHOT_NS = 10_000_000_000  # how long a snapshot waits for the request for its next page, ns
Then = Callable[[list[Change | StoreError | None], HubError | None], object]  # outcomes; why they could not be kept
Note = Callable[[list[Change | StoreError | None]], Notes]  # called before changes are kept; returns notes for them
Apply = Callable[[Iterable[Command | StoreError], Then, object, str | None], object]

T = TypeVar("T")
_UNREADABLE_TEXT = "nothing that a store can be asked"
_UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)  # of decoders; a UnicodeDecodeError is a ValueError
_pack = msgspec.msgpack.Encoder().encode


class MasterStatistics(NamedTuple):
    """Contents of a master, and its counters since its hub was started."""

    store: StoreStatistics
    commands_total: int
    reads_total: int
    snapshots_total: int
    published_total: int
    keep_failures_total: int  # failed writes to the store's file


class Master:
    """One store, in the file of `keeper`, which its creator closes. Raises `UsageError` or `StorageError`."""

    def __init__(  # noqa: PLR0913, PLR0917 -- a composition root
        self,
        core: Core,
        clock: AbstractEventLoop,
        now_ns: Callable[[], int],
        name: str,
        limits: StoreLimits,
        keeper: Keeper,
    ) -> None:
        self._core, self._clock, self._now_ns, self._keeper = core, clock, now_ns, keeper
        topic = changes_topic(name)
        epoch, number = keeper.open(name)
        self.store = Store(name, TypedOperations(), limits, number=number, epoch=epoch)  # read-only; `apply` changes it
        keeper.load(self.store)
        self.listeners: list[Callable[[Sequence[Change]], object]] = []  # called with all kept changes, in order
        self.noters: list[Callable[[Sequence[Change]], Notes]] = []  # called before changes are kept; return notes
        self.forward: Apply | None = None  # in place of `apply`, where the store follows another one
        # Snapshots between two requests for their pages: by number, with whether it has values, and when it times out.
        self._held: dict[int, tuple[Snapshot, bool, int]] = {}
        self._numbers = count(1)
        self._held_bytes = self._snapshots = 0
        self._account = core.memory.account("stores")
        self._charged_bytes = 0
        self._commands = self._reads = self._published = 0
        self._topic = topic.encode()  # the head of a message of changes, and the key of its route
        self._key = encode_frame(KIND_MESSAGES, b"", key=self._topic)[_LENGTH_BYTES:]
        self._write_topic = write_topic(name).encode()
        self._read_topic = read_topic(name).encode()
        self._timer: TimerHandle | None = None  # the timer of the next expiry, and its time
        self._timer_ns = 0
        self.handler = Handler(
            self, role=Role.LOCAL, limits=QueueLimits(), name=f"store {name}", address="local", poster=self
        )
        core.attach(self.handler)
        core.routes.let_tell(name, self.handler)
        core.requests.serve_here(self.handler, store_topic(name), self._answer)
        core.subscribe(self.handler, [write_topic(name)])
        self._settle_up()

    @property
    def name(self) -> str:
        return self.store.name

    @property
    def notes(self) -> dict[str, bytes] | None:
        """The notes at the time of opening; None if nothing is kept over a restart."""
        return self._keeper.notes

    @property
    def is_certain(self) -> bool:
        """Whether every published change was in the store when it was opened."""
        return self._keeper.is_certain

    def apply(
        self,
        commands: Iterable[Command | StoreError],
        then: Then,
        publisher: object = None,
        user: str | None = None,
        note: Note | None = None,
    ) -> None:
        """Apply commands in order, as one batch.

        Args:
            commands: Rejected ones do not stop the others. An error stands for a command that could not be decoded.
            then: Called after the changes were kept and published, with the outcome of each command (None: nothing
                changed; or the error), and with the error if the changes could not be kept.
            publisher: Text or bytes, for readers of changes.
            user: Charged for the entries.
            note: Returns notes to keep with the changes, also without changes.
        """
        outcomes: list[Change | StoreError | None] = []
        apply, now_ns = self.store.apply, self._now_ns()
        is_over = self._core.memory.is_over
        for each in commands:
            command = self._allowed(each) if is_over and not isinstance(each, StoreError) else each
            if isinstance(command, StoreError):
                self.store.refuse(1)
                outcomes.append(command)
                continue
            try:
                outcomes.append(apply(command, now_ns, publisher, user))
            except StoreError as error:
                outcomes.append(error)
        self._commands += len(outcomes)
        changes = [outcome for outcome in outcomes if type(outcome) is Change]
        notes = self._notes(changes) if note is None else {**self._notes(changes), **note(outcomes)}
        if changes or notes:
            self._settle_up()
            self._keeper.keep(changes, partial(self._kept, changes, partial(then, outcomes)), notes)
        elif None in outcomes:
            self.when_kept(partial(then, outcomes))
        else:
            then(outcomes, None)

    def when_kept(self, then: Callable[[HubError | None], object]) -> None:
        """Call `then` once everything in the store now is kept, or with the error of a failed try."""
        self._keeper.keep((), then)

    def _notes(self, changes: Sequence[Change]) -> Notes:
        if not self.noters:
            return NO_NOTES
        return {name: value for noter in self.noters for name, value in noter(changes).items()}

    def _kept(
        self, changes: Sequence[Change], then: Callable[[HubError | None], object] | None, error: HubError | None
    ) -> None:
        if error is None and changes:
            self._tell(changes)
        if then is not None:
            then(error)

    def _tell(self, changes: Sequence[Change]) -> None:
        for listener in self.listeners:
            listener(changes)
        core = self._core
        route = core.routes.of(self._key)
        if not route.handlers:
            return
        for part in _parts(changes):
            value = _pack((self.store.epoch, change_rows(part, self._now_ns())))
            self._published += 1
            core.publish(self.handler, route, Batch(encode_frame(KIND_MESSAGES, value, key=self._topic), 1))

    def _settle_up(self) -> None:
        """Charge the memory, and set the timer for the next expiry."""
        store = self.store
        size_bytes = store.size_bytes + store.changes.size_bytes + self._held_bytes
        if size_bytes != self._charged_bytes:
            self._account.charge(size_bytes - self._charged_bytes)
            self._charged_bytes = size_bytes
        if store.expiring:
            self._plan()

    def _plan(self) -> None:
        next_ns = self.store.next_expiry_ns
        if next_ns is None or (self._timer is not None and self._timer_ns <= next_ns):
            return  # a timer that comes too early sets the next one
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ns = next_ns
        wait_s = max(0, next_ns - self._now_ns()) / 1e9
        self._timer = self._clock.call_at(self._clock.time() + wait_s, self.expire)

    def expire(self) -> None:
        self._timer = None
        changes = self.store.expire(self._now_ns(), _EXPIRED_AT_ONCE)
        if changes:
            self._settle_up()
            self._keeper.keep(changes, partial(self._kept, changes, None), self._notes(changes))
        self._plan()

    def _answer(self, asker: Handler, request: Request, reply: Callable[[Reply, int], object]) -> None:
        self.handler.write_pending()
        plain = as_bytes(request) if request.flags & FLAG_SHARED else request
        give = partial(give_answers, request, reply)
        if plain is None:
            text = "the values are not there any more"
        elif request.target == self._write_topic:
            self._write(asker, _each(commands_of, plain.flags, plain.values), give)
            return
        elif request.target == self._read_topic:
            self._give_read(_each(reads_of, plain.flags, plain.values), asker, give)
            return
        else:
            text = f"a store is asked under {self._read_topic.decode()} and {self._write_topic.decode()}"
        give([refusal(StoreError(text))] * request.requests)

    def _write(self, asker: Handler, commands: list[Command | StoreError], give: Callable[[Answers], object]) -> None:
        rights = asker.rights
        user = None if rights is None else rights.user.name

        def then(outcomes: list[Change | StoreError | None], error: HubError | None) -> None:
            if error is None:
                give(list(map(answer_of, commands, outcomes)))
            else:
                give([refusal(each) if isinstance(each, StoreError) else unknown(error) for each in outcomes])

        self._apply_for_clients(commands, then, user or asker.name or None, user, asker)

    def _give_read(
        self, reads: list[Read | StoreError], asker: Handler, give: Callable[[Answers, int], object]
    ) -> None:
        """Answer reads: at once, but for changes, which have to be kept first."""

        def give_kept(answers: Answers, place: int, error: HubError | None) -> None:
            if error is not None:
                answers = [refusal(StoreError(str(error), CloseCode.TRY_AGAIN_LATER))] * len(answers)
            give(answers, place)

        answers = self._read(asker, reads)
        start = 0
        for are_changes, group in groupby(reads, lambda read: type(read) is Since):
            end = start + len(list(group))
            if are_changes:
                self.when_kept(partial(give_kept, answers[start:end], start))
            else:
                give(answers[start:end], start)
            start = end

    def _read(self, asker: Handler, reads: list[Read | StoreError]) -> Answers:
        self._reads += len(reads)
        # The answers to one frame are one frame as a rule.
        limit_bytes = max(1, min(PAGE_BYTES, asker.frame_limit_bytes // 4) // len(reads))
        answers: Answers = []
        for read in reads:
            try:
                if isinstance(read, StoreError):
                    raise read
                answers.append((Status.OK, _pack(self._answer_to(read, limit_bytes))))
            except StoreError as error:
                answers.append(refusal(error))
        self._settle_up()
        return answers

    def _answer_to(self, read: Read, limit_bytes: int) -> object:
        """Return the answer for msgpack, about `limit_bytes` long; raises StoreError."""
        store, now_ns = self.store, self._now_ns()
        answer: object = None
        match read:
            case Get(key):
                if (entry := store.get(key)) is not None:
                    due_ns = store.expires_ns(store.operations.canonical(key)) if store.expiring else None
                    answer = entry[0], entry[1], None if due_ns is None else due_ns - now_ns
            case Exists(key):
                answer = store.get(key) is not None
            case Index(key, index):
                answer = store.index(key, index)
            case State():
                answer = store.epoch, store.number, len(store.entries), store.size_bytes
            case Rows(prefix, values):
                answer = self._first_page(prefix, values=values, limit_bytes=limit_bytes)
            case More(number):
                answer = self._page(number, limit_bytes)
            case Since(number):
                changes = store.since(number, PAGE_ROWS, limit_bytes)
                if changes is not None:
                    answer = SinceAnswer(store.epoch, store.number, change_rows(changes, now_ns))
        return answer

    def _first_page(self, prefix: str, *, values: bool, limit_bytes: int) -> Page:
        now_ns = self._now_ns()
        for number, (snapshot, _, until_ns) in list(self._held.items()):
            if until_ns < now_ns:
                del self._held[number]
                self._held_bytes -= snapshot.size_bytes
        if len(self._held) >= SNAPSHOTS_LIMIT:
            raise StoreError(f"{SNAPSHOTS_LIMIT} others read this store as a whole now", CloseCode.TRY_AGAIN_LATER)
        number = next(self._numbers)
        self._snapshots += 1
        snapshot = Snapshot(self.store, prefix)
        self._held[number] = snapshot, values, 0
        self._held_bytes += snapshot.size_bytes
        return self._page(number, limit_bytes)

    def _page(self, number: int, limit_bytes: int) -> Page:
        if number not in self._held:
            raise StoreError("this reading is over: begin again", CloseCode.GONE)
        snapshot, values, _ = self._held.pop(number)
        store, now_ns = self.store, self._now_ns()
        rows = snapshot.page(PAGE_ROWS, limit_bytes)
        if snapshot.is_done:
            number = 0
            self._held_bytes -= snapshot.size_bytes
        else:
            self._held[number] = snapshot, values, now_ns + SNAPSHOT_NS
        shown: list[Row] | list[bytes] = rows
        if not values:
            shown = [row.key for row in rows]
        elif store.expiring:
            shown = [
                row if row.expires_ns is None else row._replace(expires_ns=row.expires_ns - now_ns) for row in rows
            ]
        return Page(store.epoch, number, snapshot.number, store.number, shown)

    # As the outlet of its handler: published commands, without answers.

    def send(self, batches: list[Batch]) -> None:
        for batch in batches:
            for frame in batch.parts():
                if frame.topic == self._write_topic:
                    commands: list[Command | StoreError] = _each(commands_of, frame.flags, bytes(frame.body))
                    self._apply_for_clients(commands, _ignore)

    def _apply_for_clients(
        self,
        commands: list[Command | StoreError],
        then: Then,
        publisher: object = None,
        user: str | None = None,
        asker: Handler | None = None,
    ) -> None:
        """Apply commands of clients, here or at the store that this one follows."""
        if self.forward is None:
            self.apply(commands, then, publisher, user)
            return

        usage = None if asker is None or asker.share is None else asker.share[Resource.PENDING_REQUESTS]
        if usage is not None and not usage.take(len(commands)):
            self.store.refuse(len(commands))
            rejection = StoreError(usage.rejection(len(commands)).text, CloseCode.TRY_AGAIN_LATER)
            then([rejection] * len(commands), None)
            return

        def done(outcomes: list[Change | StoreError | None], error: HubError | None) -> None:
            if usage is not None:
                usage.give_back(len(commands))
            self.store.refuse(sum([isinstance(outcome, StoreError) for outcome in outcomes]))
            then(outcomes, error)

        allowed = [command if isinstance(command, StoreError) else self._allowed(command) for command in commands]
        self.forward(allowed, done, publisher, user)

    def _allowed(self, command: Command) -> Command | StoreError:
        if self._core.memory.is_over and command.kind not in _SHRINKING:
            return StoreError(self._core.memory.refusal(), CloseCode.TRY_AGAIN_LATER)
        return command

    def send_gap(self, lost_messages: int) -> None: ...
    def close(self, code: int, text: str) -> None: ...
    def post(self, items: list[Item]) -> None: ...

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._core.routes.let_tell(self.name, None)
        self._core.detach(self.handler, "the store is closed")
        self._account.charge(-self._charged_bytes)
        self._charged_bytes = 0

    def statistics(self) -> MasterStatistics:
        return MasterStatistics(
            self.store.statistics(),
            self._commands,
            self._reads,
            self._snapshots,
            self._published,
            self._keeper.failures_total,
        )


def _ignore(_: object, __: object) -> None: ...


def _each(decode: Callable[[bytes], list[T]], flags: int, values: bytes) -> list[T | StoreError]:
    """Decode all values of a frame at once; one by one if one of them is invalid."""
    frame = Frame(KIND_MESSAGES, flags, b"", values)
    is_batch = flags & FLAG_BATCH
    if frame.encoding == Encoding.MSGPACK:
        array = array_header(frame.messages) + values[BATCH_COUNT.size :] if is_batch else b"\x91" + values
        try:
            return [*decode(array)]
        except _UNREADABLE as error:
            if not is_batch:
                return [StoreError(f"{_UNREADABLE_TEXT}: {error}")]
    ends = value_ends(frame) if is_batch else None
    if ends is None:
        return [StoreError("the request is not valid msgpack")] * frame.messages
    found: list[T | StoreError] = []
    start = BATCH_COUNT.size
    for end in ends:
        try:
            found += decode(b"\x91" + values[start:end])
        except _UNREADABLE as error:
            found.append(StoreError(f"{_UNREADABLE_TEXT}: {error}"))
        start = end
    return found


def _parts(changes: Sequence[Change]) -> Iterable[Sequence[Change]]:
    if len(changes) * 1_000 < PAGE_BYTES and sum([change.size_bytes for change in changes]) < PAGE_BYTES:
        return (changes,)
    parts: list[list[Change]] = []
    left = 0
    for change in changes:
        left -= change.size_bytes
        if left < 0:
            parts.append([])
            left = PAGE_BYTES - change.size_bytes
        parts[-1].append(change)
    return parts
