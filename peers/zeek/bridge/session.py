"""`BridgeSession`: the client's side of Zeek's WebSocket API, without I/O: bytes in, events out.

```
OPENING ──101──▶ Opened: ask(prefixes) ──▶ ASKING ──ack──▶ Acknowledged ─▶ OPEN ──▶ CLOSED
```

A shell writes `take_outgoing()` once it is connected, feeds what it reads to `receive`, acts on the events, and writes
`take_outgoing()` again. What a Zeek says that cannot be taken (no JSON, values that are none) costs that message and
nothing else; a Zeek that does not keep to RFC 6455 loses the connection.

Owner: one connection. Invariant: at most one message and one read are held. Not here: what is wanted
(`peers.zeek.bridge.wanted`), clocks, what the hub does with the messages.
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

from hub.batch import Batch
from hub.errors import CloseCode
from hub.frame import BROKER_FLAGS, HEADER_BYTES, KIND_MESSAGES, encode_frame
from hub.topics import TOPIC_LIMIT_BYTES
from peers.wire.control import cut_text
from peers.wire.hello import SOFTWARE
from peers.wire.session import Closing
from peers.zeek.api.tongue import PATH
from peers.zeek.data import InvalidInputError, decode_message

__all__ = ["APPLICATION", "Acknowledged", "BridgeSession", "Event", "Failure", "Incoming", "Opened", "Phase"]

APPLICATION = "topichub"
"""What this hub calls itself in `X-Application-Name`, which Zeek shows among its clients."""

_SHOWN_CHARACTERS = 200
"""How much of what the far side says in an error is repeated."""

_DATA = b'{"type":"data-message",'
"""How both servers begin such a message. One that begins otherwise is looked into first."""


class Opened(NamedTuple):
    """The handshake is over; `ask` is due."""


class Acknowledged(NamedTuple):
    """The subscriptions are active."""

    endpoint: str
    version: str


class Incoming(NamedTuple):
    """A message, as a MESSAGES frame."""

    frame: bytes
    routing_key: bytes

    @property
    def batch(self) -> Batch:
        """The same as a batch."""
        return Batch(self.frame, 1)


class Failure(NamedTuple):
    """Something went wrong with one message.

    Attributes:
        text: What.
        outward: Whether it is one of this hub's that the Zeek has refused; else one of the Zeek's is lost.
    """

    text: str
    outward: bool


Event = Opened | Acknowledged | Incoming | Failure | Closing


class Phase(Enum):
    """Where a conversation stands."""

    OPENING = "before the handshake is over"
    ASKING = "before the ack"
    OPEN = "open"
    CLOSED = "closed"


class _Envelope(msgspec.Struct):
    """What is read of a message that may be no data."""

    type: str = ""
    endpoint: str = ""
    version: str = ""
    code: str = ""
    context: str = ""


_read_envelope = msgspec.json.Decoder(_Envelope).decode
_encode = msgspec.json.Encoder().encode


class BridgeSession:
    """The hub's side of a conversation with a Zeek.

    Args:
        host: Of the Zeek.
        port: Of its WebSocket server.
        frame_limit_bytes: Largest message taken.
    """

    __slots__ = ("_fragments", "_outgoing", "_protocol", "phase")

    phase: Phase

    def __init__(self, host: str, port: int, frame_limit_bytes: int) -> None:
        self.phase = Phase.OPENING
        self._fragments: bytearray | None = None
        self._outgoing: list[bytes] = []
        uri = WebSocketURI(secure=False, host=host, port=port, path=PATH, query="")
        self._protocol = ClientProtocol(uri, max_size=frame_limit_bytes)
        request = self._protocol.connect()
        request.headers["User-Agent"] = SOFTWARE
        request.headers["X-Application-Name"] = APPLICATION
        self._protocol.send_request(request)
        self._take_from_library()

    @property
    def closed(self) -> bool:
        """Whether nothing more is to be said, by either side."""
        return self.phase is Phase.CLOSED

    # What the hub says.

    def ask(self, prefixes: list[str]) -> None:
        """Subscribe, once and for all."""
        self._protocol.send_text(_encode(prefixes))
        self._take_from_library()

    def send(self, texts: Iterable[bytes]) -> None:
        """Send data messages; allowed once `ask` was called."""
        if self.phase in {Phase.ASKING, Phase.OPEN}:
            for text in texts:
                self._protocol.send_text(text)
            self._take_from_library()

    def ping(self) -> None:
        """Ask for a sign of life."""
        if self.phase in {Phase.ASKING, Phase.OPEN}:
            self._protocol.send_ping(b"")
            self._take_from_library()

    def close(self, code: int, text: str) -> None:
        """End the conversation from this side."""
        if self.phase in {Phase.ASKING, Phase.OPEN}:
            self._protocol.fail(code, cut_text(text).decode())
            self._take_from_library()
        else:
            self._outgoing.clear()  # the request, if it was not written yet
        self.phase = Phase.CLOSED

    def take_outgoing(self) -> list[bytes]:
        """Return and forget what is to be written now."""
        outgoing, self._outgoing = self._outgoing, []
        return outgoing

    def _take_from_library(self) -> None:
        self._outgoing.extend(data for data in self._protocol.data_to_send() if data)  # empty: half-close

    # What the Zeek says.

    def receive(self, data: bytes) -> Iterator[Event]:
        """Yield what the Zeek says. Never raises for bad input: that becomes a `Failure` or a `Closing`."""
        if self.closed:
            return
        protocol = self._protocol
        protocol.receive_data(data)
        for found in protocol.events_received():
            event = self._frame(found) if isinstance(found, Frame) else self._response(found)
            if event is not None:
                yield event
            if self.closed:
                return
        self._take_from_library()
        if protocol.handshake_exc is not None:  # an answer that is no HTTP
            yield self._lost(str(protocol.handshake_exc))
        elif protocol.state is not OPEN and protocol.close_sent is not None:
            yield self._lost(protocol.close_sent.reason, protocol.close_sent.code)

    def _response(self, response: object) -> Event:
        error = self._protocol.handshake_exc
        if error is None:
            self.phase = Phase.ASKING
            return Opened()
        said = response.body if isinstance(response, Response) and response.body else b""
        detail = said.decode("utf-8", "replace").strip()
        return self._lost(f"{error}: {detail}" if detail else str(error))

    def _lost(self, text: str, code: int = CloseCode.PROTOCOL_ERROR) -> Closing:
        self.phase = Phase.CLOSED
        return Closing(code, _shown(text), by_far_side=False)

    def _frame(self, frame: Frame) -> Event | None:
        match frame.opcode:
            case Opcode.TEXT if frame.fin:
                return self._message(bytes(frame.data))
            case Opcode.TEXT:
                self._fragments = bytearray(frame.data)
            case Opcode.CONT if self._fragments is not None:
                self._fragments += frame.data
                if frame.fin:
                    payload, self._fragments = bytes(self._fragments), None
                    return self._message(payload)
            case Opcode.CLOSE if self._protocol.close_rcvd is not None:
                received = self._protocol.close_rcvd
                self._take_from_library()
                self.phase = Phase.CLOSED
                return Closing(received.code, _shown(received.reason), by_far_side=True)
            case Opcode.BINARY:
                text = "a binary message, where the API has text only"
                self.close(CloseCode.WRONG_KIND, text)
                return Closing(CloseCode.WRONG_KIND, text, by_far_side=False)
        return None

    def _message(self, payload: bytes) -> Event | None:
        if not payload.startswith(_DATA):
            try:
                said = _read_envelope(payload)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
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
        return Failure(_shown(error.context), outward=False)
    if len(topic) > TOPIC_LIMIT_BYTES:
        return Failure(f"a topic of {len(topic)} bytes, the limit is {TOPIC_LIMIT_BYTES} bytes", outward=False)
    frame = encode_frame(KIND_MESSAGES, body, key=topic, flags=BROKER_FLAGS)
    return Incoming(frame, frame[4 : HEADER_BYTES + len(topic)])


def _shown(text: str) -> str:
    """Cut what the far side says, and leave nothing in it that acts on a terminal."""
    return "".join(character if character.isprintable() else "?" for character in text[:_SHOWN_CHARACTERS])
