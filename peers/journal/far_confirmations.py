"""`FarConfirmations`: what the journal of another hub of the mesh has recorded of messages that have entered here.

```
client ─ CONFIRM ─▶ this hub ─ REQUEST $hub/at/ID/recorded [mark] ──────────▶ that hub, its journal
                             ─ ORIGIN [mark], messages, the way of all others ─▶
       ◀─ recorded ──        ◀───────────── REPLY, once it is committed ──────
```

Messages go the way they go anyway, in their order; a mark in front of them says which they are (`hub.marked`). The
question which of them are recorded has one answer, like each request: a way that is lost, or a time that is over, is an
error. So nothing is confirmed but what the journal has committed, and nobody waits for ever.

Owner: the event loop of a node. Bounds: those who feed it are not read while `WAITING_LIMIT` confirmations are waited
for (`is_behind`). Not here: what the hub that records does (`peers.journal.marks`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Any, Final, NamedTuple

import msgspec

from hub.batch import Batch
from hub.errors import CloseCode, RejectedError
from hub.frame import iterate_frames
from hub.marked import Marked
from hub.request_frame import Reply, Status
from hub.requests.directed import target_at
from hub.topics import printable
from peers.journal.asking import Asking
from peers.journal.marks import ANSWER_MS, RECORDED, Question
from peers.journal.recorder import Answer

__all__ = ["SETTLE_S", "WAITING_LIMIT", "FarConfirmations", "FarConfirmationsStatistics"]

WAITING_LIMIT: Final = 4_096
"""For how many confirmations this hub waits before those who ask for them are not read: about 4 MiB of questions here
and there, and more than a journal that commits every 10 ms confirms in a commit."""

SETTLE_S: Final = 1.0
"""How long the hub waits for confirmations when it stops, seconds."""

_TEXT_CHARACTERS: Final = 1000
"""The most that is told of a text of another hub."""

_WHY = {
    Status.NO_RESPONDER: "it cannot be reached now",
    Status.RESPONDER_GONE: "the way to it was lost; what was published may be recorded or not",
    Status.TIMED_OUT: f"it has not confirmed within {ANSWER_MS // 1000} s; what was published may be recorded or not",
    Status.OVERFLOW: "the way to it is full; what was published may be recorded or not",
}
"""What a status means."""


_CODES = frozenset(map(int, CloseCode))


class FarConfirmationsStatistics(NamedTuple):
    """What was asked of other hubs."""

    pending: int
    """Confirmations that clients here wait for."""
    asked_total: int
    refused_total: int
    """Of these, how many have become errors."""
    pauses_total: int
    """How often somebody's reading was paused, as too many were waited for."""


class FarConfirmations:
    """The confirmations of other hubs' journals, for one hub.

    Args:
        core: Of the hub.
        find: Returns the id of the hub that has a name, or an id; raises `RejectedError` where there is none.
        now_ms: Returns the time of the clock by which requests are timed out, ms.
    """

    def __init__(self, core: Any, find: Callable[[str], bytes], now_ms: Callable[[], int]) -> None:
        self._core = core
        self._find = find
        self._asking = Asking(core, "confirmations", now_ms)
        self._marks = count(1)
        # Those whose reading is paused; all are called, and forgotten, once there is room.
        self._room: dict[Callable[[], None], None] = {}
        # Set once nothing is waited for; None while nobody wants to know.
        self._settled: asyncio.Event | None = None
        self._refused = self._pauses = 0
        self.taken = 0
        """How many were asked for since the start."""

    def statistics(self) -> FarConfirmationsStatistics:
        """Return what was asked so far, and what waits."""
        return FarConfirmationsStatistics(len(self._asking), self.taken, self._refused, self._pauses)

    def ask(self, of: str, batch: Batch, answer: Answer) -> Batch:
        """Ask what the journal of a hub has recorded of a batch that is published next.

        Args:
            of: The name or the id of the hub.
            batch: One frame.
            answer: Called once that is known.

        Returns:
            The batch to publish in place of this one.

        Raises:
            RejectedError: There is no such hub, or several have that name, or it cannot be reached now.
        """
        hub = self._find(of)
        mark = next(self._marks)
        (frame,) = iterate_frames(batch.frames)
        question = Question(self._core.mesh.hub, mark, batch.messages, frame.routing_key)
        self.taken += 1

        def take(reply: Reply) -> None:
            outcome = _outcome(of, reply)
            self._refused += isinstance(outcome, RejectedError)
            answer(outcome)
            self._go_on()

        self._asking.ask(target_at(hub, RECORDED), ANSWER_MS, _pack(question), take)
        return Marked(batch.frames, batch.messages, mark)

    # Back-pressure.

    @property
    def is_behind(self) -> bool:
        """Whether those who ask for confirmations should not be read."""
        return len(self._asking) >= WAITING_LIMIT

    def wait_room(self, resume: Callable[[], None]) -> None:
        """Call `resume` once there is room again."""
        self._pauses += 1
        self._room[resume] = None

    def forget_room(self, resume: Callable[[], None]) -> None:
        """Do not call `resume` any more."""
        self._room.pop(resume, None)

    def _go_on(self) -> None:
        if self._room and len(self._asking) <= WAITING_LIMIT // 2:
            room, self._room = self._room, {}
            for resume in room:
                resume()
        if self._settled is not None and not self._asking:
            self._settled.set()

    async def settle(self) -> None:
        """Wait until all is answered that was asked, for a second at most."""
        if self._asking:
            self._settled = asyncio.Event()
            try:
                async with asyncio.timeout(SETTLE_S):
                    await self._settled.wait()
            except TimeoutError:
                pass


def _outcome(of: str, reply: Reply) -> int | RejectedError:
    """Return the offset of the first message, or why there is none."""
    name = printable(of)
    told: Any = None
    if not reply.flags:
        try:
            told = msgspec.msgpack.decode(reply.values)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            told = None
    if reply.status != Status.OK:
        why = _WHY.get(Status(reply.status)) or (
            told[:_TEXT_CHARACTERS] if isinstance(told, str) else "that has failed"
        )
        code = CloseCode.NOT_ALLOWED if reply.status == Status.NOT_ALLOWED else CloseCode.TRY_AGAIN_LATER
        return RejectedError(code, f"journal of hub {name}: {why}")
    match told:
        case bool():
            pass
        case int() if told >= 0:
            return told
        case [int() as number, str() as text]:
            known = number if number in _CODES else CloseCode.JOURNAL_FAILED
            return RejectedError(known, f"journal of hub {name}: {text[:_TEXT_CHARACTERS]}")
    return RejectedError(CloseCode.JOURNAL_FAILED, f"journal of hub {name}: that was no answer")


_pack = msgspec.msgpack.Encoder().encode
