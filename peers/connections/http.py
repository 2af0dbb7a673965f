"""`HttpConversation`: clients that publish, or follow events, over plain HTTP on the WebSocket port.

```
WebSocketConversation ─ a request for /v1/publish, /v1/events ─▶ HttpConversation
   Asked ─▶ Host, Origin ─▶ who is it? ─▶ handler ─┬─ POST ─▶ Publishing ─▶ one answer, and the next request
                                                   └─ GET  ─▶ Stream ─▶ events, until one side closes
```

A client over HTTP has a handler, so it is listed, closed, charged and paced like all others, and its requests go to the
same commands. A connection belongs to one user. A request costs about 150 µs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from email.utils import formatdate
from functools import partial
from http import HTTPStatus
from typing import Final, cast

import msgspec
from websockets.http11 import Request

from hub.errors import CloseCode, NotRecognisedError, RejectedError
from hub.handlers.handler import Handler
from hub.limits import QueueLimits
from hub.messages.batch import Batch
from hub.messages.frame import HEADER, HEADER_BYTES
from hub.policy.policy import Action
from hub.topics import RESERVED
from peers.commands.commands import CHANGES, Commands
from peers.connections.connection import ELSEWHERE, Connection
from peers.connections.conversation import ClientConversation
from peers.connections.http_pages import CHALLENGE, bearer, refused
from peers.journal.forms import PLACE, Order, granted
from peers.transport.transport import unread_bytes
from peers.values.event_stream import COMMENT, closed_event, cut_event, dropped_event, events_form, gone_event
from peers.websocket.http_content import (
    EVENTS,
    JSON_TYPE,
    TYPES,
    Publishing,
    Values,
    Wanted,
    content_of,
    error_body,
    is_served,
    status_of,
    target_of,
    wanted_of,
)
from peers.websocket.http_session import Asked, Done, Event, Head, HttpSession, Phase, Piece, Refused
from peers.websocket.zeek_codec import client_name
from peers.wire.control import decode_notice
from peers.wire.events import SubscriptionChange
from peers.wire.hello import grant
from peers.wire.kinds import Kind
from peers.wire.records import END_OF_TIME_US, Fetch, decode_records

PIECE_BYTES: Final = 64 * 1024  # bodies in one piece of the journal: 2 ms of work for the reader
AGAIN_S: Final = 0.5  # after how long a piece is asked for again, if too many are, seconds

LIVE_HEADERS: Final = {
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",  # else nginx would keep events until there are many
    "X-Content-Type-Options": "nosniff",
}

LEAST_PAUSE_S: Final = 0.05  # before the end of another hub's journal is checked again, seconds: 20 times a second

MOST_PAUSE_S: Final = 10.0  # the longest such pause, after which records without a bell here are found, seconds

_NO_JOURNAL: Final = "there is no journal here to begin in; ask the hub that records"

_REQUEST: Final = 1  # the number of a stream's requests: there is one at a time


class Stream:
    """One GET of events, live or from the journal.

    ```
    without a journal   handler ─ batches ─▶ events, without ids; its queue overflows by its policy: `dropped`
    recorded            handler ─ batches ─▶ bell ─▶ FETCH ─▶ events as the reader process has made them, with ids
    recorded elsewhere  handler ─ batches ─▶ bell ─┐
                                 time, now and then ┴▶ FETCH ─▶ the same, made by the reader process of the other hub
    ```

    A stream is recorded if this hub, or the one that `journal.of` names, records all of its topics, and the client may
    read the journal and wishes for no queue. Then a slow reader waits in the journal, and no policy is needed: each
    record is written once, in order. A stream whose journal has failed ends, as its losses are unknown.

    ```
    the subscription begins at S ─▶ target = S ─▶ read from `position` up to the target ─▶ wait for the bell ─┐
                                                     ▲────── a message has come: target = end of the journal ─┘
    ```

    Everything before `position` was written, once. New events are read from the journal, too, so that each has the
    offset of its record, and a client that comes back with the last one misses nothing.
    """

    __slots__ = (
        "_commands",
        "_connection",
        "_conversation",
        "_epoch",
        "_handler",
        "_is_accepted",
        "_is_elsewhere",
        "_is_look_soon",
        "_is_reading",
        "_is_rung",
        "_journal",
        "_look_number",
        "_pause_s",
        "_position",
        "_server",
        "_target",
        "_time_us",
        "_unread_bytes",
        "_wanted",
        "is_recorded",
    )

    def __init__(
        self, connection: Connection, conversation: HttpConversation, commands: Commands, wanted: Wanted
    ) -> None:
        server = self._server = connection.server
        self._connection = connection
        self._conversation = conversation
        self._handler = cast("Handler", connection.handler)
        self._commands = commands
        self._wanted = wanted
        self._is_elsewhere = bool(server.settings.journal.of) and not server.journal.id  # another hub's journal
        self._journal: bytes | None = None  # the id of that journal, once it is known
        self.is_recorded = wanted.has_start or (wanted.queue is None and self._is_all_recorded() and self._may_read())
        """Whether events come from the journal."""
        self._is_accepted = False
        self._position: int | None = None  # all before this offset was written; None until accepted
        self._target = 0  # there are records up to this offset
        self._is_reading = False  # whether a piece was asked for
        self._time_us = wanted.time_us  # the time at which it begins; None once its offset is known
        self._epoch = wanted.epoch  # the epoch of the journal in which the position was read; 0 if that is unknown
        self._is_rung = False  # whether the journal will be looked at after this turn
        self._unread_bytes = 0  # bytes that the client had not taken at the last look
        # The end of another hub's journal is unknown here, and messages may come here before they are recorded there,
        # or never. So a stream looks soon once a bell has rung, and then less and less often while nothing is found.
        self._pause_s = LEAST_PAUSE_S
        self._look_number = 0  # of the look that is planned: earlier ones are void
        self._is_look_soon = False

    def _is_all_recorded(self) -> bool:
        topics = tuple(self._server.settings.journal.topics)
        return self._has_journal and all(
            one.startswith(topics) and not one.startswith(RESERVED) for one in self._wanted.prefixes
        )

    @property
    def _has_journal(self) -> bool:
        return bool(self._server.journal.id) or self._is_elsewhere

    def _may_read(self) -> bool:
        rights = self._handler.rights
        return rights is None or all(rights.may_all(Action.JOURNAL, one) for one in self._wanted.prefixes)

    def begin(self) -> None:
        """Subscribe; the answer comes before any message.

        Raises:
            RejectedError: It cannot begin in the journal.
        """
        if self.is_recorded:
            if not self._has_journal:
                raise RejectedError(CloseCode.NOT_ALLOWED, _NO_JOURNAL)
            if not self._is_all_recorded():
                raise RejectedError(CloseCode.NOT_ALLOWED, "topic not recorded here; see journal.topics of the hub")
            granted(Fetch(_REQUEST, prefixes=self._prefixes), self._handler.rights, Action.JOURNAL, narrows=False)
        self._commands.act(SubscriptionChange(subscribe=True, prefixes=self._wanted.prefixes, request=_REQUEST))

    @property
    def _prefixes(self) -> tuple[str, ...]:
        return tuple(self._wanted.prefixes)

    # Answers of the hub.

    def confirmed(self, offset: int | None) -> None:
        if self.is_recorded and self._is_elsewhere:
            time_us = END_OF_TIME_US if not self._epoch else None
            order = Order(_REQUEST, self._wanted.start or 0, time_us, prefixes=self._prefixes, bytes=0, journal=b"")
            # How far that journal reaches, and whether the position holds: `records` is told.
            self._commands.act(msgspec.structs.replace(order, epoch=self._epoch))
        elif self.is_recorded:
            start = self._wanted.start
            if start is not None:
                start = self._server.journal.cut_back(start, self._epoch)
            self._accept(start, offset)
        else:
            self._is_accepted = True
            self._conversation.accept_stream()

    def _accept(self, start: int | None, offset: int | None) -> None:
        """Begin in the journal, which ends at `offset`, or say why not."""
        if offset is None:
            self._turn_away(
                RejectedError(CloseCode.JOURNAL_FAILED, "the journal cannot be written now; ask again later")
            )
            return
        cut = b""  # the event that comes first, if the client was further than the journal is now
        if start is not None and self._wanted.start is not None and start < self._wanted.start:
            cut = cut_event(self._wanted.start, start)
        if self._time_us is not None:
            start = 0
        elif start is None:
            start = offset
        elif start > offset:
            text = f"offset {start} is behind the end of the journal, which is at {offset}: was it another one?"
            self._turn_away(RejectedError(CloseCode.GONE, text))
            return
        self._position, self._target = start, offset
        self._is_accepted = True
        self._conversation.accept_stream()
        if cut:
            self._write(cut)
        self._read_or_rest(start)

    def _turn_away(self, refusal: RejectedError) -> None:
        self._commands.act(SubscriptionChange(subscribe=False, prefixes=self._wanted.prefixes, request=0))
        self._conversation.refuse_stream(refusal)

    def refused(self, error: RejectedError, request: int) -> None:
        if not self._is_accepted and self.is_recorded and self._is_elsewhere:
            self._turn_away(error)  # it has subscribed by then
        elif not self._is_accepted:
            self._conversation.refuse_stream(error)
        elif request and error.code == CloseCode.TRY_AGAIN_LATER and self._position is not None:
            self._is_reading = False
            self.later(AGAIN_S, self.go_on)
        else:
            self._connection.end(error.code, error.text)

    def records(self, body: memoryview) -> None:
        """A piece of the journal has come: write it, and ask for the next one."""
        if self._position is None:  # the hub that records has told how far its journal reaches
            found = decode_records(bytes(body))
            start = found.start if self._epoch else self._wanted.start
            self._journal, self._epoch = found.journal, found.epoch
            self._accept(start, found.head)
            return
        start, place, head, self._epoch = PLACE.unpack_from(body)
        if self._time_us is None and start < self._position:  # records were lost, and others have their offsets
            self._write(cut_event(self._position, start))
            self._position = self._target = start
        self._time_us = None
        if self._is_elsewhere:
            self._target = max(self._target, head)
        text = bytes(body[PLACE.size :])
        if text:
            self._write(text)
        self._read_or_rest(place)

    def gone(self, text: str, first: int) -> None:
        """The records to be read next were deleted: report that, and go on with the oldest ones."""
        if self._position is None:
            self._turn_away(RejectedError(CloseCode.GONE, text))
        elif first <= self._position:
            self._connection.end(CloseCode.GONE, text)
        else:
            self._write(gone_event(self._position, first))
            self._read_or_rest(first)

    def _write(self, text: bytes) -> None:
        if not self._conversation.session.closed:
            self._connection.write([text])

    # The journal.

    def _read_or_rest(self, place: int) -> None:
        """All before `place` was written: ask for a piece; at the known end of another hub's journal, look later."""
        self._is_reading = False
        self._position = max(self._position or 0, place)
        if self._is_elsewhere and self._position >= self._target:
            self._plan_look()
        else:
            self.go_on()

    def _plan_look(self) -> None:
        self._look_number += 1
        pause_s, self._pause_s = self._pause_s, min(2 * self._pause_s, MOST_PAUSE_S)
        self.later(pause_s, partial(self._look_there, self._look_number))

    def _look_there(self, number: int) -> None:
        """Ask whether there is more, unless that was planned anew meanwhile."""
        if self._position is not None and number == self._look_number:
            self._is_look_soon = False
            self._target = max(self._target, self._position + 1)
            self.go_on()

    def go_on(self) -> None:
        position = self._position
        if position is None or self._is_reading or position >= self._target:
            return
        if self._connection.is_choked or self._handler.closed:
            return
        self._is_reading = True
        self._commands.act(
            Order(
                _REQUEST,
                position,
                self._time_us,
                prefixes=self._prefixes,
                bytes=PIECE_BYTES,
                journal=self._journal,
                epoch=self._epoch,
                form="events",
            )
        )

    def _look(self) -> None:
        """A message has come for this stream: the journal has it, or will have it soon."""
        self._is_rung = False
        recorder = self._server.journal.recorder
        head = None if recorder is None else recorder.position()
        if self._position is None or self._handler.closed:
            return
        if head is None or head < self._target:
            text = "the journal cannot be written, so losses are unknown; reconnect with the last id"
            self._connection.end(CloseCode.JOURNAL_FAILED, text)
            return
        self._target = head
        self.go_on()

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        """Call `act` after so long, if the client is still there."""
        self._server.loop.call_later(seconds, lambda: self._connection.guard(act))

    # The handler's messages.

    def render(self, batches: list[Batch]) -> list[bytes]:
        """Return batches as events; or ring, and return nothing."""
        if self.is_recorded and self._is_elsewhere:
            self._pause_s = LEAST_PAUSE_S
            if not self._is_look_soon:
                self._is_look_soon = True
                self._plan_look()
            return []
        if self.is_recorded:
            if not self._is_rung:
                self._is_rung = True
                self._connection.after_turn(self._look)  # by then the journal has them, too
            return []
        return self._conversation.forms(batches, events_form)

    def render_gap(self, lost_messages: int) -> bytes:
        return b"" if self.is_recorded else dropped_event(lost_messages)

    def look_for_life(self) -> None:
        """Say something; a client that has taken something since the last look, or all of it, is alive.

        A client over HTTP says nothing while it follows: the bytes that its system has acknowledged must do.
        """
        unread, before = unread_bytes(self._connection.transport), self._unread_bytes
        self._unread_bytes = unread
        self._conversation.session.say(COMMENT)
        self._connection.write_later()
        if not unread or unread < before:
            self._connection.hear()


