"""`JournalRequests`: confirmations, FETCH, STAGE and COMMIT of one client.

```
messages with CONFIRM ─▶ core, journal ── commit ─▶ recorded, unrecorded
FETCH                 ─▶ a reader process        ─▶ the frame that it has made
STAGE, COMMIT         ─▶ journal                 ─▶ confirmed
```

Confirmations come in the order of the messages; other answers in any order.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import NamedTuple

import msgspec

from hub.errors import CloseCode, RejectedError
from hub.handlers.handler import Handler
from hub.messages.frame import HEADER_BYTES
from hub.policy.policy import Action, Rights
from hub.quotas import Resource
from hub.routing.routes import Route
from peers.commands.publish import Publication
from peers.commands.replies import Replies
from peers.journal.forms import granted
from peers.journal.remote_journals import Cancel, nothing
from peers.journal.staging import Committed
from peers.journal.view import LARGE_FACTOR
from peers.server.server import Server
from peers.wire.records import Commit, Fetch, Stage

FETCHES_LIMIT = 256
"""Most waiting FETCHes of one connection: one for each of its streams, and some readers."""

FETCH_LIMIT_BYTES = 4 * 1024 * 1024
"""Most bytes of records for one FETCH; larger answers are no quicker."""

_ANSWERS_BYTES = 16 * 1024 * 1024
"""Bytes of records that the FETCHes of a connection share; an answer of whole blocks may be `LARGE_FACTOR` times it."""

_HEAD_BYTES = 1024
"""Room for the head of RECORDS; `LARGE_FACTOR` leaves room for the lengths of blocks."""


class _Confirmation:
    """The confirmation of one frame."""

    __slots__ = ("messages", "outcome", "request")

    messages: int

    request: int
    """The publisher's number for the frame, or 0."""

    outcome: int | RejectedError | None
    """The first offset, or why nothing was recorded; None until the journal has decided."""

    def __init__(self, request: int, messages: int) -> None:
        self.request = request
        self.messages = messages
        self.outcome = None


class _Fetch(NamedTuple):
    """A waiting FETCH."""

    cancel: Cancel
    is_here: bool
    """Whether it is for the journal of this hub, and ends at once when cancelled."""


