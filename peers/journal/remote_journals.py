"""Journals of other hubs, read for clients of this one; this hub's for others; and `NoJournal`, which uses them.

```
client ─ FETCH with `hub` ─▶ this hub ─ REQUEST $hub/at/ID/journal ─▶ hubs on the way ─▶ its journal
       ◀────── RECORDS ─────           ◀───────── REPLY ───────────                  ◀── a reader process
```

A piece is one request; its reply is the frame of the reader process. Each piece is requested by the client, so links
carry little at a time. Permission is checked by this hub for its client (`peers.commands.commands`), and by each hub on
the way for both links. Each adds its grants to the order, and the reader process leaves out all other topics.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import msgspec

from hub.core import Core
from hub.errors import CloseCode, ProtocolError, RejectedError
from hub.handlers.delivery import Role
from hub.handlers.handler import Handler
from hub.limits import QueueLimits
from hub.messages.batch import Batch
from hub.messages.frame import HEADER, HEADER_BYTES
from hub.messages.request_frame import TRANSACTIONS, Item, Reply, Request, Status
from hub.policy.policy import Action, Rights
from hub.quotas import Resource, Usage
from hub.requests.hub_services import Answer as Respond
from hub.requests.hub_services import Questions, target_at
from hub.topics import printable
from peers.journal.forms import Order, answers, as_order, decode_order, encode_order, granted
from peers.journal.readers import Deliver, SharedPieces
from peers.journal.view import LARGE_FACTOR
from peers.wire.control import MALFORMED, Notice, decode_notice, encode_notice, reason_of
from peers.wire.kinds import Kind
from peers.wire.records import Commit, Fetch, Stage

if TYPE_CHECKING:
    from hub.routing.routes import Route
    from peers.journal.consumers.service import ConsumersStatistics
    from peers.journal.journal import Journal
    from peers.journal.recorder import Answer, Recorder
    from peers.journal.remote_confirmations import RemoteConfirmations
    from peers.journal.staging import OnCommitted, OnStaged, Staging
    from peers.journal.tier.tiering import TierStatistics

PIECE_BYTES: Final = 256 * 1024
"""Most bytes of a piece, as a FETCH counts them: other messages on the links wait for 1.3 MiB at most, in the rare case
of such a large block, and a client has two pieces under way."""

WAIT_MS: Final = 10_000
"""Longest wait at another hub, ms. The hubs on the way do not learn that a FETCH was cancelled, and hold its place for
so long. A waiting stream asks again."""

ANSWER_MS: Final = 30_000  # how long an answer may take, ms, in addition to the wait
ANSWERING_LIMIT: Final = 4_096  # most unanswered questions of other hubs
_WHAT: Final = "journal"
_HEAD_BYTES: Final = 1024  # room in a frame for the fields around the blocks
_TEXT_CHARACTERS: Final = 1000  # most characters of another hub's text that are passed on

# Codes for clients by status; for all others the client may try again.
_CODES = {
    Status.NOT_ALLOWED: CloseCode.NOT_ALLOWED,
    Status.TOO_BIG: CloseCode.TOO_BIG,
    Status.FAILED: CloseCode.JOURNAL_FAILED,
}

Cancel = Callable[[], bool | None]
"""Called when an answer is not wanted any more. Returns True if the FETCH was waiting for a commit, so that it costs
nothing more."""

Publish = Callable[[Batch], object]


def nothing() -> None:
    """The `Cancel` of an answered FETCH, or of one that cannot be stopped."""


class Asking:
    """Questions of this hub to other hubs: requests to a hub's id. If the way is lost, this hub replies itself."""

    def __init__(self, core: Core, name: str, now_ms: Callable[[], int]) -> None:
        self._core = core
        self._now_ms = now_ms
        limits = QueueLimits()  # never used: a question is a request
        self._sender = Handler(self, role=Role.LOCAL, limits=limits, name=name, address="local", poster=self)
        self._asked: dict[int, Callable[[Reply], object]] = {}
        self._numbers = map(TRANSACTIONS.__rmod__, count())

    def __len__(self) -> int:
        return len(self._asked)

    def ask(self, target: bytes, timeout_ms: int, value: bytes, take: Callable[[Reply], object]) -> int:
        """Send a question (`hub.requests.hub_services`); return its number, for `forget`."""
        if not self._sender.id:
            self._core.attach(self._sender)
        number = next(number for number in self._numbers if number not in self._asked)
        self._asked[number] = take
        self._core.requests.ask(self._sender, Request(target, number, timeout_ms, value), self._now_ms())
        return number

    def forget(self, number: int) -> None:
        self._asked.pop(number, None)

    def send(self, batches: list[Batch]) -> None: ...

    def send_gap(self, lost_messages: int) -> None: ...

    def close(self, code: int, text: str) -> None: ...

    def post(self, items: list[Item]) -> None:
        for item in items:
            if isinstance(item, Reply):
                for place in range(item.requests):
                    take = self._asked.pop((item.first + place) % TRANSACTIONS, None)
                    if take is not None:
                        take(item)