_REQUEST_EVENTS = 10  # share of a turn for a request: 100 to 200 µs
_METHODS = {EVENTS: "GET"}  # the method of each path; all others are for publishing

_HOUR_S = "3600"

_LAST_LOOK = 0.9  # the part of the time for an answer to a ping after which a stream's progress is checked once more


class HttpConversation(ClientConversation):
    """One client; also the `Replies` of its commands.

    Args:
        connection: Its connection.
        queue: The queue of a stream that has no wish.
        refusal: Why the hub takes no further connection; empty if it does.
        loopback: Whether the listener is bound to a loopback address.
        any_host: Whether no name can have been made to point here, as at a Unix socket.
    """

    __slots__ = ("_any_host", "_loopback", "_publishing", "_refusal", "_shared_headers", "_stream", "_token_hash")

    session: HttpSession
    changes = CHANGES | {Asked}
    unsaid = "the client closed"

    def __init__(
        self, connection: Connection, queue: QueueLimits, refusal: str, *, loopback: bool, any_host: bool
    ) -> None:
        settings = connection.server.settings
        super().__init__(connection, queue, HttpSession(settings.limits.handshake_bytes, settings.http.body_bytes))
        self._refusal, self._loopback, self._any_host = refusal, loopback, any_host
        self._publishing: Publishing | None = None  # the POST that is being read, or waits for the journal
        self._stream: Stream | None = None
        self._token_hash: bytes | None = None  # of the first request's token: later ones must have the same
        self._shared_headers: dict[str, str] = {}  # they let a browser give the answer to the page that asks

    @property
    def scheme(self) -> str:
        return "http"

    @property
    def is_open(self) -> bool:
        return self._commands is not None

    @property
    def is_quiet(self) -> bool:
        return self._connection.handler is None

    @property
    def is_bell(self) -> bool:
        return self._stream is not None and self._stream.is_recorded

    def act(self, event: Event) -> int:
        match event:
            case Piece():
                self.session.read()
                return event.cost
            case Asked():
                self._asked(event.head)
                return _REQUEST_EVENTS
            case Values() if self._publishing is not None:
                cost = self._publishing.publish(event)
                self._answer_if_settled()
                return cost
            case Done() if self._publishing is not None:
                self._publishing.is_done = True
                self._answer_if_settled()
            case Refused() if self._publishing is not None:
                self._server.rejected_messages += 1
                self._publishing.refuse(event.code, event.text, event.line)
                self._answer_if_settled()
            case Refused():
                self._refuse(event.status, event.code, event.text)
            case _:
                pass
        return 1

    # A request.

    def _asked(self, head: Head) -> None:
        request = head.request
        path, _, query = request.path.partition("?")
        self._shared_headers = {}
        foreign = refused(request, self._server, loopback=self._loopback, any_host=self._any_host)
        if foreign is not None:
            self._server.log.warning("connection refused", address=self._connection.address, reason=foreign.text)
            self._refuse(foreign.status, CloseCode.FORBIDDEN, foreign.text)
            return
        origins = request.headers.get_all("Origin")
        if origins:
            self._shared_headers = {"Access-Control-Allow-Origin": origins[0], "Vary": "Origin"}
            if origins[0].partition("://")[2] == request.headers.get("Host"):
                # A page of this hub: its browser would ask for further files of it over this connection.
                self._shared_headers["Connection"] = "close"
        method = _METHODS.get(path, "POST")
        if not is_served(path):
            text = "there is nothing here: ask for the page, health and metrics on a connection of their own"
            self._refuse(HTTPStatus.NOT_FOUND, CloseCode.BAD_DATA, text)
        elif request.method == "OPTIONS":
            headers = {
                "Access-Control-Allow-Methods": method,
                "Access-Control-Allow-Headers": "Authorization, Content-Type, Last-Event-ID",
                "Access-Control-Max-Age": _HOUR_S,
                "Allow": f"{method}, OPTIONS",
            }
            self._respond(HTTPStatus.NO_CONTENT, b"", headers)
        elif request.method != method:
            text = f"{method} is answered here"
            self._refuse(HTTPStatus.METHOD_NOT_ALLOWED, CloseCode.BAD_DATA, text, Allow=f"{method}, OPTIONS")
        elif self._lets_in(request):
            try:
                if path == EVENTS:
                    self._follow(head, query)
                else:
                    self._receive(head, path, query)
            except RejectedError as error:
                self._stream = None
                self._refuse(status_of(error.code), error.code, error.text)

    def _lets_in(self, request: Request) -> bool:
        """Return whether the client may ask; if not, it is rejected, perhaps later."""
        connection = self._connection
        token = bearer(request.headers.get_all("Authorization"))
        token_hash = hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
        if self._commands is not None:
            if token_hash == self._token_hash:
                return True
            text = "this connection belongs to the user of its first request; ask over another one"
            self._refuse(HTTPStatus.MISDIRECTED_REQUEST, CloseCode.NOT_ALLOWED, text, Connection="close")
            return False
        if self._refusal:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, CloseCode.TRY_AGAIN_LATER, self._refusal)
            return False
        try:
            self._enter(token)
            self._take_place()
        except NotRecognisedError as error:
            connection.turn_away(error)
            return False
        except RejectedError as error:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, error.code, error.text)
            return False
        self._token_hash = token_hash
        handler = self._join_client(client_name(request.headers), self._queue, posts=False)
        self._commands = Commands(self._server, handler, self)
        connection.opened()
        name, user = handler.name, connection.user
        self._server.log.info(
            "client connected", address=connection.address, name=name, user=user, protocol=connection.protocol
        )
        return True

    # POST.

    def _receive(self, head: Head, path: str, query: str) -> None:
        target = target_of(path, query)
        headers = head.request.headers
        if not head.has_length:
            text = "how long is the body? Say Content-Length, or send it in chunks"
            self._refuse(HTTPStatus.LENGTH_REQUIRED, CloseCode.BAD_DATA, text)
            return
        content = content_of(", ".join(headers.get_all("Content-Type")), self._server.settings.limits.frame_bytes)
        if content is None or headers.get_all("Content-Encoding"):
            text = f"Content-Type: one of {TYPES} is accepted, uncompressed"
            self._refuse(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, CloseCode.WRONG_KIND, text)
            return
        refused = self.session.receive(head, content)
        if refused is not None:
            self._refuse(refused.status, refused.code, refused.text)
            return
        self._publishing = Publishing(target, cast("Commands", self._commands).act)

    def _answer_if_settled(self) -> None:
        """Answer the POST that was read, or wait until the journal has it."""
        publishing = self._publishing
        if publishing is None or not (publishing.is_done or publishing.is_refused):
            return
        if not publishing.is_settled:
            self._connection.stop_reading(ELSEWHERE)
            return
        self._publishing = None
        self._respond(*publishing.answer())

    # GET.

    def _follow(self, head: Head, query: str) -> None:
        if head.has_body:
            raise RejectedError(CloseCode.BAD_DATA, "a GET has no body")
        wanted = wanted_of(query, head.request.headers.get_all("Last-Event-ID"))
        handler = cast("Handler", self._connection.handler)
        most = self._server.settings.queue_max
        handler.limits = grant(wanted.queue, self._queue, most.messages, most.bytes)
        handler.name = wanted.name or handler.name
        self._stream = Stream(self._connection, self, cast("Commands", self._commands), wanted)
        self._stream.begin()

    def accept_stream(self) -> None:
        self.session.stream({"Date": formatdate(usegmt=True)} | LIVE_HEADERS | self._shared_headers)
        self._connection.write_later()

    def refuse_stream(self, error: RejectedError) -> None:
        self._stream = None
        self._refuse(status_of(error.code), error.code, error.text)
        self._connection.write_outgoing()

    # Replies to commands.

    def confirm(
        self,
        request: int,
        offset: int | None = None,
        *,
        text: str = "",  # noqa: ARG002 -- of claims
        messages: int = 0,  # noqa: ARG002 -- of COMMIT
        again: bool = False,  # noqa: ARG002 -- the same
    ) -> None:
        if self._publishing is not None:
            self._publishing.confirmed(request)
        elif self._stream is not None:
            self._stream.confirmed(offset)

    def reject(self, error: RejectedError, request: int = 0) -> None:
        if self._publishing is not None:
            self._publishing.refused(error, request)
        elif self._stream is not None:
            self._stream.refused(error, request)

    def recorded(self, request: int, offset: int, messages: int) -> None:
        if self._publishing is not None:
            self._publishing.recorded(request, offset, messages)

    def send_records(self, answer: bytes | bytearray, request: int) -> None:
        stream = self._stream
        if stream is None:
            return
        _, kind, _, _ = HEADER.unpack_from(answer)
        body = memoryview(answer)[HEADER_BYTES:]
        if kind == Kind.RECORDS:
            stream.records(body)
            return
        notice = decode_notice(bytes(body))
        if notice.code == CloseCode.GONE and notice.offset is not None:
            stream.gone(notice.text, notice.offset)
        else:
            stream.refused(RejectedError(notice.code, notice.text), request)

    def write_later(self) -> None:
        """The journal has said something about a POST."""
        publishing = self._publishing
        if publishing is not None and publishing.is_settled:
            self._answer_if_settled()
            if not self.session.closed:
                self._connection.go_on()

    # Answers.

    def _refuse(self, status: HTTPStatus, code: int, text: str, **headers: str) -> None:
        self._connection.reason = f"{text} (HTTP {status.value})"
        self._respond(status, error_body(code, text), headers)

    def _respond(self, status: HTTPStatus, body: bytes, headers: dict[str, str] | None = None) -> None:
        kind = {
            "Date": formatdate(usegmt=True),
            "Content-Type": JSON_TYPE,
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
        }
        if status is HTTPStatus.SERVICE_UNAVAILABLE:
            kind["Retry-After"] = "1"
        is_more = self.session.respond(status, kind | self._shared_headers | (headers or {}), body)
        if not is_more:
            self._connection.reason = self._connection.reason or f"answered with HTTP {status.value}"
            self._connection.linger()

    def close(self, code: int, text: str) -> str:
        session = self.session
        if session.phase is Phase.STREAM:
            session.say(closed_event(code, text))
        elif session.phase is not Phase.HEAD:
            published = {} if self._publishing is None else {"messages": self._publishing.messages}
            headers = CHALLENGE if code == CloseCode.NOT_RECOGNISED else {}
            headers = headers | {"Content-Type": JSON_TYPE, "Connection": "close"} | self._shared_headers
            status = status_of(code)
            if code == CloseCode.PROTOCOL_ERROR:  # it was waited for too long
                status, text = HTTPStatus.REQUEST_TIMEOUT, "the request was not complete in time"
            session.respond(status, headers, error_body(code, text, **published))
        session.close()
        return f"{text} ({int(code)})"

    def time_out(self) -> None:
        self._connection.end(CloseCode.PROTOCOL_ERROR, "no request of an authenticated client")

    # The handler's messages.

    def render(self, batches: list[Batch]) -> list[bytes]:
        stream = self._stream
        return [] if stream is None or self.session.phase is not Phase.STREAM else stream.render(batches)

    def render_gap(self, lost_messages: int) -> bytes:
        return b"" if self._stream is None else self._stream.render_gap(lost_messages)

    def write_more(self) -> None:
        if self._stream is not None:
            self._stream.go_on()

    def ping(self) -> None:
        if self._stream is not None:
            self._stream.look_for_life()
            self._stream.later(self._server.settings.limits.ping_timeout_s * _LAST_LOOK, self._stream.look_for_life)

    def leave(self, reason: str) -> None:
        super().leave(reason)
        self._publishing = self._stream = None

    def conclude(self) -> None:
        super().conclude()
        self._publishing = self._stream = None
