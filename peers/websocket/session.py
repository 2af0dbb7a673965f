"""`Session`: the rules of a WebSocket conversation, without I/O: bytes in, events out.

```
OPENING ──Request──▶ accept()  ─▶ OPEN ─▶ CLOSED     one side has said Close, or the stream made no sense
                 └─▶ respond() ─────────▶ CLOSED     plain HTTP, or refused
```

What the messages mean is a tongue: the hub's own two codecs, one of which the handshake agrees on, or another that the
shell chose by the path of the request (`accept`).

The handshake is read by the websockets library's `ServerProtocol`, frames by its `Protocol`: two objects, so that the
request is forgotten once it was answered. This class cuts the handshake from what follows it (the library would read on
as if it were accepted), puts fragments together, tells messages of the wrong kind, and answers what needs no hub.

A shell feeds what it read to `receive`, acts on the events, then writes `take_outgoing()`. Once `closed`, it
half-closes behind that; what comes later is thrown away.

Owner: one connection. Invariants: before the handshake is over at most `handshake_limit_bytes` and one read are held,
later one message; answers stand in the order of the messages that they answer. Not here: who may connect, clocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from http import HTTPStatus
from typing import Protocol as Shape

from websockets.exceptions import NegotiationError
from websockets.frames import Frame, Opcode
from websockets.http11 import Request, Response
from websockets.protocol import OPEN, SERVER, Protocol
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from hub.batch import Batch
from hub.errors import CloseCode, ProtocolError
from peers.forms import Form
from peers.websocket.codec import JSON, MSGPACK
from peers.websocket.framing import encode_message
from peers.websocket.messages import (
    ClientMessage,
    Confirmed,
    Error,
    HubMessage,
    Ping,
    Pong,
    RefusedError,
)
from peers.wire.control import cut_text
from peers.wire.session import Closing

__all__ = ["AnsweredError", "Event", "Phase", "Session", "Tongue"]

Event = Request | ClientMessage | Closing

_CODECS = {Subprotocol("hub.v1.json"): JSON, Subprotocol("hub.v1.msgpack"): MSGPACK}

_HEAD_END = b"\r\n\r\n"

_SHOWN_CHARACTERS = 200
"""How much of the library's reason is repeated: it may quote a whole line of the request."""


class Tongue(Shape):
    """What the messages of a conversation mean."""

    @property
    def opcode(self) -> Opcode:
        """Kind of its WebSocket messages, both ways."""

    @property
    def form(self) -> Callable[[Batch], Form]:
        """Gives a batch its ready frames, for `Batch.form`."""

    @property
    def decode(self) -> Callable[[bytes], ClientMessage]:
        """Reads what a client sent; raises `ProtocolError` or `RefusedError`."""

    @property
    def encode(self) -> Callable[[HubMessage], bytes]:
        """Writes what the hub answers; what has no words in this tongue is empty, and is not said."""


class AnsweredError(ProtocolError):
    """Ends the conversation, behind an answer that says why."""


class Phase(Enum):
    """Where a conversation stands."""

    OPENING = "before the handshake is over"
    OPEN = "open"
    CLOSED = "closed"


