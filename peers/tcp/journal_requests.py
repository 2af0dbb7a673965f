"""`JournalRequests`: what one client asks of the hub's journal: confirmations, FETCH, STAGE and COMMIT.

Owner: one connection, which makes it when it is asked for the first of them. Invariants: each request has one answer;
confirmations come in the order of the messages. Not here: the journal (`peers.journal`).
"""

from __future__ import annotations

from typing import Protocol

from hub.batch import Batch
from hub.errors import CloseCode, RejectedError
from hub.frame import HEADER_BYTES, Frame, encode_frame
from hub.handler import Handler
from hub.routes import Route
from peers.journal.staging import Committed
from peers.node import Node
from peers.wire.control import Notice, encode_notice
from peers.wire.records import Commit, Fetch, Stage
from peers.wire.session import Confirmable, Session

__all__ = ["FETCHES_LIMIT", "JournalRequest", "JournalRequests"]

FETCHES_LIMIT = 16
"""Most FETCHes of one connection that are not answered yet; each answer is a megabyte on its way."""

JournalRequest = Confirmable | Fetch | Stage | Commit


class _Asker(Protocol):
    """The connection."""

    @property
    def far_frame_limit(self) -> int:
        """Largest body that the far side takes, bytes."""

    def answer(self, frame: bytes | bytearray) -> None:
        """Say something, if there is still somebody to hear it."""


class JournalRequests:
    """The requests of one client.

    Args:
        node: The hub.
        handler: Of the client.
        session: Where it is answered at once.
        asker: Where it is answered later.
    """

    __slots__ = ("_asker", "_fetches", "_handler", "_node", "_session")

    def __init__(self, node: Node, handler: Handler, session: Session[Route], asker: _Asker) -> None:
        self._node = node
        self._handler = handler
        self._session = session
        self._asker = asker
        self._fetches = 0  # not answered yet

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

    def _publish(self, frame: Frame) -> None:
        """Publish, and tell the offset once it is committed."""
        core, messages = self._node.core, frame.messages
        try:
            route = core.routes.table.get(frame.routing_key) or core.routes.miss(frame.routing_key)
        except RejectedError as error:
            self._session.rejected_messages += messages
            self._recorded(error, messages)
            return
        batch = Batch(encode_frame(frame.kind, frame.body, key=frame.key, flags=frame.flags), messages)
        core.publish(self._handler, route, batch)
        self._node.journal.confirm(route, messages, lambda outcome: self._recorded(outcome, messages))

    def _recorded(self, outcome: int | RejectedError, messages: int) -> None:
        """Tell what has become of messages with CONFIRM."""
        if isinstance(outcome, RejectedError):
            notice = Notice("unrecorded", count=messages, code=outcome.code, text=outcome.text)
        else:
            notice = Notice("recorded", count=messages, offset=outcome)
        self._asker.answer(encode_notice(notice))

    def _fetch(self, fetch: Fetch) -> None:
        if self._fetches >= FETCHES_LIMIT:
            text = f"{FETCHES_LIMIT} FETCHes wait for their answers already, which is the limit"
            self._session.reject(RejectedError(CloseCode.TRY_AGAIN_LATER, text), fetch.request)
            return
        self._fetches += 1
        self._node.journal.fetch(fetch, lambda outcome: self._fetched(outcome, fetch.request))

    def _fetched(self, outcome: bytes | bytearray | RejectedError, request: int) -> None:
        """Hand on the answer to a FETCH."""
        self._fetches -= 1
        limit = self._asker.far_frame_limit
        if isinstance(outcome, RejectedError):
            self._refuse(outcome, request)
        elif len(outcome) - HEADER_BYTES > limit:
            text = (
                f"RECORDS of {len(outcome)} bytes, the far side takes {limit}: fetch fewer bytes, or take larger frames"
            )
            self._refuse(RejectedError(CloseCode.TOO_BIG, text), request)
        else:
            self._asker.answer(outcome)

    def _stage(self, stage: Stage) -> None:
        try:
            self._node.journal.stage(self._handler, stage)
        except RejectedError as error:
            self._session.reject(error, stage.request)
        else:
            self._session.confirm(stage.request)

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
