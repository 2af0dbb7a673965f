"""`RemoteConfirmations`: confirmations by the journal of another hub, for messages published here.

```
client ─ CONFIRM ─▶ this hub ─ REQUEST $hub/at/ID/recorded [mark] ──────────▶ that hub, its journal
                             ─ ORIGIN [mark], messages, routed as usual ─▶
       ◀─ recorded ──        ◀───────────── REPLY, once it is committed ──────
```

A mark in front of the messages identifies them. The request has one answer: a lost way or a timeout is an error. So
only committed messages are confirmed. The recording hub answers by `Marks`.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Annotated, Any, Final, cast

import msgspec

from hub.core import Core
from hub.errors import CloseCode, RejectedError
from hub.handlers.handler import Handler
from hub.messages.batch import Batch
from hub.messages.frame import HEADER, HEADER_BYTES, KIND_MESSAGES, Origin, iterate_frames
from hub.messages.request_frame import Reply, Status
from hub.requests.hub_services import Answer as Respond
from hub.requests.hub_services import Questions, target_at
from hub.topics import printable
from peers.journal.recorder import Answer, Recorder
from peers.journal.remote_journals import Asking, Recording
from peers.wire.control import MALFORMED, reason_of

RECORDED: Final = "recorded"  # the service name between hubs (`hub.requests.hub_services`)
ANSWER_MS: Final = 30_000  # how long an answer may take, ms: the default of all requests
EXPECTED_LIMIT: Final = 65_536  # questions of other hubs: sixteen hubs at their limits
SEEN_LIMIT: Final = 1_024  # most marked batches remembered before a hub asks about them; the oldest is forgotten


_KEY_AT: Final = 4  # where the key begins in a routing key, which is the header from its kind on, and the key


class Question(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Asks whether a batch is recorded."""

    hub: Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]  # the hub where it was published
    mark: Annotated[int, msgspec.Meta(ge=1)]
    messages: Annotated[int, msgspec.Meta(ge=1)]
    key: bytes


@dataclass(slots=True, eq=False)
class _Fate:
    """The outcome of one batch."""

    due_ms: int
    came: int = 0
    messages: int = 0  # expected messages; 0 while no hub has asked
    outcome: int | RejectedError | None = None
    reply: Respond | None = None  # takes the answer; None while no hub has asked, and once it is given


