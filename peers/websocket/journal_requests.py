"""`JournalRequests`: what one WebSocket client asks of the hub's journal: pieces of it, and confirmations.

```
fetch               ─▶ Order ─▶ reader process ─▶ a `records` message, ready ─▶ one WebSocket frame
publish, confirm    ─▶ core, journal ─ commit ─▶ `recorded`
```

Owner: one conversation, which makes it when it is asked for the first of them. Invariants: each request has one answer,
which bears its number; answers to `fetch` come in any order. Cost: a copy of each answer; values are not looked into
here.

Not here: the journal (`peers.journal`), the same for frames (`peers.tcp.journal_requests`).
"""

from __future__ import annotations

from typing import Final, Protocol

from websockets.frames import Opcode

from hub.errors import CloseCode, InvalidTopicError, RejectedError
from hub.frame import HEADER, HEADER_BYTES
from hub.topics import check_prefix
from peers.journal.forms import Form, Order
from peers.node import Node
from peers.websocket.messages import Error, Fetch, Publication, Recorded, RefusedError
from peers.websocket.session import Session
from peers.wire.control import decode_notice
from peers.wire.kinds import Kind
from peers.wire.records import FETCH_BYTES

__all__ = ["FETCHES_LIMIT", "JSON_BYTES", "JSON_LIMIT_BYTES", "JournalRequests"]

FETCHES_LIMIT: Final = 16
"""Most `fetch` of one connection that are not answered yet."""

JSON_BYTES: Final = 64 * 1024
"""Default of the values in one answer under `hub.v1.json`: 2 ms of work for the reader."""

JSON_LIMIT_BYTES: Final = 1024 * 1024
"""Most of them, whatever is asked for."""

_ENVELOPE_BYTES: Final = 64 * 1024
"""What may stand around the largest value in an answer."""


class Asker(Protocol):
    """The connection."""

    def speak(self) -> None:
        """Write what the session has to say, soon."""


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
        self._fetches = 0  # not answered yet

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
            RefusedError: Too many wait already, or a prefix is none.
        """
        if self._fetches >= FETCHES_LIMIT:
            text = f"{FETCHES_LIMIT} fetches wait for their answers already, which is the limit"
            raise RefusedError(CloseCode.TRY_AGAIN_LATER, text, fetch.request)
        order = self._order(fetch)
        self._fetches += 1
        self._node.journal.fetch(order, lambda outcome: self._fetched(outcome, fetch.request))

    def _order(self, fetch: Fetch) -> Order:
        """Make the order of a client's message.

        Raises:
            RefusedError: A prefix is none.
        """
        form: Form = "json" if self._session.codec.opcode is Opcode.TEXT else "msgpack"
        wanted, most = (JSON_BYTES, JSON_LIMIT_BYTES) if form == "json" else (FETCH_BYTES, self._frame_bytes)
        try:
            prefixes = tuple(check_prefix(prefix) for prefix in fetch.prefixes)
        except InvalidTopicError as error:
            raise RefusedError(CloseCode.BAD_DATA, f"fetch: {error}", fetch.request) from error
        size = min(wanted if fetch.bytes is None else fetch.bytes, most)
        time_us = None if fetch.time_ms is None else round(fetch.time_ms * 1000)
        return Order(fetch.request, fetch.start, time_us, fetch.end, prefixes, size, fetch.wait_ms, form)

    @property
    def _frame_bytes(self) -> int:
        return self._node.settings.limits.frame_bytes

    def _fetched(self, outcome: bytes | bytearray | RejectedError, request: int) -> None:
        """Hand on what a reader process has answered: a message that is ready, or a notice that says why not."""
        self._fetches -= 1
        if isinstance(outcome, RejectedError):
            self._say(Error(outcome.code, outcome.text, request))
            return
        _, kind, _, _ = HEADER.unpack_from(outcome)
        body = memoryview(outcome)[HEADER_BYTES:]
        limit = self._frame_bytes + _ENVELOPE_BYTES
        if kind != Kind.RECORDS:
            notice = decode_notice(bytes(body))
            self._say(Error(notice.code, notice.text, request, notice.offset))
        elif len(body) > limit:
            text = f"records of {len(body)} bytes, the limit is {limit}: fetch fewer bytes"
            self._say(Error(CloseCode.TOO_BIG, text, request))
        else:
            self._session.send_ready(body)
            self._asker.speak()

    def _say(self, message: Error | Recorded) -> None:
        self._session.send(message)
        self._asker.speak()
