"""`BridgeSession`: the client's side of Zeek's WebSocket API. It does no I/O: it takes bytes and returns events.

```
OPENING ──101──▶ Opened: ask(prefixes) ──▶ ASKING ──ack──▶ Acknowledged ─▶ OPEN ──▶ CLOSED
```

If a message of a Zeek cannot be read (it is no JSON, or holds no valid values), only that message is lost; a Zeek that
does not keep to RFC 6455 loses the connection. At most one message and one read are held.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import NamedTuple

import msgspec
from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.protocol import OPEN
from websockets.uri import WebSocketURI

from hub.errors import CloseCode, ProtocolError
from hub.messages.frame import BROKER_FLAGS, KIND_MESSAGES, encode_frame
from hub.topics import TOPIC_LIMIT_BYTES
from peers.commands.commands import Publication
from peers.transport.fragments import Fragments, end_of, pieces_of
from peers.values import InvalidInputError, decode_message
from peers.websocket.http_session import PieceSession
from peers.websocket.zeek_codec import PATH
from peers.wire.control import MALFORMED, cut_text
from peers.wire.events import Closing
from peers.wire.hello import SOFTWARE
from peers.wire.scanner import NEED_DATA, NeedData

APPLICATION = "topichub"  # in `X-Application-Name`, which Zeek shows among its clients
_SHOWN_CHARACTERS = 200  # of an error of the far side

_DATA = b'{"type":"data-message",'
"""Beginning of a data message of Zeek's and Broker's servers; other messages are looked into first."""


class Opened(NamedTuple):
    """The handshake is over; `ask` is due."""


class Acknowledged(NamedTuple):
    """The subscriptions are active."""

    endpoint: str
    version: str


class Failure(NamedTuple):
    """The Zeek has rejected a message of this hub (`outward`), or a message of the Zeek is lost."""

    text: str
    outward: bool


Event = Opened | Acknowledged | Publication | Failure | Closing


class Phase(Enum):
    """State of a conversation."""

    OPENING = "before the handshake is over"
    ASKING = "before the ack"
    OPEN = "open"
    CLOSED = "closed"


class _Envelope(msgspec.Struct):
    type: str = ""
    endpoint: str = ""
    version: str = ""
    code: str = ""
    context: str = ""


_read_envelope = msgspec.json.Decoder(_Envelope).decode
_encode = msgspec.json.Encoder().encode


class BridgeSession(PieceSession):
    """The hub's side of a conversation with the Zeek at a host and port."""

    _events: Iterator[Event | None]

    def __init__(self, host: str, port: int, frame_limit_bytes: int) -> None:
        super().__init__(0)  # the library reads the answer to the handshake
        self.phase = Phase.OPENING
        self._fragments = Fragments()
        uri = WebSocketURI(secure=False, host=host, port=port, path=PATH, query="")
        self._protocol = ClientProtocol(uri, max_size=frame_limit_bytes)
        request = self._protocol.connect()
        request.headers["User-Agent"] = SOFTWARE
        request.headers["X-Application-Name"] = APPLICATION
        self._protocol.send_request(request)
        self._take_from_library()

    @property
    def closed(self) -> bool:
        return self.phase is Phase.CLOSED

    def ask(self, prefixes: list[str]) -> None:
        self.send([_encode(prefixes)])

    def send(self, texts: Iterable[bytes]) -> None:
        """Send data messages; allowed once `ask` was called."""
        if self._may_speak:
            for text in texts:
                self._protocol.send_text(text)
            self._take_from_library()

    def ping(self) -> None:
        if self._may_speak:
            self._protocol.send_ping(b"")
            self._take_from_library()

    @property
    def _may_speak(self) -> bool:
        # The library reads all of a piece at once: it may have met the end behind the events of `next_event`.
        return self.phase in {Phase.ASKING, Phase.OPEN} and self._protocol.state is OPEN

    def close(self, code: int, text: str) -> None:
        if self.phase in {Phase.ASKING, Phase.OPEN}:
            self._protocol.fail(code, cut_text(text).decode())
            self._take_from_library()
        else:
            self._outgoing.clear()  # the request, if it was not written yet
        self._end()

    def _end(self) -> None:
        self.phase = Phase.CLOSED
        self._forget()
        self._fragments = Fragments()
        self._protocol.reader.discard()

    def _take_from_library(self) -> None:
        self._outgoing.extend(data for data in self._protocol.data_to_send() if data)  # empty: half-close

    @property
    def held_bytes(self) -> int:
        return self._fragments.held_bytes + len(self._protocol.reader.buffer) + self._unread_bytes

    @property
    def unfinished(self) -> int:
        return self._fragments.unfinished

    def feed(self, data: bytes) -> None:
        if self.phase is not Phase.CLOSED:
            self._unread.extend(pieces_of(data))

    def next_event(self) -> Event | NeedData | None:
        """Return the next event, or None for a ping; bad input becomes a `Failure` or a `Closing`."""
        while True:
            for event in self._events:
                return event
            if not self._unread:
                return NEED_DATA
            self._events = self._read(bytes(self._unread.pop(0)))

    def _read(self, data: bytes) -> Iterator[Event | None]:
        protocol = self._protocol
        protocol.receive_data(data)
        for found in protocol.events_received():
            yield self._frame(found) if isinstance(found, Frame) else self._response(found)
            if self.closed:
                return
        self._take_from_library()
        if protocol.handshake_exc is not None:  # an answer that is no HTTP
            yield self._lost(str(protocol.handshake_exc))
        elif (ended := self._ended()) is not None:
            yield ended

    def _response(self, response: object) -> Event:
        error = self._protocol.handshake_exc
        if error is None:
            self.phase = Phase.ASKING
            return Opened()
        said = response.body if isinstance(response, Response) and response.body else b""
        detail = said.decode("utf-8", "replace").strip()
        return self._lost(f"{error}: {detail}" if detail else str(error))

    def _lost(self, text: str) -> Closing:
        self._end()
        return Closing(CloseCode.PROTOCOL_ERROR, _shown(text), by_far_side=False)

    def _frame(self, frame: Frame) -> Event | None:
        match frame.opcode:
            case Opcode.TEXT | Opcode.CONT:
                return self._part(frame)
            case Opcode.CLOSE:
                self._take_from_library()
                return self._ended()
            case Opcode.BINARY:
                return self._give_up(CloseCode.WRONG_KIND, "a binary message, where the API has text only")
        return None

    def _part(self, frame: Frame) -> Event | None:
        try:
            message = self._fragments.take(frame)
        except ProtocolError as error:
            return self._give_up(error.code, error.text)
        return self._message(message.payload) if message is not None else None

    def _give_up(self, code: int, text: str) -> Closing:
        self.close(code, text)
        return Closing(code, text, by_far_side=False)

    def _ended(self) -> Closing | None:
        end = end_of(self._protocol)
        if end is None:
            return None
        self._end()
        return Closing(end.code, _shown(end.text), end.by_far_side)

    def _message(self, payload: bytes) -> Event | None:
        if not payload.startswith(_DATA):
            try:
                said = _read_envelope(payload)
            except MALFORMED:
                return _incoming(payload)  # data that is no strict JSON, or nothing: it will say which
            if said.type == "ack":
                return self._acknowledge(said)
            if said.type == "error":
                return Failure(_shown(f"{said.code}: {said.context}"), outward=True)
        return _incoming(payload)

    def _acknowledge(self, said: _Envelope) -> Event | None:
        if self.phase is not Phase.ASKING:
            return None
        self.phase = Phase.OPEN
        return Acknowledged(_shown(said.endpoint), _shown(said.version))


def _incoming(payload: bytes) -> Event:
    try:
        topic, body = decode_message(payload)
    except InvalidInputError as error:
        return Failure(_shown(str(error)), outward=False)
    if len(topic) > TOPIC_LIMIT_BYTES:
        return Failure(f"a topic of {len(topic)} bytes, the limit is {TOPIC_LIMIT_BYTES} bytes", outward=False)
    return Publication(encode_frame(KIND_MESSAGES, body, key=topic, flags=BROKER_FLAGS), 1)


def _shown(text: str) -> str:
    """Cut a text of the far side, and remove control characters."""
    return "".join(character if character.isprintable() else "?" for character in text[:_SHOWN_CHARACTERS])
