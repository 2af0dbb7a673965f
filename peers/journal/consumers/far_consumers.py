"""`FarConsumers`: the named consumers of the hub whose journal the clients of this one use (`journal.of`).

```
client ─ $hub/consumers/take ─▶ this hub ─ REQUEST $hub/at/ID/consumers ─▶ the hub that records
       ◀──────── rows ────────           ◀─────────── REPLY ────────────
```

Nothing is kept here but who has asked: positions, and who has which message, are with the journal. So an answer, or an
acknowledgement, that a link has lost is a message that comes again. Where the way is lost, whoever asks is told that
the service is gone, at once; clients then ask again until it is there.

Owner: the event loop of a node. Invariants: each question has one answer; what was read for somebody whose rights have
changed meanwhile is not given to him: he is told that he is no member any more, and joins again, which is judged. That
a client has left is said until it was heard. Bounds: those of requests. Cost: a request for each, as it came:
3 µs of CPU a message here, as pieces are read and written again; nothing more at the hub that records.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import msgspec

from hub.batch import decode_values
from hub.core import Core
from hub.errors import CloseCode, HubError, RejectedError, RequestError
from hub.frame import BATCH_COUNT, FLAG_BATCH, KIND_MESSAGES, Frame
from hub.handler import Handler
from hub.policy.policy import Action
from hub.request_frame import Reply, Status
from hub.requests.directed import Answer, Questions, target_at
from hub.requests.hub_services import Later, is_admin
from hub.topics import printable
from peers.journal.asking import Asking
from peers.journal.consumers.for_hubs import (
    ANSWER_MS,
    CONSUMERS_TOPIC,
    GONE,
    QUESTIONS,
    WHAT,
    Question,
    encode_question,
    granted_by,
    pass_on,
)
from peers.journal.consumers.statistics import FarConsumersStatistics

__all__ = ["FarConsumers"]

_TEXT_CHARACTERS: Final = 1000
"""The most that is told of a text of another hub."""

_AS_IT_IS = frozenset({Status.FAILED, Status.OVERFLOW, Status.NOT_ALLOWED, Status.TOO_BIG})
"""What the other hub says of a question; all else says that the way to it is lost."""

_LOST = frozenset({Status.OVERFLOW, Status.NO_RESPONDER, Status.RESPONDER_GONE, Status.TIMED_OUT})


class FarConsumers:
    """The consumers of another hub, for one hub.

    Args:
        core: Of the hub.
        of: The name or the id of the hub whose consumers they are; empty for none: then questions are only passed on.
        find: Returns the id of the hub that has a name, or an id; raises `RejectedError` where there is none.
        now_ms: Returns the time of the clock by which requests are timed out, ms.
    """

    def __init__(self, core: Core, of: str, find: Callable[[str], bytes], now_ms: Callable[[], int]) -> None:
        self._core = core
        self._of = of
        self._find = find
        self._asking = Asking(core, "consumers of another hub", now_ms)
        self._run = secrets.randbelow(1 << 62)
        # Those who have asked to join, by their numbers; one goes when the client does.
        self._joined: set[int] = set()
        # Those who have left, and of whom the other hub must be told.
        self._parted: set[int] = set()
        # How many questions were asked, and how many of them had no answer.
        self._asked_total = self._lost_total = 0
        core.requests.directed.add(WHAT, Questions(_refuse, pass_on))
        if not of:
            return
        services = core.requests.hub_services
        services.when_gone(self._gone)
        services.add(CONSUMERS_TOPIC, partial(self._ask, ""))
        for what in QUESTIONS:
            services.add(f"{CONSUMERS_TOPIC}/{what}", partial(self._ask, what), judges_itself=True)

    def tick(self) -> None:
        """Tell again what was not heard; to be called once a second."""
        for client in list(self._parted):
            self._part(client)

    def statistics(self) -> FarConsumersStatistics:
        """Return what was asked so far, and what waits."""
        return FarConsumersStatistics(
            len(self._joined), len(self._asking), self._asked_total, self._lost_total, len(self._parted)
        )

    def _ask(self, what: str, handler: Handler, value: Any) -> Later:
        """Ask the other hub.

        Raises:
            RequestError: It cannot be reached, or the client may not.
        """
        rights = handler.rights
        if what == "join":
            self._joined.add(handler.id)
        question = self._question(handler.id, what)
        try:
            question = msgspec.structs.replace(
                question,
                value=value,
                user="" if rights is None else rights.user.name,
                is_admin=is_admin(handler),
                frame_bytes=max(1, handler.frame_limit_bytes),
                granted=granted_by(rights, Action.JOURNAL, Action.PUBLISH),
            )
        except RejectedError as error:
            raise RequestError(Status.NOT_ALLOWED, error.text) from error
        later = Later()

        def settle(outcome: Any) -> None:
            if isinstance(outcome, HubError):
                later.fail(outcome)
            else:
                later.give(None if what == "take" and handler.rights is not rights else outcome)

        self._send(question, settle, _wait_ms(value) if what == "take" else 0)
        return later

    def _question(self, client: int, what: str) -> Question:
        return Question(self._core.mesh.hub, self._run, client, what)

    def _send(self, question: Question, take: Callable[[Any], object], wait_ms: int = 0) -> None:
        """Have a question answered with a value, or with an error.

        Raises:
            RequestError: The other hub cannot be reached.
        """
        self._asked_total += 1
        try:
            hub = self._find(self._of)
        except RejectedError as error:
            self._lost_total += 1
            raise RequestError(Status.RESPONDER_GONE, f"journal.of: {error.text}") from error
        target = target_at(hub, WHAT)
        self._asking.ask(target, ANSWER_MS + wait_ms, encode_question(question), lambda reply: take(self._told(reply)))

    def _told(self, reply: Reply) -> Any:
        """Return the value of an answer, or an error."""
        body = reply.values[BATCH_COUNT.size :] if reply.flags & FLAG_BATCH else reply.values
        try:
            value = decode_values(Frame(KIND_MESSAGES, 0, b"", body))[0]
        except ValueError:
            return RejectedError(
                CloseCode.JOURNAL_FAILED, f"consumers of hub {printable(self._of)}: that was no answer"
            )
        if reply.status == Status.OK:
            return value
        status = Status(reply.status) if reply.status in _AS_IT_IS else Status.RESPONDER_GONE
        text = str(value)[:_TEXT_CHARACTERS]
        if status is Status.RESPONDER_GONE:
            self._lost_total += 1
            text = f"consumers of hub {printable(self._of)}: it cannot be reached now ({text})"
        return RequestError(status, text)

    # Clients that leave.

    def _gone(self, handler: Handler) -> None:
        if handler.id in self._joined:
            self._joined.discard(handler.id)
            self._part(handler.id)

    def _part(self, client: int) -> None:
        """Tell the other hub that a client has left; what is not heard is told again."""
        self._parted.discard(client)

        def settle(outcome: Any) -> None:
            if isinstance(outcome, RequestError) and outcome.status in _LOST:
                self._parted.add(client)

        try:
            self._send(self._question(client, GONE), settle)
        except RequestError:  # it finds out by itself, or is told once it is there
            self._parted.add(client)


def _wait_ms(value: Any) -> int:
    """Return how long a `take` waits, as far as that can be told: whoever answers looks at it more closely."""
    wait_ms = value.get("wait_ms", 0) if isinstance(value, dict) else 0
    return min(wait_ms, ANSWER_MS * 2) if isinstance(wait_ms, int) and wait_ms > 0 else 0


def _refuse(_link: Handler, _value: bytes, answer: Answer) -> None:
    """Answer another hub that there are no consumers here."""
    answer(Status.FAILED, msgspec.msgpack.encode("that hub has no journal of its own, and so no consumers"))
