"""`Session`: one side of a ZMTP 3 connection, from the first byte to the last. It does no I/O.

```
 0  ff, 7 times 00, 01, 7f   signature                      u8 length  name  u32 length  value    a property of READY
10  u8 major, u8 minor
12  20 bytes           mechanism, filled up with zeros      greeting of both ─▶ begin: the first word ─▶ take: command
32  u8                 whether this side is its server      after command ─▶ Step with the far side's metadata: Ready
33  31 times 00
```

A far side that does not fit is refused by an end without an answer: Zeek aborts where a handshake is answered by an
ERROR or by another mechanism. So a side that `waits` sends only as much of its greeting as makes the far side send all
of its own. ZMTP 1 and 2 are refused: libzmq takes such a greeting for messages. Source: RFC 23 and 37 of ZeroMQ.
"""

from __future__ import annotations

from enum import Enum
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from hub.errors import CloseCode, ProtocolError
from peers.wire.scanner import NEED_DATA, NeedData
from peers.zeek.zmtp.frames import Command, Incoming, Message, encode_command, encode_frame

if TYPE_CHECKING:
    from peers.zeek.zmtp.curve import CurveClient, CurveServer

GREETING_BYTES = 64
OPENING_BYTES = 11  # signature and major version: after these, the other side says the rest
_SIGNATURE = b"\xff\0\0\0\0\0\0\0\x01\x7f"
"""As libzmq writes it: to a side that speaks ZMTP 1, it is the header of a frame of one byte, flags included."""
_SIGNATURE_END = 0x7F
_MAJOR = 3
_MECHANISM = slice(12, 32)
SOCKET_TYPE = "socket-type"
HUB = "x-topichub"
"""Property with the id of a hub, so that hubs know each other; RFC 23 leaves names that begin with x- to all."""

HANDSHAKE_LIMIT_BYTES = 4096
"""Longest command before the far side is ready. Those of libzmq have up to 279 bytes, and a few for an identity."""

TOPIC_LIMIT_BYTES = 1024  # Longest topic that may be subscribed to, as everywhere in the hub
_LENGTH = Struct(">I")
_PING_CONTEXT_BYTES = 16
_TTL_BYTES = 2


def _wrong(text: str) -> ProtocolError:
    return ProtocolError(CloseCode.PROTOCOL_ERROR, text)


class Greeting(NamedTuple):
    """The first 64 bytes of a side; of minor version 1 on, subscriptions may be commands."""

    mechanism: str
    minor: int = 1
    is_server: bool = False

    def encode(self) -> bytes:
        mechanism = self.mechanism.encode("ascii").ljust(20, b"\0")
        return _SIGNATURE + bytes((_MAJOR, self.minor)) + mechanism + bytes((self.is_server,)) + bytes(31)

    @classmethod
    def decode(cls, data: bytes) -> Greeting:
        """Decode 64 bytes; raises `ProtocolError` if they are no greeting of ZMTP 3."""
        _check_beginning(data)
        name = data[_MECHANISM].rstrip(b"\0")
        if not name.isalnum() or not name.isascii():
            raise _wrong(f"ZMTP: {name!r} is not a name of a mechanism")
        return cls(name.decode(), data[11], bool(data[32]))


def _check_beginning(data: bytes) -> None:
    """Check as much of a greeting as there is, so that no session waits for the rest of an invalid one."""
    if data[:1] and data[0] != _SIGNATURE[0]:
        raise _wrong(f"the first byte is {data[0]:#04x}: this is not ZMTP 3")
    # RFC 23 allows anything between the first byte and the last one of the signature.
    if len(data) > 9 and data[9] != _SIGNATURE_END:
        raise _wrong(f"byte 9 is {data[9]:#04x}: this is not ZMTP 3")
    if len(data) > 10 and data[10] != _MAJOR:
        raise _wrong(f"the other side speaks ZMTP {data[10]}, this side speaks {_MAJOR}")


def encode_properties(properties: dict[str, bytes]) -> bytes:
    parts: list[bytes] = []
    for name, value in properties.items():
        parts += (bytes((len(name),)), name.encode("ascii"), _LENGTH.pack(len(value)), value)
    return b"".join(parts)