class RemoteJournals:
    """The journals of the other hubs."""

    def __init__(self, core: Core, name: str, now_ms: Callable[[], int], journal: Callable[[], Recording]) -> None:
        self._core, self.scheduler = core, core.scheduler
        self._name = name
        self._journal = journal
        self._asking = Asking(core, "journals", now_ms)
        self.answering = 0
        self.asked_total = 0  # pieces requested
        self.answered_total = self.refused_total = 0  # questions of other hubs
        core.requests.directed[_WHAT] = Questions(self._answer, self._pass_on)

    @property
    def pending(self) -> int:
        return len(self._asking)

    def fetch(self, fetch: Fetch, deliver: Deliver, usage: Usage | None = None) -> Cancel:
        """Read a piece of the journal of the hub in a FETCH; raises `RejectedError` as `find`."""
        of = fetch.hub
        hub = self.find(of)
        order = msgspec.structs.replace(as_order(fetch), hub="")
        if hub == self._core.mesh.hub:
            if not self._journal().id:
                raise RejectedError(CloseCode.NOT_ALLOWED, f"hub {printable(of)} has no journal of its own")
            return self._journal().fetch(order, deliver, usage)
        order = msgspec.structs.replace(order, bytes=min(order.bytes, PIECE_BYTES), wait_ms=min(order.wait_ms, WAIT_MS))
        self.asked_total += 1
        target, value = target_at(hub, _WHAT), _packed(encode_order(order))
        number = self._asking.ask(
            target, order.wait_ms + ANSWER_MS, value, lambda reply: deliver(_outcome(of, order, reply))
        )
        return partial(self._asking.forget, number)

    def find(self, of: str) -> bytes:
        """Return the id of the reachable hub with this id or name; raises `RejectedError` for none or several."""
        mesh = self._core.mesh
        shown = printable(of)
        named = [hub for hub, record in mesh.records.items() if of in {hub.hex(), record.name}]
        if mesh.hub not in named and of == self._name:
            named.append(mesh.hub)
        if not named:
            text = f"no hub of the mesh has the name or the id {shown}, as far as this hub knows"
            raise RejectedError(CloseCode.BAD_DATA, text)
        exact = [hub for hub in named if hub.hex() == of]
        reached = exact or [hub for hub in named if hub == mesh.hub or hub in mesh.graph.reached]
        if len(reached) > 1:
            ids = ", ".join(sorted(hub.hex() for hub in reached))
            text = f"{len(reached)} hubs of the mesh have the name {shown}: {ids}; say which of them by its id"
            raise RejectedError(CloseCode.BAD_DATA, text)
        if not reached:
            raise RejectedError(CloseCode.TRY_AGAIN_LATER, f"hub {shown} cannot be reached now")
        return reached[0]

    def _answer(self, link: Handler, value: bytes, answer: Respond) -> None:
        def deliver(outcome: bytes | bytearray | RejectedError) -> None:
            if isinstance(outcome, RejectedError):
                outcome = encode_notice(Notice("error", code=outcome.code, text=outcome.text))
            answer(Status.OK, _packed(outcome))

        def settle(outcome: bytes | bytearray | RejectedError) -> None:
            self.answering -= 1
            self.answered_total += 1
            if link.rights is not rights:  # it may have waited for a minute
                outcome = RejectedError(
                    CloseCode.TRY_AGAIN_LATER, "the permissions of the link have changed: try again"
                )
            deliver(outcome)

        rights = link.rights
        try:
            order = self._taken(link, value)
        except RejectedError as error:
            self.refused_total += 1
            deliver(error)
            return
        self.answering += 1
        self._journal().fetch(order, settle, None if link.share is None else link.share[Resource.JOURNAL_READS])

    def _taken(self, link: Handler, value: bytes) -> Order:
        if not self._journal().id:
            raise RejectedError(CloseCode.NOT_ALLOWED, "that hub has no journal of its own")
        if self.answering >= ANSWERING_LIMIT:
            text = f"{ANSWERING_LIMIT} readers at other hubs wait already, which is the limit"
            raise RejectedError(CloseCode.TRY_AGAIN_LATER, text)
        return _bounded(_narrowed(decode_order(_unpacked(value)), link.rights, link.acts.seeing), link)

    @staticmethod
    def _pass_on(asker: Handler, link: Handler, value: bytes) -> bytes:
        """Return the order for the next link, with this hub's grants for both sides."""
        order = decode_order(_unpacked(value))
        if asker.is_link:
            order = _narrowed(_bounded(order, asker), asker.rights, asker.acts.seeing)
        return _packed(encode_order(_narrowed(order, link.rights, link.acts.publishing)))


