"""`JournalRequests`: what one client asks of the hub's journal: confirmations, FETCH, STAGE and COMMIT.

Owner: one connection, which makes it when it is asked for the first of them. Invariants: each request has one answer;
confirmations come in the order of the messages, also where one is refused at once and those before it wait for their
commit. Bound: `FETCHES_LIMIT`, and the journal's own for the rest. Not here: the journal (`peers.journal`).
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

import msgspec

from hub.batch import Batch
from hub.errors import CloseCode, RejectedError
from hub.frame import HEADER_BYTES, Frame, encode_frame
from hub.handler import Handler
from hub.routes import Route
from peers.journal.journal import Cancel
from peers.journal.staging import Committed
from peers.journal.view import LARGE_FACTOR
from peers.node import Node
from peers.wire.control import Notice, encode_notice
from peers.wire.records import Commit, Fetch, Stage
from peers.wire.session import Confirmable, Session

__all__ = ["FETCHES_LIMIT", "FETCH_LIMIT_BYTES", "JournalRequest", "JournalRequests"]

FETCHES_LIMIT = 16
"""Most FETCHes of one connection that are not answered yet; each answer is a megabyte on its way."""

FETCH_LIMIT_BYTES = 4 * 1024 * 1024
"""Most of what one FETCH may ask for; more is taken for this. More at once is no quicker, and takes memory."""

_HEAD_BYTES = 1024
"""More than the head of RECORDS; the lengths of its blocks are within the reserve."""

JournalRequest = Confirmable | Fetch | Stage | Commit


class _Asker(Protocol):
    """The connection."""

    @property
    def far_frame_limit(self) -> int:
        """Largest body that the far side takes, bytes."""

    def answer(self, frame: bytes | bytearray) -> None:
        """Say something, if there is still somebody to hear it."""


class _Confirmation:
    """Of the messages of one frame."""

    __slots__ = ("messages", "outcome")

    def __init__(self, messages: int) -> None:
        self.messages = messages
        self.outcome: int | RejectedError | None = None  # not known yet

    def notice(self) -> Notice | None:
        """Return what is to be told, None as long as it is not known."""
        outcome = self.outcome
        if outcome is None:
            return None
        if isinstance(outcome, RejectedError):
            return Notice("unrecorded", count=self.messages, code=outcome.code, text=outcome.text)
        return Notice("recorded", count=self.messages, offset=outcome)


class JournalRequests:
    """The requests of one client.

    Args:
        node: The hub.
        handler: Of the client.
        session: Where it is answered at once.
        asker: Where it is answered later.
    """

    __slots__ = ("_asker", "_confirmations", "_fetches", "_handler", "_node", "_session")

    def __init__(self, node: Node, handler: Handler, session: Session[Route], asker: _Asker) -> None:
        self._node = node
        self._handler = handler
        self._session = session
        self._asker = asker
        self._fetches: dict[int, Cancel] = {}  # not answered yet, and how to be done with them
        self._confirmations: deque[_Confirmation] = deque()  # not told yet, in the order of the messages

    def act(self, request: JournalRequest) -> None:
        """Do what is asked for."""
        match request:
            case Confirmable():
                self._publish(request.frame)
            case Fetch():
                self._fetch(request)
            case Stage():
                self._stage(request)
            case Commit():
                self._commit(request)

    def refuse(self, error: RejectedError, messages: int) -> None:
        """Tell that messages with CONFIRM were not taken, in the order of such messages."""
        confirmation = _Confirmation(messages)
        self._confirmations.append(confirmation)
        self._session.rejected_messages += messages
        self._recorded(confirmation, error)

    def close(self) -> None:
        """The client has gone: do nothing more for it that can be left."""
        for cancel in self._fetches.values():
            cancel()
        self._fetches.clear()
        self._confirmations.clear()

    def _publish(self, frame: Frame) -> None:
        """Publish, and tell the offset once it is committed."""
        core, messages = self._node.core, frame.messages
        confirmation = _Confirmation(messages)
        self._confirmations.append(confirmation)
        try:
            route = core.routes.table.get(frame.routing_key) or core.routes.miss(frame.routing_key)
            core.check_sender(self._handler, route)
        except RejectedError as error:
            self._session.rejected_messages += messages
            self._recorded(confirmation, error)
            return
        batch = Batch(encode_frame(frame.kind, frame.body, key=frame.key, flags=frame.flags), messages)
        core.publish(self._handler, route, batch)
        self._node.journal.confirm(route, messages, lambda outcome: self._recorded(confirmation, outcome))

    def _recorded(self, confirmation: _Confirmation, outcome: int | RejectedError) -> None:
        """Tell what has become of messages with CONFIRM, as far as that is known of all before them."""
        confirmation.outcome = outcome
        waiting = self._confirmations
        while waiting and (notice := waiting[0].notice()) is not None:
            waiting.popleft()
            self._asker.answer(encode_notice(notice))

    def _fetch(self, fetch: Fetch) -> None:
        if fetch.request in self._fetches or len(self._fetches) >= FETCHES_LIMIT:
            text = f"this FETCH, or {FETCHES_LIMIT} of them, which is the limit, wait for an answer already"
            self._session.reject(RejectedError(CloseCode.TRY_AGAIN_LATER, text), fetch.request)
            return
        most = max(1, min(FETCH_LIMIT_BYTES, self._asker.far_frame_limit // (LARGE_FACTOR + 2) - _HEAD_BYTES))
        order = msgspec.structs.replace(fetch, bytes=min(fetch.bytes, most))
        self._fetches[fetch.request] = _nothing
        cancel = self._node.journal.fetch(order, lambda outcome: self._fetched(outcome, fetch.request))
        if fetch.request in self._fetches:
            self._fetches[fetch.request] = cancel

    def _fetched(self, outcome: bytes | bytearray | RejectedError, request: int) -> None:
        """Hand on the answer to a FETCH."""
        self._fetches.pop(request, None)
        limit = self._asker.far_frame_limit
        if isinstance(outcome, RejectedError):
            self._refuse(outcome, request)
        elif len(outcome) - HEADER_BYTES > limit:
            text = f"RECORDS of {len(outcome)} bytes with one record, the far side takes {limit}: take larger frames"
            self._refuse(RejectedError(CloseCode.TOO_BIG, text), request)
        else:
            self._asker.answer(outcome)

    def _stage(self, stage: Stage) -> None:
        def answer(error: RejectedError | None) -> None:
            if error is not None:
                self._refuse(error, stage.request)
            elif stage.request:
                self._asker.answer(encode_notice(Notice("confirmed", request=stage.request)))

        self._node.journal.stage(stage, answer)

    def _commit(self, commit: Commit) -> None:
        def answer(outcome: Committed | RejectedError) -> None:
            if isinstance(outcome, RejectedError):
                self._refuse(outcome, commit.request)
                return
            first, messages, again = outcome
            notice = Notice("confirmed", request=commit.request, offset=first, count=messages, again=again)
            self._asker.answer(encode_notice(notice))

        self._node.journal.commit(self._handler, commit, answer)

    def _refuse(self, error: RejectedError, request: int) -> None:
        self._asker.answer(encode_notice(Notice("error", request=request, code=error.code, text=error.text)))


def _nothing() -> None:
    """There is nothing to cancel yet."""
