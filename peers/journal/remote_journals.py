"""`RemoteJournals`: journals of other hubs, read for clients of this one; and this hub's for others.

```
client ─ FETCH with `hub` ─▶ this hub ─ REQUEST $hub/at/ID/journal ─▶ hubs on the way ─▶ its journal
       ◀────── RECORDS ─────           ◀───────── REPLY ───────────                  ◀── a reader process
```

A piece is one request; its reply is the frame of the reader process. Each piece is requested by the client, so links
carry little at a time. Permission is checked by this hub for its client (`peers.commands.journal`), and by each hub on
the way for both links. Each adds its grants to the order, and the reader process leaves out all other topics.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec

from hub.core import Core
from hub.errors import CloseCode, ProtocolError, RejectedError
from hub.handlers.handler import Handler
from hub.messages.frame import BATCH_COUNT, FLAG_BATCH, HEADER, HEADER_BYTES
from hub.messages.request_frame import Reply, Status
from hub.policy.policy import Action, Rights
from hub.quotas import Resource, Usage
from hub.requests.hub_services import Answer, Questions, target_at
from hub.topics import printable
from peers.journal.asking import Asking
from peers.journal.forms import Order, answers, as_order, decode_order, encode_order, granted
from peers.journal.readers import Deliver
from peers.journal.recording import Cancel, Recording
from peers.journal.view import LARGE_FACTOR
from peers.wire.control import Notice, decode_notice, encode_notice
from peers.wire.kinds import Kind
from peers.wire.reasons import MALFORMED
from peers.wire.records import Fetch

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
_CODES = {
    Status.NOT_ALLOWED: CloseCode.NOT_ALLOWED,
    Status.TOO_BIG: CloseCode.TOO_BIG,
    Status.FAILED: CloseCode.JOURNAL_FAILED,
}
"""Codes for clients by status; for all others the client may try again."""


class _Asked(NamedTuple):
    of: str
    order: Order


class RemoteJournals:
    """The journals of other hubs."""

    def __init__(self, core: Core, name: str, now_ms: Callable[[], int], journal: Callable[[], Recording]) -> None:
        self._core = core
        self._name = name
        self._journal = journal
        self._asking = Asking(core, "journals", now_ms)
        self.answering = 0
        self.asked_total = self.answered_total = self.refused_total = 0
        """Pieces requested; questions of other hubs answered and rejected."""
        core.requests.directed.add(_WHAT, Questions(self._answer, self._pass_on))

    @property
    def pending(self) -> int:
        return len(self._asking)

    # For clients of this hub.

    def fetch(self, fetch: Fetch, deliver: Deliver, usage: Usage | None = None) -> Cancel:
        """Read a piece of the journal of the hub in a FETCH; raises `RejectedError` as `find`."""
        hub = self.find(fetch.hub)
        order = msgspec.structs.replace(as_order(fetch), hub="")
        if hub == self._core.mesh.hub:
            if not self._journal().id:
                raise RejectedError(CloseCode.NOT_ALLOWED, f"hub {printable(fetch.hub)} has no journal of its own")
            return self._journal().fetch(order, deliver, usage)
        order = msgspec.structs.replace(order, bytes=min(order.bytes, PIECE_BYTES), wait_ms=min(order.wait_ms, WAIT_MS))
        asked = _Asked(fetch.hub, order)
        self.asked_total += 1
        target, timeout_ms = target_at(hub, _WHAT), order.wait_ms + ANSWER_MS
        number = self._asking.ask(
            target, timeout_ms, _packed(encode_order(order)), lambda reply: deliver(_outcome(asked, reply))
        )
        return partial(self._asking.forget, number)

    def find(self, of: str) -> bytes:
        """Return the id of the hub with this id or name.

        Raises:
            RejectedError: There is none, or several, or it cannot be reached.
        """
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

    # For other hubs.

    def _answer(self, link: Handler, value: bytes, answer: Answer) -> None:
        def deliver(outcome: bytes | bytearray | RejectedError) -> None:
            if isinstance(outcome, RejectedError):
                outcome = encode_notice(Notice("error", code=outcome.code, text=outcome.text))
            answer(Status.OK, _packed(outcome))

        def settle(outcome: bytes | bytearray | RejectedError) -> None:
            self.answering -= 1
            self.answered_total += 1
            if link.rights is not rights:  # it may have waited for a minute
                outcome = RejectedError(CloseCode.TRY_AGAIN_LATER, "what the link may take has changed: ask again")
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
        return _bounded(_narrowed(_order_of(value), link.rights, link.acts.seeing), link)

    @staticmethod
    def _pass_on(asker: Handler, link: Handler, value: bytes) -> bytes:
        """Return the order for the next link, with this hub's grants for both sides."""
        order = _order_of(value)
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


def _outcome(asked: _Asked, reply: Reply) -> bytes | RejectedError:
    name = printable(asked.of)
    if reply.status != Status.OK:
        code = _CODES.get(Status(reply.status), CloseCode.TRY_AGAIN_LATER)
        return RejectedError(code, f"journal of hub {name}: {_reason(reply)}")
    frame = b"" if reply.flags else _unpacked(reply.values)
    if len(frame) > HEADER_BYTES:
        size_bytes, kind, flags, key_bytes = HEADER.unpack_from(frame)
        body = memoryview(frame)[HEADER_BYTES:]
        if size_bytes == len(body) and not flags and not key_bytes:
            if kind == Kind.RECORDS and answers(asked.order, body):
                return frame
            if kind == Kind.NOTICE:
                return _refusal(asked, bytes(body))
    return _no_answer(asked)


def _refusal(asked: _Asked, body: bytes) -> bytes | RejectedError:
    """Return the notice of the other hub as one for the client."""
    try:
        notice = decode_notice(body)
    except ProtocolError:
        return _no_answer(asked)
    text = f"journal of hub {printable(asked.of)}: {notice.text[:_TEXT_CHARACTERS]}"
    return encode_notice(
        Notice("error", request=asked.order.request, code=notice.code, text=text, offset=notice.offset)
    )


def _no_answer(asked: _Asked) -> RejectedError:
    return RejectedError(CloseCode.JOURNAL_FAILED, f"journal of hub {printable(asked.of)}: that was no answer")


def _reason(reply: Reply) -> str:
    values = reply.values[BATCH_COUNT.size :] if reply.flags & FLAG_BATCH else reply.values
    try:
        reason: Any = msgspec.msgpack.decode(values)
    except MALFORMED:
        reason = ""
    return reason[:_TEXT_CHARACTERS] if isinstance(reason, str) and reason else "that has failed"


def _order_of(value: bytes) -> Order:
    return decode_order(_unpacked(value))


_packed = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(bytes).decode


def _unpacked(value: bytes) -> bytes:
    try:
        return _unpack(value)
    except MALFORMED:
        return b""
