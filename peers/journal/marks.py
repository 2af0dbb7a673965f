"""`Marks`: what becomes in this hub's journal of batches that bear a mark, for the hubs that ask.

```
question ───▶ expected ─▶ the batch comes ─▶ its messages are committed ─▶ answer
the batch comes first ─▶ seen ─▶ question ─▶ as above
one that was asked about later has come ─▶ the earlier one will not: what a hub publishes keeps its order ─▶ error
```

A question goes ahead of messages that wait on the same links, and so mostly comes first; where it has taken another
way, what was seen is remembered for a while.

Owner: the event loop of a node. Invariants: a question has at most one answer; an offset is answered only once the
recorder has committed it, and only if as many messages came as were asked about: a queue on the way may have cut a
batch. Bounds: `EXPECTED_LIMIT` questions, `SEEN_LIMIT` batches nobody has asked about yet. Cost: until the first
question nothing but a look a write of the recorder; from then on a look at the origin of each batch that is recorded.

Not here: asking (`peers.journal.far_confirmations`), what is recorded where (`peers.journal.recorder`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Annotated, Any, Final, NamedTuple

import msgspec

from hub.core import Core
from hub.errors import CloseCode, RejectedError
from hub.frame import HEADER, HEADER_BYTES, KIND_MESSAGES
from hub.handler import Handler
from hub.origin import Origin
from hub.request_frame import Status
from hub.requests.directed import Answer as Reply
from hub.requests.directed import Questions
from hub.topics import printable
from peers.journal.recorder import Answer
from peers.journal.recording import Recording

__all__ = ["ANSWER_MS", "EXPECTED_LIMIT", "RECORDED", "SEEN_LIMIT", "Marks", "MarksStatistics", "Question"]

RECORDED: Final = "recorded"
"""What a hub is asked (`hub.requests.directed`)."""

ANSWER_MS: Final = 30_000
"""How long an answer may take, ms: as long as any other request takes where nothing else is said."""

EXPECTED_LIMIT: Final = 65_536
"""Most questions of other hubs that wait for their messages: sixteen hubs that wait for as many as they may."""

SEEN_LIMIT: Final = 1_024
"""Most batches with a mark that are remembered though nobody has asked about them; the oldest is forgotten."""


_KEY_AT: Final = 4
"""Where the key begins in a routing key, which is the header from its kind on, and the key."""


class Question(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What has become of a batch?"""

    hub: Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]
    """The hub where it has entered the mesh."""
    mark: Annotated[int, msgspec.Meta(ge=1)]
    messages: Annotated[int, msgspec.Meta(ge=1)]
    """How many it has."""
    key: bytes
    """The routing key of its frame."""


class MarksStatistics(NamedTuple):
    """What other hubs have asked."""

    expected: int
    """Questions that wait for their messages, or for the commit of these."""
    confirmed_total: int
    refused_total: int


class _Fate:
    """What becomes of one batch."""

    __slots__ = ("_marks", "came", "due_ms", "messages", "outcome", "reply")

    def __init__(self, marks: Marks, due_ms: int) -> None:
        self._marks = marks
        self.due_ms = due_ms
        self.came = 0
        """How many messages of it have come."""
        self.messages = 0
        """How many there should be; 0 while nobody has asked."""
        self.outcome: int | RejectedError | None = None
        """What the journal says; None until it does."""
        self.reply: Reply | None = None
        """Takes the answer; None while nobody has asked, and once it is given."""

    def decide(self, outcome: int | RejectedError) -> None:
        """The journal, or the lack of messages, has decided; nothing follows if something has before."""
        if self.outcome is None:
            self.outcome = outcome
            self.answer()

    def answer(self) -> None:
        """Answer, if it is decided, and somebody asks."""
        outcome, reply = self.outcome, self.reply
        if reply is None or outcome is None:
            return
        self.reply = None
        if not isinstance(outcome, RejectedError) and self.came != self.messages:
            text = (
                f"{self.came} of {self.messages} messages came together; the others were lost on the way, or are apart"
            )
            outcome = RejectedError(CloseCode.JOURNAL_FAILED, text)
        self._marks.answered(outcome, reply)


