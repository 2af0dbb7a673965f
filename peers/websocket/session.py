"""`Session`: the rules of a WebSocket conversation, without I/O: bytes in, events out.

```
OPENING ──Request──▶ accept()  ─▶ OPEN ─▶ CLOSED     one side has said Close, or the stream made no sense
                 └─▶ respond() ─────────▶ CLOSED     plain HTTP, or rejected
```

The websockets library's `ServerProtocol` reads the handshake, and its `Protocol` frames: the request is forgotten when
it was answered. This class cuts the handshake off (the library would read on as if it were accepted), joins fragments,
and answers pings in the order of the messages. Until the client is authenticated, little is held; later one message.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from http import HTTPStatus
from typing import NamedTuple

from websockets.exceptions import NegotiationError
from websockets.frames import Frame, Opcode
from websockets.http11 import Request, Response
from websockets.protocol import OPEN, SERVER, Protocol
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from hub.errors import CloseCode, ProtocolError
from peers.transport.fragments import Fragments, end_of, pieces_of
from peers.websocket.batches import encode_message
from peers.websocket.codec import JSON, MSGPACK, Codec
from peers.websocket.http_content import is_served
from peers.websocket.http_session import BadRequestError, Piece, PieceSession, path_of, read_head
from peers.websocket.http_session import Head as HttpHead
from peers.websocket.messages import ClientMessage, Error, Hello, HubMessage, Ping, Pong, RefusedError
from peers.wire.control import cut_text
from peers.wire.events import Closing
from peers.wire.scanner import NEED_DATA, NeedData

_HEAD_COST = 10  # events that a request costs: about 150 µs
_BYTES_PER_EVENT = 64  # bytes of frames that are read at the cost of an event: the smallest have 6, and take 4 µs each


class Head(NamedTuple):
    """A piece of the request is there to be read: call `read`."""

    cost: int = _HEAD_COST


Event = Head | Piece | Request | HttpHead | ClientMessage | Closing

_CODECS = {Subprotocol("hub.v1.json"): JSON, Subprotocol("hub.v1.msgpack"): MSGPACK}

_TLS_HEAD = b"\x16\x03"  # the first bytes of a TLS handshake (RFC 8446, section 5.1)


class AnsweredError(ProtocolError):
    """Ends the conversation after an answer that says why."""


class Phase(Enum):
    """Where a conversation stands."""

    OPENING = "before the handshake is over"
    OPEN = "open"
    CLOSED = "closed"


class Session(PieceSession):
    """The hub's side of a conversation.

    Args:
        frame_limit_bytes: Largest message that is taken.
        handshake_limit_bytes: Largest HTTP request that is taken, and largest message before authentication.
    """

    __slots__ = (
        "_fragments",
        "_frame_limit_bytes",
        "_is_first",
        "_is_held",
        "_is_known",
        "_protocol",
        "_replies",
        "_rest",
        "_spoken",
        "codec",
        "phase",
        "rejected_messages",
    )

    _events: Iterator[Event | None]
    phase: Phase  # `accept` leads to OPEN; `respond`, a Close of either side, or an error leads to CLOSED
    codec: Codec  # without a meaning before `accept`
    rejected_messages: int  # messages to publish that were rejected

    def __init__(self, frame_limit_bytes: int, handshake_limit_bytes: int) -> None:
        super().__init__(handshake_limit_bytes)
        self.phase = Phase.OPENING
        self.codec = JSON
        self.rejected_messages = 0
        self._frame_limit_bytes = frame_limit_bytes
        self._rest = b""  # bytes behind a request that is being answered, of the same piece
        self._is_held = False  # whether no more events are returned, except the end
        self._spoken = ""  # the subprotocol or the path, for error messages
        self._is_first = True  # whether `hello` is taken: no message was, except rejected ones
        self._is_known = True  # False from `accept` to `let_in` for unauthenticated clients: messages must be small
        self._protocol: Protocol | None = None  # the library's reader of frames
        self._fragments = Fragments()
        self._replies: list[bytes] = []
        """The library's answers to the last piece, the last one first: a Pong for each Ping, and perhaps a Close. Each
        leaves when its frame is acted on."""

    @property
    def closed(self) -> bool:
        return self.phase is Phase.CLOSED

    # To the client.

    def send(self, message: HubMessage) -> None:
        if self.phase is Phase.OPEN and (frame := self.encode(message)):
            self._outgoing.append(frame)

    def send_ready(self, payload: memoryview) -> None:
        if self.phase is Phase.OPEN:
            self._outgoing.append(encode_message(self.codec.opcode, payload))

    def encode(self, message: HubMessage) -> bytes:
        """Return a message as a ready frame, empty if the codec has no words for it."""
        payload = self.codec.encode(message)
        return encode_message(self.codec.opcode, payload) if payload else b""

    def reject(self, error: RefusedError) -> None:
        self.rejected_messages += error.messages
        self.send(Error(error.code, error.text, error.request, about=error.about))

    def ping(self) -> None:
        if self._protocol is not None and self.phase is Phase.OPEN:
            self._protocol.send_ping(b"")
            self._take_from_library()

    def close(self, code: int, text: str) -> None:
        if self._protocol is not None and self.phase is Phase.OPEN:
            if self._protocol.state is not OPEN:  # the library has closed already, for a frame behind this one
                self._outgoing.extend(reversed(self._replies))
            self._protocol.fail(code, cut_text(text).decode())
            self._take_from_library()
            self._end()

    def _end(self) -> None:
        self.phase = Phase.CLOSED
        self._forget()
        self._protocol = None

    def _forget(self) -> None:
        super()._forget()
        self._rest = b""
        self._replies.clear()
        self._fragments = Fragments()
        if self._protocol is not None:
            self._protocol.reader.discard()

    def accept(self, request: Request, codec: Codec | None = None, *, is_known: bool = True) -> bool:
        """Answer the request with a handshake; return False if it cannot be one, and was rejected.

        Args:
            request: The one that `next_event` has returned.
            codec: The codec of the path; None to agree on one of the hub's own subprotocols.
            is_known: Whether the client is authenticated.
        """
        handshake = ServerProtocol(select_subprotocol=_select if codec is None else _select_none)
        response = handshake.accept(request)
        if response.status_code != HTTPStatus.SWITCHING_PROTOCOLS:
            self.respond(response)
            return False
        if codec is not None:
            self._spoken, self.codec = path_of(request), codec
        else:
            assert handshake.subprotocol is not None  # noqa: S101 -- else it would have been refused
            self._spoken, self.codec = handshake.subprotocol, _CODECS[handshake.subprotocol]
        self._protocol = Protocol(SERVER, max_size=self._frame_limit_bytes)
        self._is_known = is_known
        self._outgoing.append(response.serialize())
        self.phase = Phase.OPEN
        return True

    def let_in(self) -> None:
        self._is_known = True

    def respond(self, response: Response) -> None:
        self._outgoing.append(response.serialize())
        self._end()

    def leave(self) -> bytes:
        """Let another session go on; return the bytes behind the last request."""
        rest = b"".join((self._rest, *self._unread))
        self._end()
        return rest

    def _take_from_library(self) -> None:
        if self._protocol is not None:
            self._outgoing.extend(data for data in self._protocol.data_to_send() if data)  # empty: half-close

    # From the client.

    @property
    def held_bytes(self) -> int:
        return self._message_bytes + len(self._rest) + self._unread_bytes

    @property
    def _message_bytes(self) -> int:
        """Bytes of an incomplete message."""
        return self._fragments.held_bytes + (0 if self._protocol is None else len(self._protocol.reader.buffer))

    @property
    def unfinished(self) -> int:
        return self._fragments.unfinished

    def feed(self, data: bytes) -> None:
        if not (self._is_held or self.phase is Phase.CLOSED):
            self._unread.extend(pieces_of(data))

    def hold(self) -> None:
        self._is_held = True
        self._forget()

    def next_event(self) -> Event | NeedData | None:
        """Return the next event. Bad input raises nothing: it leads to an answer and a `Closing` event.

        Reading takes long, so the connection decides when: `Head` and `Piece` say that there is a piece, until `read`
        was called. A `Request` must be answered by `accept` or `respond` before the next event; a `HttpHead` is for
        another session (`leave`). None stands for something that is dealt with already (a ping, an error).
        """
        for event in self._events:
            return event
        if not self._unread:
            return NEED_DATA
        if self.phase is Phase.OPENING:
            return Head()
        return Piece(1 + len(self._unread[0]) // _BYTES_PER_EVENT)

    def read(self) -> None:
        if self._unread:
            self._events = self._read(bytes(self._unread.pop(0)))

    def _read(self, data: bytes) -> Iterator[Event | None]:
        if self.phase is Phase.OPENING:
            cut = self._cut_head(data)
            if cut is None and self._head.startswith(_TLS_HEAD):
                cut = bytes(self._head), b""
            if cut is None:
                return
            head, data = cut
            self._rest = data
            yield self._read_head(head)
            self._rest = b""
        if self.phase is Phase.OPEN and data:
            yield from self._receive_frames(data)

    def _read_head(self, head: bytes) -> Event:
        if head.startswith(_TLS_HEAD):
            return self._bad_request(
                HTTPStatus.BAD_REQUEST, "the client uses TLS; this port does not: connect to wss://"
            )
        if len(head) > self._head_limit_bytes:
            text = f"the request is over {self._head_limit_bytes} bytes"
            return self._bad_request(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, text)
        try:
            found = read_head(head)
        except BadRequestError as error:
            return self._bad_request(error.status, error.text)
        if is_served(path_of(found.request)):
            return found
        if found.has_body:
            return self._bad_request(HTTPStatus.BAD_REQUEST, "no HTTP request that is answered here has a body")
        return found.request

    def _bad_request(self, status: HTTPStatus, text: str) -> Closing:
        self.respond(ServerProtocol().reject(status, f"{text}\n"))
        return Closing(CloseCode.PROTOCOL_ERROR, text, by_far_side=False)

    def _receive_frames(self, data: bytes) -> Iterator[Event | None]:
        protocol = self._protocol
        assert protocol is not None  # noqa: S101 -- made by accept
        protocol.receive_data(data)
        self._replies = [data for data in protocol.data_to_send() if data]
        self._replies.reverse()
        for frame in protocol.events_received():
            yield self._frame(frame) if isinstance(frame, Frame) else None
            if self.closed:
                return
        self._send_replies()
        ended = self._ended()  # the library may have closed for bytes that it could not read
        if ended is not None:
            yield ended
        elif self._is_too_much(self._message_bytes):
            yield self._refuse_size()

    def _is_too_much(self, size_bytes: int) -> bool:
        """Return whether a client that is not authenticated may not send so much.

        The library does not know this limit: it may read `hello` and a large message behind it in one go.
        """
        return not self._is_known and size_bytes > self._head_limit_bytes

    def _refuse_size(self) -> Closing:
        text = f"a message of more than {self._head_limit_bytes} bytes before authentication: send `hello` first"
        return self._give_up(CloseCode.TOO_BIG, text)

    def _send_replies(self) -> None:
        self._outgoing.extend(reversed(self._replies))
        self._replies.clear()

    def _frame(self, frame: Frame) -> Event | None:
        match frame.opcode:
            case Opcode.PING if self._replies:
                self._outgoing.append(self._replies.pop())
            case Opcode.TEXT | Opcode.BINARY if frame.opcode is not self.codec.opcode:
                return self._give_up(CloseCode.WRONG_KIND, _wrong_kind(self.codec, self._spoken))
            case Opcode.TEXT | Opcode.BINARY | Opcode.CONT:
                return self._part(frame)
            case Opcode.CLOSE:
                self._send_replies()
                return self._ended()
        return None

    def _ended(self) -> Event | None:
        assert self._protocol is not None  # noqa: S101 -- made by accept
        end = end_of(self._protocol)
        if end is None:
            return None
        self._end()
        return Closing(*end)

    def _part(self, frame: Frame) -> Event | None:
        try:
            message = self._fragments.take(frame)
        except ProtocolError as error:
            return self._give_up(error.code, error.text)
        return self._message(message.payload) if message is not None else None

    def _message(self, payload: bytes) -> Event | None:
        if self._is_too_much(len(payload)):
            return self._refuse_size()
        try:
            message = self._decode(payload)
        except RefusedError as error:
            self.reject(error)
            return None
        except ProtocolError as error:
            if isinstance(error, AnsweredError):
                self.send(Error(error.code, error.text))
            return self._give_up(error.code, error.text)
        if isinstance(message, Ping):
            self.send(Pong(message.request))
            return None
        return message

    def _decode(self, payload: bytes) -> ClientMessage:
        message = self.codec.decode(payload)
        if isinstance(message, Hello) and not self._is_first:
            raise RefusedError(CloseCode.NOT_ALLOWED, "hello must be the first message")
        self._is_first = False
        return message

    def _give_up(self, code: int, text: str) -> Closing:
        self.close(code, text)
        return Closing(code, text, by_far_side=False)


def _select(_: ServerProtocol, offered: Sequence[Subprotocol]) -> Subprotocol:
    """Take the first subprotocol of the client that this hub speaks."""
    for name in offered:
        if name in _CODECS:
            return name
    raise NegotiationError(f"offer one of the subprotocols {', '.join(_CODECS)}")


def _select_none(_: ServerProtocol, __: Sequence[Subprotocol]) -> None:
    """Agree on no subprotocol: the path has chosen."""


def _wrong_kind(codec: Codec, spoken: str) -> str:
    if codec.opcode is Opcode.TEXT:
        return f"a binary message under {spoken}, which takes text"
    return f"a text message under {spoken}, which takes binary"