def decode_properties(data: bytes) -> dict[str, bytes]:
    """Decode the data of a READY command, names in lower case; raises `ProtocolError`."""
    properties: dict[str, bytes] = {}
    position = 0
    while position < len(data):
        name_end = position + 1 + data[position]
        value_start = name_end + _LENGTH.size
        value_end = value_start + int.from_bytes(data[name_end:value_start])
        if value_end > len(data):
            raise _wrong("ZMTP: READY ends within a property")
        properties[data[position + 1 : name_end].decode("latin-1").lower()] = data[value_start:value_end]
        position = value_end
    return properties


class Fault(Enum):
    """Why a handshake has failed, as it is counted."""

    MECHANISM = "mechanism"  # The far side uses another one
    KEY = "key"  # Its key is not allowed, or not the expected one
    REFUSED = "refused"  # It refuses this side
    GARBLED = "garbled"  # Its bytes are no ZMTP, or do not fit
    ENDED = "ended"  # It has ended the stream


class HandshakeError(ProtocolError):
    """A handshake that fails for a reason of its own."""

    def __init__(self, fault: Fault, text: str) -> None:
        super().__init__(CloseCode.PROTOCOL_ERROR, text)
        self.fault = fault


class Step(NamedTuple):
    """Result of a command of the far side."""

    said: bytes = b""  # The answer
    metadata: bytes | None = None  # Properties of the far side, with which the handshake is done; None before
    key: bytes = b""  # The long-term public key that the far side has proved to have; empty if it has shown none


class Null:
    """The mechanism NULL: nothing is encrypted, and no identity is proved.

    A mechanism gives one side of one connection its name in the greeting, makes the `Incoming` that finds frames, sends
    the first command once both greetings fit (`begin`), takes commands until the handshake is done (`take`), and then
    seals frames as they are written. `doubt` names the likely cause if the far side ends the stream now.
    """

    name: Final = "NULL"
    is_server: Final = False
    doubt: Final = ""

    def incoming(self, limit_bytes: int) -> Incoming:
        return Incoming(limit_bytes)

    def begin(self, metadata: bytes) -> bytes:
        return encode_command(Command(b"READY", metadata))

    def take(self, command: Command) -> Step:
        if command.name != b"READY":
            raise _wrong(f"ZMTP: {command.name!r} before READY")
        return Step(metadata=command.data)

    def seal(self, frames: bytes) -> bytes:
        return frames


NULL: Final = Null()
Mechanism: TypeAlias = "Null | CurveServer | CurveClient"


class SocketType(Enum):
    """Type of this side's socket, by its name on the wire."""

    XPUB = "XPUB"
    XSUB = "XSUB"
    PUSH = "PUSH"
    PULL = "PULL"

    @property
    def counterparts(self) -> tuple[str, ...]:
        return _COUNTERPARTS[self]


_COUNTERPARTS = {
    SocketType.XPUB: ("SUB", "XSUB"),
    SocketType.XSUB: ("PUB", "XPUB"),
    SocketType.PUSH: ("PULL",),
    SocketType.PULL: ("PUSH",),
}


class Proving(NamedTuple):
    """The next event takes long to find out, as it is a step of a handshake with CURVE: it may be put off."""


class Ready(NamedTuple):
    """The handshake is done."""

    socket_type: str
    minor: int  # Of the version of ZMTP that both speak


class Subscribed(NamedTuple):
    """The far side wants messages whose first part begins with this."""

    topic: bytes


class Unsubscribed(NamedTuple):
    """The far side does not want them any more."""

    topic: bytes


class Refused(NamedTuple):
    """A subscription, or a message where none is expected, was rejected; the session goes on."""

    reason: str
    is_subscription: bool


class Ended(NamedTuple):
    """The session is over."""

    code: int
    text: str
    by_far_side: bool


Event = Proving | Ready | Message | Subscribed | Unsubscribed | Refused | Ended


class _State(Enum):
    GREETING = "greeting"
    MECHANISM = "mechanism"
    OPEN = "open"
    ENDED = "ended"


