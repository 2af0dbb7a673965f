"""`Requests`: exactly one answer to each request.

```
requester ── ask ──▶ services or names: one of them ── post ──▶ service
    ▲                       │ no service, too big, too many             │
    └──── post ─── status ◀─┴──── time-out, service gone ◀── Block ─┤
    └──── post ─── reply  ◀───────────────────────────────── answer ┘
```

Every request that is taken is pending or was answered, once; only the service that was chosen can answer it, or the
link that leads to it. Times are arguments, and `wake_at` is called with the next due time. A batch costs about as much
as one request. Requests of a handler that leaves are settled in steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import repeat
from typing import NamedTuple

from hub.errors import CloseCode, ClosedError, InvalidTopicError, RejectedError
from hub.handlers.delivery import RemoteHub, Role
from hub.handlers.handler import Handler
from hub.handlers.holdings import Allowance
from hub.limits import RequestLimits
from hub.messages.batch import value_ends
from hub.messages.frame import BATCH_COUNT, BATCH_LIMIT_MESSAGES, FLAG_BATCH, FLAG_SHARED, KIND_MESSAGES, Frame
from hub.messages.request_frame import FLAG_NAMED, TRANSACTIONS, Reply, Request, Status, as_bytes, failure
from hub.names.claim import Owner
from hub.policy.policy import not_granted
from hub.requests.hub_services import HubServices, Questions, find_question, is_directed
from hub.requests.services import Block, Deadlines, OwnService, Participant, Services
from hub.scheduling.memory import Memory
from hub.scheduling.scheduler import Scheduler
from hub.topics import RESERVED, printable


@dataclass(slots=True)
class RequestStatistics:
    """Requests at one moment. Totals count from the start of the hub, in requests, not in frames."""

    services: int = 0  # How many prefixes are served, here or at peer hubs
    pending: int = 0
    asked_total: int = 0  # Requests that were taken from clients and links, without refused ones
    answered: list[int] = field(default_factory=lambda: [0] * len(Status))  # Answered requests, at their status
    abandoned_total: int = 0  # Requests whose requester left before the answer
    duplicate_total: int = 0  # Requests that were refused because their transaction id was pending
    late_total: int = 0  # Replies that came when their request was not pending any more
    unasked_total: int = 0  # Replies to requests that the service never got
    refused_total: int = 0  # Requests without the right to ask, and replies with a status of the hub itself

    @property
    def answered_total(self) -> dict[str, int]:
        return {status.name.lower(): self.answered[status] for status in Status}


@dataclass(slots=True, eq=False)
class AnswerRun:
    """Consecutive requests of one requester that are answered together."""

    asker: Participant
    first: int
    count: int
    place: int  # Place of the first of them in the reply that they are cut from


class AnswerRuns:
    """Runs of answers, in the order in which they were found."""

    __slots__ = ("requests", "runs")

    def __init__(self) -> None:
        self.runs: list[AnswerRun] = []
        self.requests = 0  # How many requests all runs together have

    def add(self, asker: Participant, first: int, count: int, place: int = 0) -> None:
        """Add requests: to the last run, if they go on from it."""
        self.requests += count
        last = self.runs[-1] if self.runs else None
        if (
            last is not None
            and last.asker is asker
            and (last.first + last.count) % TRANSACTIONS == first
            and (place == last.place + last.count or not place)
            and last.count + count <= BATCH_LIMIT_MESSAGES
        ):
            last.count += count
        else:
            self.runs.append(AnswerRun(asker, first, count, place))


def cut_values(reply: Reply, pieces: list[tuple[int, int]]) -> list[tuple[bytes, int]] | None:
    """Return values and flags for each piece (place of the first value, and how many); None if they are invalid."""
    if not reply.flags & FLAG_BATCH:
        return [(reply.values, reply.flags) for _ in pieces]
    plain = reply.flags & ~FLAG_BATCH
    if reply.status != Status.OK:  # one value, the reason, stands for all
        reason = reply.values[BATCH_COUNT.size :]
        return [
            (reason, plain) if count == 1 else (BATCH_COUNT.pack(count) + reason, reply.flags) for _, count in pieces
        ]
    ends = value_ends(Frame(KIND_MESSAGES, reply.flags, b"", reply.values)) if pieces else []
    if ends is None:
        return None
    ends.append(BATCH_COUNT.size)  # where the first begins: behind the end of the "last before it"
    return [
        (reply.values[ends[place - 1] : ends[place]], plain)
        if count == 1
        else (BATCH_COUNT.pack(count) + reply.values[ends[place - 1] : ends[place + count - 1]], reply.flags)
        for place, count in pieces
    ]


_RESERVED = RESERVED.encode()
_EXPIRED_AT_ONCE = 200  # Blocks that time out together, so that those of one requester are one answer: about 1 ms
_EXPIRED_PER_STEP = 8

# Blocks of a handler that left which are settled together, so that answers to one requester travel as one frame
_LEAVING_AT_ONCE = 100
_PENDING_BYTES = 500  # Memory of a pending request that came alone
_CHARGED_TOGETHER = 256  # Memory is charged once for about so many pending requests, by the ids that a service gets

# How much less time a request has behind each link that it crosses: the hub nearest to the service gives up first, and
# a request that goes around while hubs know different graphs comes to an end
_LESS_PER_LINK_MS = 10
_SERVICE_STATUSES = (Status.OK, Status.FAILED)
_KNOWN_STATUSES = frozenset(map(int, Status))


def _nowhere(_: bytes) -> None: ...


class Refused(NamedTuple):
    """Why some requests or replies of a frame were rejected without an answer."""

    code: int
    text: str
    requests: int  # How many requests or replies it is about


class Requests:
    """All requests of one hub, and the services that answer them."""

    def __init__(  # noqa: PLR0913 -- all that it works with
        self,
        scheduler: Scheduler,
        wake_at: Callable[[int], object],
        limits: RequestLimits,
        services_allowed: Allowance[str],
        memory: Memory,
        *,
        owner_of: Callable[[bytes], Owner | None],
        hub_services: HubServices,
        hub: bytes = b"",
        way_to: Callable[[bytes], tuple[int, Handler] | None] = _nowhere,
    ) -> None:
        self._scheduler, self._limits = scheduler, limits
        self._timeout_ms = int(limits.timeout_s * 1000)
        self._timeout_max_ms = int(limits.timeout_max_s * 1000)
        # Every handler that has asked or served something, until it leaves.
        self._participants: dict[Handler, Participant] = {}
        self.services_allowed = services_allowed
        self.services = Services(services_allowed, self._link_to)
        self._way_to = way_to
        self._deadlines = Deadlines(wake_at)
        # How many requests are pending, of all requesters: raised when one is passed on, lowered when it is settled.
        self._pending = 0
        self._account = memory.account("requests")
        self.counters = RequestStatistics()  # Services and pending requests are counted elsewhere
        # Called with a handler, a reason and a number, where so many of its requests are not allowed.
        self.on_not_allowed: Callable[[Handler, str, int], object] = _ignore
        self._owner_of = owner_of
        self.hub_services = hub_services
        self._hub = hub
        self.directed: dict[str, Questions] = {}  # Questions of hubs of the mesh to each other, by kind

    # Services.

    def serving(self, handler: Handler, prefixes: list[str]) -> Iterator[None]:
        """Let a handler serve each prefix, all or none, in steps; errors come with the first step.

        A prefix that is served twice must be taken back twice. The rest is dropped when the handler leaves.

        Raises:
            ClosedError: The handler has left.
            InvalidTopicError: One of them is no prefix.
            RejectedError: One is the hub's own, or not granted; there would be too many, or this kind of handler cannot
                serve. Prefixes that a peer hub may take are served all the same.
        """
        if handler.closed:
            raise ClosedError("the handler is not attached to this hub")
        if handler.poster is None:
            raise RejectedError(CloseCode.NOT_ALLOWED, "requests cannot be sent over this kind of connection")
        yield from self.services.serving(self._participant(handler), prefixes)

    def unserving(self, handler: Handler, prefixes: list[str]) -> Iterator[None]:
        participant = self._participants.get(handler)
        if participant is not None:
            yield from self.services.unserving(participant, prefixes)

    def serve_here(self, handler: Handler, prefix: str, service: OwnService) -> None:
        """Let a service of this process answer, with a handler of its own.

        It is found as others are, here and from other hubs, but it is called at once, gets the handler that asks, and
        its requests are never pending. Errors are those of `serving`.
        """
        for _ in self.serving(handler, [prefix]):
            pass
        self._participant(handler).own = service

    def served_by(self, handler: Handler) -> Iterable[str]:
        participant = self._participants.get(handler)
        return () if participant is None else participant.served

    def take_away(self, handler: Handler, prefix: str) -> None:
        """Let a handler serve a prefix no more. It may still answer pending requests."""
        participant = self._participants.get(handler)
        if participant is not None:
            self.services.take_away(participant, prefix)

    def _link_to(self, hub: bytes) -> tuple[int, Participant] | None:
        way = self._way_to(hub)
        return None if way is None else (way[0], self._participant(way[1]))

    # Requests.

    def ask(self, handler: Handler, request: Request, now_ms: int) -> Refused | None:
        """Pass a request, with the requester's own ids, on, or answer it with a status.

        Returns:
            Why it was rejected without an answer, or None.
        """
        count = request.requests
        if handler.closed:
            return None
        if handler.poster is None:
            self.counters.refused_total += count
            return Refused(CloseCode.NOT_ALLOWED, "this kind of connection cannot send requests", count)
        asker = self._participant(handler)
        if not asker.asked.is_free(request.first, count):
            self.counters.duplicate_total += count
            return Refused(CloseCode.BAD_DATA, "REQUEST: a transaction id that is pending already", count)
        self.counters.asked_total += count
        if self._pending + count > self._limits.pending_total:
            text = f"{self._pending} requests are pending at this hub, the limit is {self._limits.pending_total}"
            self._fail(asker, request.first, count, Status.OVERFLOW, text)
        elif not asker.is_link and asker.asked_requests + count > self._limits.pending:
            text = f"{asker.asked_requests} of your requests are pending, the limit is {self._limits.pending}"
            self._fail(asker, request.first, count, Status.OVERFLOW, text)
        elif handler.has_rights and (text := self._not_granted(handler, request)):
            self.on_not_allowed(handler, text, count)
            self._fail(asker, request.first, count, Status.NOT_ALLOWED, text)
        elif asker.usage is not None and asker.usage.room < count:
            asker.usage.refuse()
            self._fail(asker, request.first, count, Status.OVERFLOW, asker.usage.rejection(count).text)
        elif request.target.startswith(_RESERVED) and not request.flags & FLAG_NAMED:
            if is_directed(request):
                self._ask_hub(asker, request, count, now_ms)
            else:
                self.hub_services.answer(handler, request, partial(self._reply_itself, asker, request))
        else:
            self._ask_one(asker, request, count, now_ms)
        return None

    def _not_granted(self, handler: Handler, request: Request) -> str:
        """Return why a handler may not ask that; empty if it may. An admin may ask the hub itself everything.

        Requests of hubs to hubs need no right: only hubs may. Nor do requests that a service of the hub
        judges by other grants.
        """
        rights = handler.rights
        if rights is None or rights.may_ask(request.target, as_peer=handler.is_peer) or is_directed(request):
            return ""
        is_own = request.target.startswith(_RESERVED) and not request.flags & FLAG_NAMED
        if is_own and (rights.is_admin or self.hub_services.judges_itself(request.target)):
            return ""
        return not_granted(rights, handler.acts.requesting, request.target.decode(errors="replace")).text

    def _reply_itself(self, asker: Participant, request: Request, status: Status, values: bytes, flags: int) -> None:
        if status is Status.NOT_ALLOWED:
            self.on_not_allowed(
                asker.handler,
                f"request {printable(request.target.decode(errors='replace'))}: not allowed",
                request.requests,
            )
        self._reply(asker, Reply(request.first, status, values, flags), request.requests)

    def _ask_one(self, asker: Participant, request: Request, count: int, now_ms: int) -> None:
        responder: Participant | None
        try:
            if request.flags & FLAG_NAMED:
                responder = self._owner(asker, request.target)
            else:
                responder = self.services.choose(request.target, asker)
        except InvalidTopicError as error:
            self._fail(asker, request.first, count, Status.NO_RESPONDER, str(error))
            return
        if responder is None:
            self._fail(asker, request.first, count, Status.NO_RESPONDER, _no_service_text(request))
            return
        if responder.own is not None:
            responder.own(asker.handler, request, partial(self._reply, asker))
            return
        self._pass_to(responder, asker, request, count, now_ms)

    def _ask_hub(self, asker: Participant, request: Request, count: int, now_ms: int) -> None:
        """Ask the hub of the mesh that the target names: answer it here, or pass it on to the link that leads there."""
        handler = asker.handler
        if not handler.is_link and handler.role is not Role.LOCAL:
            text = f"request {printable(request.target.decode(errors='replace'))}: hubs alone ask in this way"
            self.on_not_allowed(handler, text, count)
            self._fail(asker, request.first, count, Status.NOT_ALLOWED, text)
            return
        try:
            hub, questions, values = find_question(self.directed, request)
            if hub == self._hub:
                answer = partial(self._answer_directed, asker, request.first)
                questions.answer(handler, values, answer)
                return
            way = self._link_to(hub)
            if way is None or way[1] is asker or way[1].gone:
                self._fail(asker, request.first, 1, Status.NO_RESPONDER, "no way leads there now")
                return
            values = questions.pass_on(handler, way[1].handler, values)
        except RejectedError as error:
            status = Status.NOT_ALLOWED if error.code == CloseCode.NOT_ALLOWED else Status.FAILED
            self._fail(asker, request.first, count, status, error.text)
            return
        self._pass_to(way[1], asker, request._replace(values=values, flags=0), 1, now_ms)

    def _answer_directed(self, asker: Participant, first: int, status: Status, value: bytes) -> None:
        self._reply(asker, Reply(first, status, value), 1)

    def _pass_to(self, responder: Participant, asker: Participant, request: Request, count: int, now_ms: int) -> None:
        timeout_ms = min(request.timeout_ms or self._timeout_ms, self._timeout_max_ms)
        if asker.is_link:
            timeout_ms = max(1, timeout_ms - _LESS_PER_LINK_MS)
        issued = responder.take_ids(count)
        bucket = self._deadlines.bucket(now_ms + timeout_ms)
        block = Block(asker, responder, request.first, issued, count, bucket)
        block.enter()
        self._pending += count
        if asker.usage is not None:
            asker.usage.add(count)
        if not issued % _CHARGED_TOGETHER:
            self._account.update(self._pending * _PENDING_BYTES)
        handler = responder.handler
        if handler.post(Request(request.target, issued, timeout_ms, request.values, request.flags)):
            return
        block.leave()
        self._settle(asker, count)
        if handler.takes(request):
            text = "the service does not keep up: its queue is full"
            self._fail(asker, request.first, count, Status.OVERFLOW, text)
        else:
            text = f"a request of {request.size_bytes} bytes, the service accepts {handler.frame_limit_bytes}"
            self._fail(asker, request.first, count, Status.TOO_BIG, text)

    def _owner(self, asker: Participant, name: bytes) -> Participant | None:
        owner = self._owner_of(name)
        if isinstance(owner, RemoteHub):
            way = self._link_to(owner.hub)
            return None if way is None or way[1] is asker or way[1].gone else way[1]
        if owner is None or owner.poster is None or owner.closed:
            return None
        return self._participant(owner)

    # Replies.

    def answer(self, handler: Handler, reply: Reply) -> Refused | None:
        """Pass a service's reply, with the hub's ids, on to the requester; return its fault, or None."""
        status, count = reply.status, reply.requests
        if status not in (_KNOWN_STATUSES if handler.is_link else _SERVICE_STATUSES):
            self.counters.refused_total += count
            return Refused(CloseCode.BAD_DATA, f"REPLY: status {status}, a service says 0 (OK) or 1 (FAILED)", count)
        participant = self._participants.get(handler)
        if participant is None:
            self.counters.unasked_total += count
            return _unasked(count)
        if count == 1:
            block = participant.owed.singles.get(reply.first)
            if block is not None:
                block.leave()
                asker = block.asker
                self._pending -= 1  # as `_settle`, with a call less for each request
                if asker.usage is not None:
                    asker.usage.give_back(1)
                self._reply(asker, Reply(block.first, status, reply.values, reply.flags), 1)
                return None
        return self._answer_many(participant, reply, count)

    def _answer_many(self, participant: Participant, reply: Reply, count: int) -> Refused | None:
        """Pass on the pending ones of so many replies in a row: to each requester, those to its own requests."""
        runs = AnswerRuns()
        for place, block, start, stop in _blocks(participant, reply.first, count):
            for begin, end in block.settle(start, stop):
                self._settle(block.asker, end - begin)
                runs.add(block.asker, (block.first + begin) % TRANSACTIONS, end - begin, place + begin - start)
        refused = self._unpended(participant, reply.first, count, runs.requests)
        whole = len(runs.runs) == 1 and runs.requests == count
        if whole:
            run = runs.runs[0]
            self._reply(run.asker, reply._replace(first=run.first), count)
            return refused
        plain = as_bytes(reply) if reply.flags & FLAG_SHARED else reply
        pieces = None if plain is None else cut_values(plain, [(run.place, run.count) for run in runs.runs])
        if pieces is None:
            text = "the service's reply is not a batch with a value for each request"
            for run in runs.runs:
                self._fail(run.asker, run.first, run.count, Status.FAILED, text)
            return Refused(CloseCode.BAD_DATA, f"REPLY: {text}", count)
        for run, (values, flags) in zip(runs.runs, pieces, strict=True):
            self._reply(run.asker, Reply(run.first, reply.status, values, flags), run.count)
        return refused

    def _settle(self, asker: Participant, count: int) -> None:
        self._pending -= count
        if asker.usage is not None:
            asker.usage.give_back(count)

    def _unpended(self, participant: Participant, first: int, count: int, settled: int) -> Refused | None:
        lost = count - settled
        if not lost:
            return None
        if participant.was_issued(first) or settled:
            self.counters.late_total += lost
            return Refused(CloseCode.BAD_DATA, "REPLY: too late, its request is not pending any more", lost)
        self.counters.unasked_total += lost
        return _unasked(lost)

    def _reply(self, asker: Participant, reply: Reply, count: int) -> None:
        handler = asker.handler
        if handler.post(reply):
            self.counters.answered[reply.status] += count
        elif handler.takes(reply):
            self._fail(asker, reply.first, count, Status.OVERFLOW, "your queue is full: read faster")
        else:
            text = f"a reply of {reply.size_bytes} bytes, you take {handler.frame_limit_bytes}"
            self._fail(asker, reply.first, count, Status.TOO_BIG, text)

    def _fail(self, asker: Participant, first: int, count: int, status: Status, text: str) -> None:
        """Answer a requester with a reason; this answer is always kept."""
        if asker.handler.post(failure(first, count, status, text), keep=True):
            self.counters.answered[status] += count
        else:
            self.counters.abandoned_total += count

    # Time-outs, and handlers that leave.

    @property
    def next_due_ms(self) -> int | None:
        """Time at which something is due next; None if nothing is pending."""
        return self._deadlines.next_due_ms

    def expire(self, now_ms: int) -> None:
        """Answer due requests with a time-out, in this turn and the next ones; then `wake_at` is called."""
        self._scheduler.add(Requests, self._expiring(now_ms))

    def _expiring(self, now_ms: int) -> Iterator[None]:
        while blocks := self._deadlines.take(now_ms, _EXPIRED_AT_ONCE):
            self._fail_all(blocks, Status.TIMED_OUT, "no answer in time")
            yield from repeat(None, 1 + len(blocks) // _EXPIRED_PER_STEP)

    def has_pending(self, handler: Handler) -> bool:
        participant = self._participants.get(handler)
        return participant is not None and bool(participant.asked_requests or participant.owed_requests)

    def forget(self, handler: Handler) -> Iterator[None]:
        """Ask and answer nothing more for a handler that has left; return the steps that settle its requests."""
        self.hub_services.forget(handler)
        participant = self._participants.pop(handler, None)
        if participant is None:
            return iter(())
        participant.gone = True
        return self._settling(participant, participant.asked.blocks() + participant.owed.blocks())

    def _settling(self, participant: Participant, blocks: list[Block]) -> Iterator[None]:
        yield from self.services.forgetting(participant)
        for start in range(0, len(blocks), _LEAVING_AT_ONCE):
            some = blocks[start : start + _LEAVING_AT_ONCE]
            self._settle_left(participant, some)
            yield from repeat(None, len(some))

    def _settle_left(self, participant: Participant, blocks: list[Block]) -> None:
        owed: list[Block] = []
        for block in blocks:
            if block.responder is participant:
                owed.append(block)
            elif block.left:
                self.counters.abandoned_total += block.left
                self._settle(block.asker, block.left)
                block.leave()
        self._fail_all(owed, Status.RESPONDER_GONE, "the service was lost before it answered")

    def _fail_all(self, blocks: list[Block], status: Status, text: str) -> None:
        runs = AnswerRuns()
        for block in blocks:
            if block.left:
                for begin, end in block.pending():
                    runs.add(block.asker, (block.first + begin) % TRANSACTIONS, end - begin)
                self._settle(block.asker, block.left)
                block.leave()
        for run in runs.runs:
            self._fail(run.asker, run.first, run.count, status, text)

    # Statistics.

    def statistics(self) -> RequestStatistics:
        answered = list(self.counters.answered)
        return replace(self.counters, services=len(self.services), pending=self._pending, answered=answered)

    def _participant(self, handler: Handler) -> Participant:
        participant = self._participants.get(handler)
        if participant is None:
            participant = self._participants[handler] = Participant(handler)
        return participant


def _blocks(participant: Participant, first: int, count: int) -> Iterator[tuple[int, Block, int, int]]:
    """Yield blocks of a service's requests with these ids: place among them, block, and its part."""
    owed = participant.owed
    place = 0
    while place < count:
        issued = (first + place) % TRANSACTIONS
        block = owed.singles.get(issued)
        if block is not None:
            yield place, block, 0, 1
            place += 1
            continue
        found = owed.covering(issued)
        if found is None:
            place += 1
            continue
        block, start = found
        stop = min(block.count, start + count - place)
        yield place, block, start, stop
        place += stop - start


def _ignore(_: Handler, __: str, ___: int) -> None: ...


def _unasked(count: int) -> Refused:
    return Refused(CloseCode.BAD_DATA, "REPLY: no pending request has this id", count)


def _no_service_text(request: Request) -> str:
    return "no client owns this name" if request.flags & FLAG_NAMED else "no service for this topic"