class Marks:
    """Outcomes of marked batches, for other hubs."""

    def __init__(self, core: Core, now_ms: Callable[[], int], journal: Callable[[], Recording]) -> None:
        self._core = core
        self._now_ms = now_ms
        self._journal = journal
        # Hub → mark → a batch that was asked about and has not come, in the order of the questions, which is about that
        # of the marks.
        self._expected: dict[bytes, dict[int, _Fate]] = {}
        # Batches that have come, and no hub has asked about; the oldest first.
        self._seen: OrderedDict[tuple[bytes, int], _Fate] = OrderedDict()
        self.expected = 0
        self.confirmed_total = self.refused_total = 0
        core.requests.directed[RECORDED] = Questions(self._ask, lambda _asker, _link, value: value)

    def tick(self) -> None:
        now_ms = self._now_ms()
        for hub, fates in list(self._expected.items()):
            while fates and (first := next(iter(fates.values()))).due_ms <= now_ms:
                del fates[next(iter(fates))]
                text = "it did not come within the time there was"
                self._decide(first, RejectedError(CloseCode.TRY_AGAIN_LATER, text))
            if not fates:
                del self._expected[hub]

    def _ask(self, _link: Handler, value: bytes, reply: Respond) -> None:
        self.expected += 1
        try:
            question = self._checked(value)
        except RejectedError as error:
            self._reply(error, reply)
            return
        fate = self._seen.pop((question.hub, question.mark), None)
        if fate is None:
            fate = _Fate(self._now_ms() + ANSWER_MS)
            self._expected.setdefault(question.hub, {})[question.mark] = fate
        fate.messages, fate.reply = question.messages, reply
        self._answer(fate)

    def _checked(self, value: bytes) -> Question:
        journal = self._journal()
        if not journal.id:
            raise RejectedError(CloseCode.NOT_ALLOWED, "that hub has no journal of its own")
        try:
            question = msgspec.msgpack.decode(value, type=Question)
        except MALFORMED as error:
            raise RejectedError(CloseCode.BAD_DATA, f"no question: {printable(str(error))}") from error
        if question.mark in self._expected.get(question.hub, ()):
            raise RejectedError(CloseCode.BAD_DATA, "that mark was asked about before")
        key = question.key
        _, kind, _, key_bytes = HEADER.unpack_from((bytes(HEADER_BYTES - _KEY_AT) + key).ljust(HEADER_BYTES, b"\0"))
        if len(key) <= _KEY_AT or kind != KIND_MESSAGES or key_bytes != len(key) - _KEY_AT:
            raise RejectedError(CloseCode.BAD_DATA, "no routing key of messages")
        if self.expected > EXPECTED_LIMIT:
            text = f"{EXPECTED_LIMIT} confirmations for other hubs wait already, which is the limit"
            raise RejectedError(CloseCode.TRY_AGAIN_LATER, text)
        recorder = cast("Recorder", journal.recorder)  # it has an id
        if not recorder.records(self._core.routes.of(question.key)):
            raise RejectedError(CloseCode.NOT_ALLOWED, "topic not recorded there; see journal.topics of that hub")
        recorder.on_marked = self._come
        return question

    def _decide(self, fate: _Fate, outcome: int | RejectedError) -> None:
        if fate.outcome is None:
            fate.outcome = outcome
            self._answer(fate)

    def _answer(self, fate: _Fate) -> None:
        outcome, reply = fate.outcome, fate.reply
        if reply is None or outcome is None:
            return
        fate.reply = None
        if not isinstance(outcome, RejectedError) and fate.came != fate.messages:
            came = f"{fate.came} of {fate.messages} messages came together"
            text = f"{came}; the others were lost on the way, or are apart"
            outcome = RejectedError(CloseCode.JOURNAL_FAILED, text)
        self._reply(outcome, reply)

    def _reply(self, outcome: int | RejectedError, reply: Respond) -> None:
        self.expected -= 1
        if isinstance(outcome, RejectedError):
            self.refused_total += 1
            reply(Status.OK, _pack([int(outcome.code), outcome.text]))
        else:
            self.confirmed_total += 1
            reply(Status.OK, _pack(outcome))

    def _come(self, origin: Origin, messages: int) -> Answer:
        """Handle a recorded batch with a mark; return the callback for its commit or failure."""
        fates = self._expected.get(origin.hub, {})
        # Messages of one hub come in order: those of its earlier marks are lost.
        while fates and (first := next(iter(fates))) < origin.mark:
            text = "not recorded: it was lost on the way"
            self._decide(fates.pop(first), RejectedError(CloseCode.JOURNAL_FAILED, text))
        fate = fates.pop(origin.mark, None)
        if fate is None:
            fate = self._seen[origin.hub, origin.mark] = _Fate(0)
            if len(self._seen) > SEEN_LIMIT:
                self._seen.popitem(last=False)
        fate.came += messages
        return partial(self._decide, fate)


_pack = msgspec.msgpack.Encoder().encode


WAITING_LIMIT: Final = 4_096  # before publishers are not read: more than a journal confirms in one commit
SETTLE_S: Final = 1.0  # how long a stopping hub waits for confirmations, seconds
_TEXT_CHARACTERS: Final = 1000  # most characters of another hub's text that are passed on
_WHY = {
    Status.NO_RESPONDER: "it cannot be reached now",
    Status.RESPONDER_GONE: "the path to it was lost; the messages may be recorded or not",
    Status.TIMED_OUT: f"it has not confirmed within {ANSWER_MS // 1000} s; the messages may be recorded or not",
    Status.OVERFLOW: "the path to it is full; the messages may be recorded or not",
}


_CODES = frozenset(map(int, CloseCode))