class JournalRequests:
    """The journal requests of one client."""

    __slots__ = ("_confirmations", "_far", "_fetches", "_handler", "_server")

    _fetches: dict[int, _Fetch]
    """Waiting FETCHes by request number."""

    _confirmations: deque[_Confirmation]
    """Confirmations in the order of the messages; the first one has no outcome yet."""

    def __init__(self, server: Server, handler: Handler, far: Replies) -> None:
        self._server = server
        self._handler = handler
        self._far = far
        self._fetches = {}
        self._confirmations = deque()

    def close(self) -> None:
        """Cancel everything, as the client has gone."""
        for fetch in self._fetches.values():
            fetch.cancel()
        self._fetches.clear()
        self._confirmations.clear()

    # Confirmations.

    def publish(self, publication: Publication, route: Route) -> None:
        """Publish, and confirm with the offset once the journal has committed it."""
        server, confirmation = self._server, self._expect(publication.request, publication.messages)
        server.journal.confirm(
            route,
            publication.batch,
            partial(server.core.publish, self._handler, route),
            lambda outcome: self._settle(confirmation, outcome),
        )

    def refuse(self, error: RejectedError, request: int, messages: int) -> None:
        """Reject messages, after all earlier confirmations."""
        self._server.rejected_messages += messages
        self._settle(self._expect(request, messages), error)

    def _expect(self, request: int, messages: int) -> _Confirmation:
        confirmation = _Confirmation(request, messages)
        self._confirmations.append(confirmation)
        return confirmation

    def _settle(self, confirmation: _Confirmation, outcome: int | RejectedError) -> None:
        """Note an outcome, and send all confirmations in front of the first undecided one."""
        confirmation.outcome = outcome
        waiting, far = self._confirmations, self._far
        while waiting and (known := waiting[0].outcome) is not None:
            settled = waiting.popleft()
            if isinstance(known, RejectedError):
                far.unrecorded(known, settled.request, settled.messages)
            else:
                far.recorded(settled.request, known, settled.messages)
        far.write_later()

    # Reading.

    def fetch(self, fetch: Fetch) -> None:
        """Have a reader process read the journal. A FETCH replaces a waiting one with its number.

        Raises:
            RejectedError: A FETCH with this number is being read, too many FETCHes wait, or the client may not read it.
        """
        request = fetch.request
        self._give_up(request)
        if request in self._fetches or len(self._fetches) >= FETCHES_LIMIT:
            text = f"this FETCH, or {FETCHES_LIMIT} of them, which is the limit, wait for an answer already"
            raise RejectedError(CloseCode.TRY_AGAIN_LATER, text)
        room = _ANSWERS_BYTES // (len(self._fetches) + 1)
        most = min(FETCH_LIMIT_BYTES, room, self._far.frame_limit_bytes // (LARGE_FACTOR + 2) - _HEAD_BYTES)
        most = max(1, most)
        rights = self._handler.rights
        order = msgspec.structs.replace(fetch, bytes=min(fetch.bytes, most))
        if len(fetch.prefixes) <= self._server.settings.limits.prefixes_per_client:  # else the journal refuses them
            order = granted(order, rights, Action.JOURNAL, narrows=self._handler.narrows)
        self._fetches[request] = _Fetch(nothing, is_here=False)  # the journal may answer within the call
        journal = self._server.remote_journals if fetch.hub else self._server.journal
        is_here = bool(self._server.journal.id) and not fetch.hub
        share = self._handler.share
        usage = None if share is None else share[Resource.JOURNAL_READS]
        cancel = journal.fetch(order, lambda outcome: self._fetched(outcome, fetch, rights), usage)
        if request in self._fetches:  # it was not answered within the call
            self._fetches[request] = _Fetch(cancel, is_here)

    def _give_up(self, request: int) -> None:
        """Cancel a FETCH that waits for a commit, as its number is used again."""
        waiting = self._fetches.get(request)
        if waiting is not None and waiting.is_here and waiting.cancel():
            del self._fetches[request]

    def _fetched(self, outcome: bytes | bytearray | RejectedError, fetch: Fetch, rights: Rights | None) -> None:
        """Send the answer; `rights` are those at the time of the FETCH, up to a minute ago."""
        request = fetch.request
        self._fetches.pop(request, None)
        limit = self._far.frame_limit_bytes
        if self._handler.rights is not rights:
            outcome = RejectedError(CloseCode.TRY_AGAIN_LATER, "what you may do has changed meanwhile: ask again")
        if isinstance(outcome, RejectedError):
            self._reject(outcome, request)
        elif (share := self._handler.share) is not None and not self._handler.has_room(len(outcome)):
            self._reject(share[Resource.QUEUED_BYTES].rejection(len(outcome)), request)
        elif len(outcome) - HEADER_BYTES > limit:
            text = f"RECORDS of {len(outcome)} bytes with one record, the far side takes {limit}: take larger frames"
            self._reject(RejectedError(CloseCode.TOO_BIG, text), request)
        else:
            self._far.send_records(outcome, request)
            self._far.write_later()

    # Writing.

    def stage(self, stage: Stage) -> None:
        """Have the journal keep messages until their COMMIT."""

        def answer(error: RejectedError | None) -> None:
            if error is not None:
                self._reject(error, stage.request)
            else:
                self._far.confirm(stage.request)
                self._far.write_later()

        self._server.journal.stage(self._handler, stage, answer)

    def commit(self, commit: Commit) -> None:
        """Have the journal route and record everything that was staged, or nothing."""

        def answer(outcome: Committed | RejectedError) -> None:
            if isinstance(outcome, RejectedError):
                self._reject(outcome, commit.request)
                return
            first, messages, again = outcome
            self._far.confirm(commit.request, first, messages=messages, again=again)
            self._far.write_later()

        self._server.journal.commit(self._handler, commit, answer)

    def _reject(self, error: RejectedError, request: int) -> None:
        self._far.reject(error, request)
        self._far.write_later()