class Marks:
    """Of one hub.

    Args:
        core: Of the hub.
        now_ms: Returns the time of a clock that does not go back, ms.
        journal: Returns the hub's own journal.
    """

    def __init__(self, core: Core, now_ms: Callable[[], int], journal: Callable[[], Recording]) -> None:
        self._core = core
        self._now_ms = now_ms
        self._journal = journal
        # Hub → mark → a batch that was asked about and has not come, in the order of the questions, which is about that
        # of the marks.
        self._expected: dict[bytes, dict[int, _Fate]] = {}
        # Batches that have come, and nobody has asked about; the oldest first.
        self._seen: OrderedDict[tuple[bytes, int], _Fate] = OrderedDict()
        # How many questions are not answered.
        self._waiting = 0
        self._confirmed = self._refused = 0
        core.requests.directed.add(RECORDED, Questions(self._ask, lambda _asker, _link, value: value))

    def statistics(self) -> MarksStatistics:
        """Return what was asked so far, and what waits."""
        return MarksStatistics(self._waiting, self._confirmed, self._refused)

    def tick(self) -> None:
        """Forget questions whose time is over; nobody waits for their answers any more."""
        now_ms = self._now_ms()
        for hub, fates in list(self._expected.items()):
            while fates and (first := next(iter(fates.values()))).due_ms <= now_ms:
                del fates[next(iter(fates))]
                first.decide(RejectedError(CloseCode.TRY_AGAIN_LATER, "it did not come within the time there was"))
            if not fates:
                del self._expected[hub]

    # What hubs ask.

    def _ask(self, _link: Handler, value: bytes, reply: Reply) -> None:
        """Answer now, or once it is known."""
        self._waiting += 1
        try:
            question = self._checked(value)
        except RejectedError as error:
            self.answered(error, reply)
            return
        key = question.hub, question.mark
        fate = self._seen.pop(key, None)
        if fate is None:
            fate = _Fate(self, self._now_ms() + ANSWER_MS)
            self._expected.setdefault(question.hub, {})[question.mark] = fate
        fate.messages, fate.reply = question.messages, reply
        fate.answer()

    def _checked(self, value: bytes) -> Question:
        """Return a question that can be answered.

        Raises:
            RejectedError: It cannot be.
        """
        journal = self._journal()
        if not journal.id:
            raise RejectedError(CloseCode.NOT_ALLOWED, "that hub has no journal of its own")
        try:
            question = msgspec.msgpack.decode(value, type=Question)
        except (msgspec.DecodeError, msgspec.ValidationError, RecursionError, UnicodeDecodeError) as error:
            raise RejectedError(CloseCode.BAD_DATA, f"no question: {printable(str(error))}") from error
        if question.mark in self._expected.get(question.hub, ()):
            raise RejectedError(CloseCode.BAD_DATA, "that mark was asked about before")
        if not _is_of_messages(question.key):
            raise RejectedError(CloseCode.BAD_DATA, "no routing key of messages")
        if self._waiting > EXPECTED_LIMIT:
            text = f"{EXPECTED_LIMIT} confirmations for other hubs wait already, which is the limit"
            raise RejectedError(CloseCode.TRY_AGAIN_LATER, text)
        if not journal.records(self._core.routes.of(question.key)):
            raise RejectedError(CloseCode.NOT_ALLOWED, "topic not recorded there; see journal.topics of that hub")
        journal.heed(self._come)
        return question

    def answered(self, outcome: int | RejectedError, reply: Reply) -> None:
        """Give an answer."""
        self._waiting -= 1
        told: Any = outcome
        if isinstance(outcome, RejectedError):
            self._refused += 1
            told = [int(outcome.code), outcome.text]
        else:
            self._confirmed += 1
        reply(Status.OK, _pack(told))

    # What the recorder says.

    def _come(self, origin: Origin, messages: int) -> Answer:
        """A batch with a mark is recorded; return what is called once that is committed, or has failed."""
        self._give_up(origin)
        fates = self._expected.get(origin.hub)
        fate = None if fates is None else fates.pop(origin.mark, None)
        if fate is None:
            fate = self._seen[origin.hub, origin.mark] = _Fate(self, 0)
            if len(self._seen) > SEEN_LIMIT:
                self._seen.popitem(last=False)
        fate.came += messages
        return fate.decide

    def _give_up(self, origin: Origin) -> None:
        """Of one hub, what was marked before this does not come any more."""
        fates = self._expected.get(origin.hub)
        while fates and (first := next(iter(fates))) < origin.mark:
            fates.pop(first).decide(RejectedError(CloseCode.JOURNAL_FAILED, "not recorded: it was lost on the way"))


def _is_of_messages(key: bytes) -> bool:
    """Return whether that is the routing key of a MESSAGES frame."""
    if len(key) <= _KEY_AT:
        return False
    _, kind, _, key_bytes = HEADER.unpack_from(bytes(HEADER_BYTES - _KEY_AT) + key)
    return bool(kind == KIND_MESSAGES and key_bytes == len(key) - _KEY_AT)


_pack = msgspec.msgpack.Encoder().encode