class Marked(Batch):
    """A batch with a mark in its origin, which goes before it on every link.

    Hubs on the way pass it on unchanged. A part of it, cut off by a full queue, has the same mark and fewer messages.
    The mark is unique among the batches of this hub, 1 to 2⁶⁴ - 1.
    """

    __slots__ = ("_entered", "_mark")

    def __init__(self, frames: bytes, messages: int, mark: int) -> None:
        self._mark = mark
        self._entered: Origin | None = None
        super().__init__(frames, messages)

    @property
    def origin(self) -> Origin | None:
        return self._entered

    @origin.setter
    def origin(self, origin: Origin | None) -> None:
        self._entered = None if origin is None else origin._replace(mark=self._mark)


class RemoteConfirmations:
    """Confirmations of other hubs' journals.

    `find` returns the id of a hub by its name, or raises `RejectedError`.
    """

    def __init__(self, core: Any, find: Callable[[str], bytes], now_ms: Callable[[], int]) -> None:
        self._core = core
        self._find = find
        self._asking = Asking(core, "confirmations", now_ms)
        self._marks = count(1)
        self._room: dict[Callable[[], None], None] = {}  # callbacks of paused publishers, called once there is room
        self._settled: asyncio.Event | None = None  # set once nothing is pending; None without a waiting caller
        self.refused_total = self.pauses_total = 0  # confirmations that were errors; how often a publisher was paused
        self.taken = 0

    @staticmethod
    def position() -> None:
        """Return None: offsets of the other hub are not known here."""

    def ask(self, of: str, batch: Batch, answer: Answer) -> Batch:
        """Ask for the confirmation of a batch of one frame; return the marked batch. Raises `RejectedError`."""
        hub = self._find(of)
        mark = next(self._marks)
        (frame,) = iterate_frames(batch.frames)
        question = Question(self._core.mesh.hub, mark, batch.messages, frame.routing_key)
        self.taken += 1

        def take(reply: Reply) -> None:
            outcome = _outcome(of, reply)
            self.refused_total += isinstance(outcome, RejectedError)
            answer(outcome)
            self._go_on()

        self._asking.ask(target_at(hub, RECORDED), ANSWER_MS, _pack(question), take)
        return Marked(batch.frames, batch.messages, mark)

    @property
    def pending(self) -> int:
        return len(self._asking)

    @property
    def is_behind(self) -> bool:
        return len(self._asking) >= WAITING_LIMIT

    def wait_room(self, resume: Callable[[], None]) -> None:
        self.pauses_total += 1
        self._room[resume] = None

    def forget_room(self, resume: Callable[[], None]) -> None:
        self._room.pop(resume, None)

    def _go_on(self) -> None:
        if self._room and len(self._asking) <= WAITING_LIMIT // 2:
            room, self._room = self._room, {}
            for resume in room:
                resume()
        if self._settled is not None and not self._asking:
            self._settled.set()

    async def settle(self) -> None:
        if self._asking:
            self._settled = asyncio.Event()
            with suppress(TimeoutError):
                async with asyncio.timeout(SETTLE_S):
                    await self._settled.wait()


def _outcome(of: str, reply: Reply) -> int | RejectedError:
    journal = f"journal of hub {printable(of)}"
    if reply.status != Status.OK:
        why = _WHY.get(Status(reply.status)) or reason_of(reply)[:_TEXT_CHARACTERS] or "that has failed"
        code = CloseCode.NOT_ALLOWED if reply.status == Status.NOT_ALLOWED else CloseCode.TRY_AGAIN_LATER
        return RejectedError(code, f"{journal}: {why}")
    told: Any = None
    with suppress(*MALFORMED):
        told = None if reply.flags else msgspec.msgpack.decode(reply.values)
    match told:
        case bool():
            pass
        case int() if told >= 0:
            return told
        case [int() as number, str() as text]:
            known = number if number in _CODES else CloseCode.JOURNAL_FAILED
            return RejectedError(known, f"{journal}: {text[:_TEXT_CHARACTERS]}")
    return RejectedError(CloseCode.JOURNAL_FAILED, f"{journal}: that was no answer")