class Session:
    """One side of a connection.

    Args:
        own: Socket type of this side; only an XPUB socket is sent subscriptions.
        limit_bytes: Longest message of a far side that is ready, all its parts together.
        hub: Id of this hub, for other hubs.
        mechanism: This side's part of one; of this connection alone if it has a state.
        waits: Whether this side does not say its mechanism first; of two sides, at most one may.
    """

    unfinished = 0  # The frames of a message stand together

    def __init__(
        self,
        own: SocketType,
        limit_bytes: int,
        hub: bytes = b"",
        mechanism: Mechanism = NULL,
        *,
        waits: bool = False,
    ) -> None:
        self._own = own
        self._mechanism = mechanism
        self._hub = hub
        self.remote_hub = b""  # Id of the far side if it is a hub, once it is ready
        self.is_sealed = mechanism is not NULL  # Whether whole messages must be sealed before they are written
        self.far_key = b""  # Public key that the far side has proved to have
        self.fault: Fault | None = None  # Why the handshake has failed
        self.rejected_messages = 0
        self._limit_bytes = limit_bytes
        self._incoming = mechanism.incoming(HANDSHAKE_LIMIT_BYTES)
        greeting = Greeting(mechanism.name, is_server=mechanism.is_server)
        self._minor = greeting.minor
        said = greeting.encode()
        told = OPENING_BYTES if waits else GREETING_BYTES
        self._outgoing = [said[:told]]
        self._withheld = said[told:]  # Said once the far side's greeting fits
        self._state = _State.GREETING
        self._step: Message | Command | None = None
        """A step of the handshake that takes long to check, once `Proving` was returned."""
        self._is_proving = False
        self._has_eof = False

    @property
    def closed(self) -> bool:
        return self._state is _State.ENDED

    @property
    def is_open(self) -> bool:
        return self._state is _State.OPEN

    @property
    def held_bytes(self) -> int:
        return self._incoming.held_bytes

    @property
    def has_more(self) -> bool:
        return self._has_eof or self._step is not None or bool(self._incoming.held_bytes)

    @property
    def has_outgoing(self) -> bool:
        return bool(self._outgoing)

    def take_outgoing(self) -> bytes:
        outgoing = b"".join(self._outgoing)
        self._outgoing.clear()
        return outgoing

    def send(self, frames: bytes) -> None:
        """Put whole messages into the output; between `Ready` and the end only."""
        self._outgoing.append(self._mechanism.seal(frames))

    def seal(self, frames: bytes) -> bytes:
        """Return whole messages as they are to be written, behind the output and before messages sealed later."""
        return self._mechanism.seal(frames)

    def feed(self, data: bytes) -> None:
        if not self.closed:
            self._incoming.feed(data)

    def feed_eof(self) -> None:
        self._has_eof = True

    def end(self) -> None:
        self._state = _State.ENDED
        self._step = None
        self._incoming.forget()

    def next_event(self) -> Any:
        """Return the next `Event`, `NEED_DATA`, or None if the session needs nothing; bad input becomes `Ended`."""
        if self.closed:
            return NEED_DATA
        try:
            event = self._next()
            if event is NEED_DATA and self._incoming.open_more():
                return None
        except ProtocolError as error:
            if not self.is_open:
                self.fault = error.fault if isinstance(error, HandshakeError) else Fault.GARBLED
            self.end()
            return Ended(error.code, error.text, by_far_side=False)
        if event is NEED_DATA and self._has_eof:
            return self._end_of_stream()
        return event

    def _end_of_stream(self) -> Ended:
        text = "the stream ended"
        if not self.is_open:
            self.fault = Fault.ENDED
            doubt = self._mechanism.doubt
            if self._state is _State.GREETING and not self._withheld:
                doubt = f"it may use another mechanism than {self._mechanism.name}"
            text += f" in the handshake: {doubt}" if doubt else " in the handshake"
        self.end()
        return Ended(CloseCode.DONE, text, by_far_side=True)

    def _next(self) -> Any:
        if self._state is _State.GREETING:
            return self._greet()
        if self._state is _State.MECHANISM:
            return self._next_step()
        found = self._incoming.next_message()
        if found is None:
            return NEED_DATA
        if isinstance(found, Command):
            return self._obey(found)
        return self._subscription(found) if self._own is SocketType.XPUB else found

    # The handshake.

    def _greet(self) -> NeedData | None:
        beginning = self._incoming.peek(GREETING_BYTES)
        _check_beginning(beginning)
        if len(beginning) < GREETING_BYTES:
            return NEED_DATA
        greeting = Greeting.decode(self._incoming.take(GREETING_BYTES))
        mechanism = self._mechanism
        if greeting.mechanism != mechanism.name:
            text = f"ZMTP: the other side uses the mechanism {greeting.mechanism}, this side {mechanism.name}"
            raise HandshakeError(Fault.MECHANISM, text)
        self._minor = min(self._minor, greeting.minor)
        self._say(self._withheld)
        properties = {"Socket-Type": self._own.value.encode()}
        if self._hub:
            properties[HUB] = self._hub
        self._say(mechanism.begin(encode_properties(properties)))
        self._state = _State.MECHANISM
        return None

    def _next_step(self) -> Any:
        found, self._step = self._step or self._incoming.next_message(), None
        if found is None:
            return NEED_DATA
        self._is_proving = self.is_sealed and not self._is_proving
        if self._is_proving:
            self._step = found
            return Proving()
        return self._shake_hands(found)

    def _shake_hands(self, found: Message | Command) -> Ready | None:
        if isinstance(found, Message):
            raise _wrong("ZMTP: a message before READY")
        if found.name == b"ERROR":
            reason = found.data[1:].decode("utf-8", "replace")
            raise HandshakeError(Fault.REFUSED, f"ZMTP: the other side rejects this one: {reason!r}")
        step = self._mechanism.take(found)
        if step.metadata is None:
            self._say(step.said)
            return None
        properties = decode_properties(step.metadata)
        kind = properties.get(SOCKET_TYPE, b"").decode("latin-1")
        if kind not in self._own.counterparts:
            names, own = " or ".join(self._own.counterparts), self._own.value
            raise _wrong(f"ZMTP: the other side is a socket of the type {kind!r}, this one ({own}) talks with {names}")
        self.remote_hub = properties.get(HUB, b"")
        self._say(step.said)
        self.far_key = step.key
        self._state = _State.OPEN
        self._incoming.limit_bytes = self._limit_bytes
        return Ready(kind, self._minor)

    def _say(self, data: bytes) -> None:
        if data:
            self._outgoing.append(data)

    # Commands and subscriptions.

    def _obey(self, command: Command) -> Event | None:
        if command.name == b"PING":
            context = command.data[_TTL_BYTES : _TTL_BYTES + _PING_CONTEXT_BYTES]
            self.send(encode_command(Command(b"PONG", context)))
        elif self._own is SocketType.XPUB and command.name in (b"SUBSCRIBE", b"CANCEL"):
            return _wish(command.data, is_wanted=command.name == b"SUBSCRIBE")
        return None

    def _subscription(self, message: Message) -> Event | None:
        frames, start = message.frames, message.starts[0]
        if len(message.ends) > 1 or start == len(frames) or frames[start] > 1:
            self.rejected_messages += 1
            text = f"a message of {len(message.ends)} parts, where subscriptions are expected"
            return Refused(text, is_subscription=False)
        return _wish(frames[start + 1 :], is_wanted=bool(frames[start]))


def _wish(topic: bytes, *, is_wanted: bool) -> Event:
    if len(topic) > TOPIC_LIMIT_BYTES:
        return Refused(f"a topic of {len(topic)} bytes, the limit is {TOPIC_LIMIT_BYTES}", is_subscription=True)
    return Subscribed(topic) if is_wanted else Unsubscribed(topic)


def encode_subscription(topic: bytes, *, is_wanted: bool) -> bytes:
    """Return a subscription, or its end, as the message that all versions know."""
    return encode_frame(bytes((is_wanted,)) + topic)