def _narrowed(order: Order, rights: Rights | None, action: Action) -> Order:
    """Return the part of an order that the link may have; raises `RejectedError`."""
    if rights is not None and not rights.may_any(action):
        text = f"{action.value}: nothing is granted to the link of user {printable(rights.user.name)}"
        raise RejectedError(CloseCode.NOT_ALLOWED, text)
    return as_order(granted(order, rights, action, narrows=True))


def _bounded(order: Order, link: Handler) -> Order:
    """Limit an order to a piece whose answer fits into a frame of the link."""
    most = max(1, link.frame_limit_bytes // (LARGE_FACTOR + 2) - _HEAD_BYTES)
    return msgspec.structs.replace(order, bytes=min(order.bytes, most, PIECE_BYTES))


def _outcome(of: str, order: Order, reply: Reply) -> bytes | RejectedError:
    journal = f"journal of hub {printable(of)}"
    if reply.status != Status.OK:
        code = _CODES.get(Status(reply.status), CloseCode.TRY_AGAIN_LATER)
        reason = reason_of(reply)[:_TEXT_CHARACTERS] or "that has failed"
        return RejectedError(code, f"{journal}: {reason}")
    frame = b"" if reply.flags else _unpacked(reply.values)
    if len(frame) > HEADER_BYTES:
        size_bytes, kind, flags, key_bytes = HEADER.unpack_from(frame)
        body = memoryview(frame)[HEADER_BYTES:]
        if size_bytes == len(body) and not flags and not key_bytes:
            if kind == Kind.RECORDS and answers(order, body):
                return frame
            if kind == Kind.NOTICE:
                with suppress(ProtocolError):
                    notice = decode_notice(bytes(body))
                    text = f"{journal}: {notice.text[:_TEXT_CHARACTERS]}"
                    told = Notice("error", request=order.request, code=notice.code, text=text, offset=notice.offset)
                    return encode_notice(told)
    return RejectedError(CloseCode.JOURNAL_FAILED, f"{journal}: that was no answer")


_packed = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(bytes).decode


def _unpacked(value: bytes) -> bytes:
    try:
        return _unpack(value)
    except MALFORMED:
        return b""


class JournalStatistics(NamedTuple):
    """The parts of a journal and their counters."""

    recorder: Recorder
    staging: Staging
    readers: int  # reader processes
    fetches: int  # unanswered pieces
    consumers: ConsumersStatistics
    tier: TierStatistics | None
    epoch: int
    cuts_total: int  # positions of readers that were cut back, since records were lost


class NoJournal:
    """The journal of a hub that records nothing: rejects requests, or uses the journal of another hub.

    Args:
        trouble: Why the configured journal could not be opened; empty if none is configured.
        of: Name or id of the hub whose journal is used; empty for none.
        journals, confirmations: Access to other hubs' journals, with `of`.
    """

    id = b""

    def __init__(
        self,
        trouble: str = "",
        of: str = "",
        journals: RemoteJournals | None = None,
        confirmations: RemoteConfirmations | None = None,
    ) -> None:
        self.trouble = trouble
        self._of = of
        self._journals = journals
        # Where records wait for confirmation; Journal: the `Recorder` itself.
        self.recorder: Recorder | RemoteConfirmations | None = confirmations
        self._confirmations = confirmations
        # Streams of events at the same offset share one piece.
        self._pieces = None if journals is None else SharedPieces(self._read, journals.scheduler)

    def confirm(self, route: Route, batch: Batch, publish: Publish, answer: Answer) -> None:  # noqa: ARG002 -- as `Journal`
        """Publish, and answer once the other hub has committed the messages, or with the reason why that is unknown."""
        error: RejectedError | None = self._refusal()
        if self._confirmations is not None:
            try:
                batch = self._confirmations.ask(self._of, batch, answer)
                error = None
            except RejectedError as cause:
                error = RejectedError(CloseCode.TRY_AGAIN_LATER, f"journal.of: {cause.text}")
        publish(batch)
        if error is not None:
            answer(error)

    def fetch(self, fetch: Fetch, deliver: Deliver, usage: Usage | None = None) -> Cancel:
        """Read a piece at the other hub. An unknown hub may still come: the client is to try again."""
        if self._pieces is None or not isinstance(fetch, Order) or fetch.form != "events":
            return self._read(fetch, deliver, usage)
        self._pieces.fetch(fetch, deliver, usage)
        return nothing

    def _read(self, fetch: Fetch, deliver: Deliver, _: Usage | None) -> Cancel:
        if self._journals is None:
            deliver(self._refusal())
            return nothing
        try:
            return self._journals.fetch(msgspec.structs.replace(fetch, hub=self._of), deliver)
        except RejectedError as error:
            deliver(RejectedError(CloseCode.TRY_AGAIN_LATER, f"journal.of: {error.text}"))
        return nothing

    def cut_back(self, position: int, epoch: int) -> int:  # noqa: ARG002 -- as `Journal`
        """Return the position: the other hub checks it with each piece."""
        return position

    def stage(self, source: Handler, stage: Stage, answer: OnStaged) -> None:  # noqa: ARG002
        answer(self._refusal())

    def commit(self, source: Handler, commit: Commit, answer: OnCommitted) -> None:  # noqa: ARG002
        answer(self._refusal())

    def statistics(self) -> JournalStatistics | None:
        return None

    async def settle(self) -> None:
        if self._confirmations is not None:
            await self._confirmations.settle()

    def _refusal(self) -> RejectedError:
        if self.trouble:
            return RejectedError(CloseCode.JOURNAL_FAILED, self.trouble)
        text = "this hub has no journal; start it with --journal PATH"
        if self._of:
            hub = printable(self._of)
            text = f"this hub does not record; batches are for the hub {hub}, whose journal is read here"
        return RejectedError(CloseCode.NOT_ALLOWED, text)


Recording: TypeAlias = "Journal | NoJournal"