class Session:
    """The hub's side of a conversation.

    Args:
        frame_limit_bytes: Largest message taken.
        handshake_limit_bytes: Largest HTTP request taken.
    """

    __slots__ = (
        "_fragments",
        "_frame_limit_bytes",
        "_handshake_limit_bytes",
        "_head",
        "_outgoing",
        "_protocol",
        "_spoken",
        "codec",
        "phase",
        "rejected_messages",
    )

    phase: Phase
    codec: Tongue
    """What is spoken, once it is OPEN."""
    rejected_messages: int
    """Messages that were to be published and were refused, for the shell to collect."""

    def __init__(self, frame_limit_bytes: int, handshake_limit_bytes: int) -> None:
        self.phase = Phase.OPENING
        self.codec = JSON
        self.rejected_messages = 0
        self._frame_limit_bytes = frame_limit_bytes
        self._handshake_limit_bytes = handshake_limit_bytes
        self._head = bytearray()
        self._spoken = ""
        self._protocol: Protocol | None = None
        self._fragments: bytearray | None = None
        self._outgoing: list[bytes] = []

    @property
    def closed(self) -> bool:
        """Whether nothing more is to be said, by either side."""
        return self.phase is Phase.CLOSED

    # What the hub says.

    def send(self, message: HubMessage) -> None:
        """Put a message into what goes out next, unless the conversation is over."""
        if self.phase is Phase.OPEN and (frame := self.encode(message)):
            self._outgoing.append(frame)

    def send_ready(self, payload: memoryview) -> None:
        """Put a message that is encoded already into what goes out next, unless the conversation is over."""
        if self.phase is Phase.OPEN:
            self._outgoing.append(encode_message(self.codec.opcode, payload))

    def encode(self, message: HubMessage) -> bytes:
        """Return a message as a ready frame of this conversation's tongue, empty if that has no words for it."""
        payload = self.codec.encode(message)
        return encode_message(self.codec.opcode, payload) if payload else b""

    def confirm(self, request: int, offset: int | None = None) -> None:
        """Tell the client that its request was carried out, if it wants to know; for a subscription, from where on."""
        if request:
            self.send(Confirmed(request, offset))

    def reject(self, error: RefusedError) -> None:
        """Tell the client that one message of its was refused."""
        self.rejected_messages += error.messages
        self.send(Error(error.code, error.text, error.request, about=error.about))

    def ping(self) -> None:
        """Ask for a sign of life."""
        if self._protocol is not None and self.phase is Phase.OPEN:
            self._protocol.send_ping(b"")
            self._take_from_library()

    def close(self, code: int, text: str) -> None:
        """End an open conversation from this side."""
        if self._protocol is not None and self.phase is Phase.OPEN:
            self.phase = Phase.CLOSED
            self._protocol.fail(code, cut_text(text).decode())
            self._take_from_library()

    def accept(self, request: Request, tongue: Tongue | None = None) -> bool:
        """Answer the request with a handshake; False if it was none that this hub can take, and was refused.

        Args:
            request: The one that was yielded.
            tongue: What is spoken, whatever subprotocols the client offers; None for one of the hub's own that it does.
        """
        handshake = ServerProtocol(select_subprotocol=_select if tongue is None else _select_none)
        response = handshake.accept(request)
        if response.status_code != HTTPStatus.SWITCHING_PROTOCOLS:
            self.respond(response)
            return False
        if tongue is not None:
            self._spoken, self.codec = request.path.partition("?")[0], tongue
        else:
            assert handshake.subprotocol is not None  # noqa: S101 -- else it would have been refused
            self._spoken, self.codec = handshake.subprotocol, _CODECS[handshake.subprotocol]
        self._protocol = Protocol(SERVER, max_size=self._frame_limit_bytes)
        self._outgoing.append(response.serialize())
        self.phase = Phase.OPEN
        return True

    def respond(self, response: Response) -> None:
        """Answer with plain HTTP, and be done."""
        self._outgoing.append(response.serialize())
        self._head = bytearray()
        self.phase = Phase.CLOSED

    def take_outgoing(self) -> list[bytes]:
        """Return and forget what is to be written now."""
        outgoing, self._outgoing = self._outgoing, []
        return outgoing

    @property
    def has_outgoing(self) -> bool:
        """Whether there is something to be written."""
        return bool(self._outgoing)

    def _take_from_library(self) -> None:
        if self._protocol is not None:
            self._outgoing.extend(data for data in self._protocol.data_to_send() if data)  # empty: half-close

    # What the client says.

    def receive(self, data: bytes) -> Iterator[Event]:
        """Yield what the client says. Never raises for bad input: that becomes an answer and a `Closing` event.

        A `Request` must be answered by `accept` or `respond` before the next event is asked for.
        """
        if self.phase is Phase.OPENING:
            cut = self._cut_head(data)
            if cut is None:
                return
            head, data = cut
            yield self._read_head(head)
        if self.phase is Phase.OPEN and data:
            yield from self._receive_frames(data)

    def _cut_head(self, data: bytes) -> tuple[bytes, bytes] | None:
        """Return the HTTP request and what follows it, None if it is not complete."""
        head = self._head
        searched = max(0, len(head) - len(_HEAD_END) + 1)
        head += data
        end = head.find(_HEAD_END, searched)
        if end < 0 and len(head) <= self._handshake_limit_bytes:
            return None
        size = len(head) if end < 0 else end + len(_HEAD_END)
        self._head = bytearray()
        return bytes(head[:size]), bytes(head[size:])

    def _read_head(self, head: bytes) -> Event:
        handshake = ServerProtocol()
        handshake.receive_data(head)
        events = handshake.events_received()
        if len(head) > self._handshake_limit_bytes:
            text = f"the request is over {self._handshake_limit_bytes} bytes"
            return self._bad_request(handshake.reject(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"{text}\n"), text)
        if events and isinstance(events[0], Request):
            return events[0]
        error = handshake.handshake_exc
        reason = str(error.__cause__ or error if error is not None else "unfinished")[:_SHOWN_CHARACTERS]
        written = b"".join(handshake.data_to_send())
        if written:  # the library has answered: a line or a number of lines over its limits
            self._outgoing.append(written)
            self.phase = Phase.CLOSED
            return Closing(CloseCode.PROTOCOL_ERROR, reason, by_far_side=False)
        return self._bad_request(handshake.reject(HTTPStatus.BAD_REQUEST, f"no HTTP request: {reason}\n"), reason)

    def _bad_request(self, response: Response, text: str) -> Closing:
        self.respond(response)
        return Closing(CloseCode.PROTOCOL_ERROR, text, by_far_side=False)

    def _receive_frames(self, data: bytes) -> Iterator[Event]:
        protocol = self._protocol
        assert protocol is not None  # noqa: S101 -- made by accept
        protocol.receive_data(data)
        for frame in protocol.events_received():
            event = self._frame(frame) if isinstance(frame, Frame) else None
            if event is not None:
                yield event
            if self.closed:
                return
        self._take_from_library()
        if protocol.state is not OPEN and protocol.close_sent is not None:
            self.phase = Phase.CLOSED
            sent = protocol.close_sent
            yield Closing(sent.code, sent.reason, by_far_side=False)

    def _frame(self, frame: Frame) -> Event | None:
        match frame.opcode:
            case Opcode.TEXT | Opcode.BINARY:
                if frame.opcode is not self.codec.opcode:
                    return self._give_up(CloseCode.WRONG_KIND, _wrong_kind(self.codec, self._spoken))
                if frame.fin:
                    return self._message(bytes(frame.data))
                self._fragments = bytearray(frame.data)
            case Opcode.CONT if self._fragments is not None:
                self._fragments += frame.data
                if frame.fin:
                    payload, self._fragments = bytes(self._fragments), None
                    return self._message(payload)
            case Opcode.CLOSE if self._protocol is not None and self._protocol.close_rcvd is not None:
                received = self._protocol.close_rcvd
                self._take_from_library()
                self.phase = Phase.CLOSED
                return Closing(received.code, received.reason, by_far_side=True)
        return None

    def _message(self, payload: bytes) -> Event | None:
        try:
            message = self.codec.decode(payload)
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

    def _give_up(self, code: int, text: str) -> Closing:
        self.close(code, text)
        return Closing(code, text, by_far_side=False)


def _select(_: ServerProtocol, offered: Sequence[Subprotocol]) -> Subprotocol:
    """Take the first that the client offers and this hub speaks."""
    for name in offered:
        if name in _CODECS:
            return name
    raise NegotiationError(f"offer one of the subprotocols {', '.join(_CODECS)}")


def _select_none(_: ServerProtocol, __: Sequence[Subprotocol]) -> None:
    """Agree on none: the path has said what is spoken."""


def _wrong_kind(codec: Tongue, spoken: str) -> str:
    if codec.opcode is Opcode.TEXT:
        return f"a binary message under {spoken}, which takes text"
    return f"a text message under {spoken}, which takes binary"
