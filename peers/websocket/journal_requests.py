"""`JournalRequests`: what one WebSocket client asks of the hub's journal: pieces of it, and confirmations.

```
fetch               ─▶ Order ─▶ reader process ─▶ a `records` message, ready ─▶ one WebSocket frame
publish, confirm    ─▶ core, journal ─ commit ─▶ `recorded`
```

Owner: one conversation, which makes it when it is asked for the first of them. Invariants: each request has one answer,
which bears its number; answers come in any order. Cost: a copy of each answer; values are not looked into here.

Not here: the journal (`peers.journal`), the same for frames (`peers.tcp.journal_requests`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from websockets.frames import Opcode

from hub.errors import CloseCode, RejectedError
from hub.frame import HEADER, HEADER_BYTES
from peers.journal.forms import Form, Order
from peers.journal.journal import Cancel
from peers.journal.view import LARGE_FACTOR
from peers.node import Node
from peers.websocket.messages import Error, Fetch, Publication, Recorded, RefusedError
from peers.websocket.session import Session
from peers.wire.control import decode_notice
from peers.wire.kinds import Kind
from peers.wire.records import FETCH_BYTES

__all__ = ["FETCHES_LIMIT", "FETCH_LIMIT_BYTES", "JSON_BYTES", "JSON_LIMIT_BYTES", "JournalRequests"]

FETCHES_LIMIT: Final = 16
"""Most `fetch` of one connection that are not answered yet."""

FETCH_LIMIT_BYTES: Final = 4 * 1024 * 1024
"""Most of what one `fetch` may ask for under `hub.v1.msgpack`; more is taken for this."""

JSON_BYTES: Final = 64 * 1024
"""Default of the values in one answer under `hub.v1.json`: 2 ms of work for the reader."""

JSON_LIMIT_BYTES: Final = 1024 * 1024
"""Most of them, whatever is asked for."""

_END_OF_TIME_US: Final = 2**63 - 1

_ENVELOPE_BYTES: Final = 64 * 1024
"""What may stand around the largest value in an answer."""


class Asker(Protocol):
    """The connection."""

    def speak(self) -> None:
        """Write what the session has to say, soon."""

    def when_gone(self, act: Callable[[], None]) -> None:
        """Call `act` when nobody is there to be answered any more."""


class JournalRequests:
    """The requests of one client.

    Args:
        node: The hub.
        session: Where it is answered.
        asker: Told when there is an answer outside of a read.
    """

    __slots__ = ("_asker", "_fetches", "_node", "_session")

    def __init__(self, node: Node, session: Session, asker: Asker) -> None:
        self._node = node
        self._session = session
        self._asker = asker
        self._fetches: dict[int, Cancel] = {}  # not answered yet, and how to be done with them
        asker.when_gone(self._cancel)

    def confirm(self, publication: Publication) -> None:
        """Tell the offset of what was just published, once it is committed."""

        def answer(outcome: int | RejectedError) -> None:
            if isinstance(outcome, RejectedError):
                self._say(Error(outcome.code, outcome.text, publication.request))
            else:
                self._say(Recorded(publication.request, outcome, publication.messages))

        routes, key = self._node.core.routes, publication.routing_key
        route = routes.table.get(key) or routes.miss(key)
        self._node.journal.confirm(route, publication.messages, answer)

    def fetch(self, fetch: Fetch) -> None:
        """Have a piece read.

        Raises:
            RefusedError: It waits already, or too many do.
        """
        request = fetch.request
        if request in self._fetches or len(self._fetches) >= FETCHES_LIMIT:
            text = f"this fetch, or {FETCHES_LIMIT} of them, which is the limit, wait for an answer already"
            raise RefusedError(CloseCode.TRY_AGAIN_LATER, text, request)
        self._fetches[request] = _nothing
        cancel = self._node.journal.fetch(self._order(fetch), lambda outcome: self._fetched(outcome, request))
        if request in self._fetches:
            self._fetches[request] = cancel

    def _order(self, fetch: Fetch) -> Order:
        """Say it as reader processes take it."""
        form: Form = "json" if self._session.codec.opcode is Opcode.TEXT else "msgpack"
        usual, most = (JSON_BYTES, JSON_LIMIT_BYTES) if form == "json" else (FETCH_BYTES, FETCH_LIMIT_BYTES)
        size = min(usual if fetch.bytes is None else fetch.bytes, most, max(1, self._limit_bytes // (LARGE_FACTOR + 2)))
        time_us = None if fetch.time_ms is None else min(round(fetch.time_ms * 1000), _END_OF_TIME_US)
        return Order(fetch.request, fetch.start, time_us, fetch.end, fetch.prefixes, size, fetch.wait_ms, form)

    @property
    def _limit_bytes(self) -> int:
        """Largest answer."""
        return self._node.settings.limits.frame_bytes + _ENVELOPE_BYTES

    def _cancel(self) -> None:
        """The client has gone: do nothing more for it that can be left."""
        for cancel in self._fetches.values():
            cancel()
        self._fetches.clear()

    def _fetched(self, outcome: bytes | bytearray | RejectedError, request: int) -> None:
        """Hand on what a reader process has answered: a message that is ready, or a notice that says why not."""
        self._fetches.pop(request, None)
        if isinstance(outcome, RejectedError):
            self._say(Error(outcome.code, outcome.text, request))
            return
        _, kind, _, _ = HEADER.unpack_from(outcome)
        body = memoryview(outcome)[HEADER_BYTES:]
        if kind != Kind.RECORDS:
            notice = decode_notice(bytes(body))
            self._say(Error(notice.code, notice.text, request, notice.offset))
        elif len(body) > self._limit_bytes:
            text = f"records of {len(body)} bytes with one record, the limit is {self._limit_bytes}"
            self._say(Error(CloseCode.TOO_BIG, text, request))
        else:
            self._session.send_ready(body)
            self._asker.speak()

    def _say(self, message: Error | Recorded) -> None:
        self._session.send(message)
        self._asker.speak()


def _nothing() -> None:
    """There is nothing to cancel yet."""
