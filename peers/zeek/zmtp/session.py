"""`Session`: one side of a ZMTP connection under the mechanism NULL, from the first byte to the last. It does no I/O.

```
greeting ── theirs fits ──▶ READY ── theirs names a socket that fits ──▶ Ready, then Message, Subscribed ... ──▶ Ended
```

A connection feeds what it has read, acts on each `next_event()` until that is `NEED_DATA`, and writes
`take_outgoing()`; greeting, READY and pongs are in there.

A far side that does not fit is refused by an end without a word: Zeek ends itself where a handshake is answered by an
ERROR, or by another mechanism than it was told to use.

Sockets that publish (XPUB, PUB) are told what the far side wants, in either of two forms: a message of one part that
begins with 1 or 0, and the commands SUBSCRIBE and CANCEL. Other messages that they get are not taken, and counted.

Owner: one connection. Invariants: after `Ended` nothing more is read. Besides what was fed and not asked for, at most
one incomplete message is held; a stranger's is at most `HANDSHAKE_LIMIT_BYTES` long.

Not here: sockets, clocks, and who is told which subscriptions (`peers.zeek.zmtp.wanted`).
"""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple

from hub.errors import CloseCode, ProtocolError
from peers.wire.scanner import NEED_DATA, NeedData
from peers.zeek.zmtp.frames import Command, Incoming, Message, encode_command, encode_frame
from peers.zeek.zmtp.greeting import GREETING_BYTES, Greeting, check_beginning
from peers.zeek.zmtp.properties import HUB, SOCKET_TYPE, decode_properties, encode_properties

__all__ = [
    "HANDSHAKE_LIMIT_BYTES",
    "TOPIC_LIMIT_BYTES",
    "Ended",
    "Ready",
    "Session",
    "SocketType",
    "Subscribed",
    "Unsubscribed",
    "encode_subscription",
]

HANDSHAKE_LIMIT_BYTES = 4096
"""Longest command before the far side is ready. Those of libzmq have 28 bytes, and a few for an identity."""

TOPIC_LIMIT_BYTES = 1024
"""Longest topic that may be subscribed to, as everywhere in the hub."""

_PING_CONTEXT_BYTES = 16
_TTL_BYTES = 2

NULL = "NULL"


class SocketType(Enum):
    """What a side does; its name stands on the wire."""

    PUB = "PUB"
    SUB = "SUB"
    XPUB = "XPUB"
    XSUB = "XSUB"
    PUSH = "PUSH"
    PULL = "PULL"

    @property
    def publishes(self) -> bool:
        """Whether the far side tells it what it wants."""
        return self in (SocketType.PUB, SocketType.XPUB)

    @property
    def counterparts(self) -> tuple[str, ...]:
        """Names of those that it talks with."""
        if self.publishes:
            return ("SUB", "XSUB")
        if self in (SocketType.SUB, SocketType.XSUB):
            return ("PUB", "XPUB")
        return ("PULL",) if self is SocketType.PUSH else ("PUSH",)


class Ready(NamedTuple):
    """The handshake is done."""

    socket_type: str
    """Of the far side."""
    minor: int
    """Of the version of ZMTP that both speak."""


class Subscribed(NamedTuple):
    """The far side wants messages whose first part begins with this."""

    topic: bytes


class Unsubscribed(NamedTuple):
    """The far side does not want them any more."""

    topic: bytes


class Ended(NamedTuple):
    """The session is over."""

    code: int
    text: str
    by_far_side: bool


Event = Ready | Message | Subscribed | Unsubscribed | Ended


class _State(Enum):
    GREETING = "greeting"
    READY = "ready"
    OPEN = "open"
    ENDED = "ended"


class Session:
    """One side of a connection.

    Args:
        own: What this side is.
        limit_bytes: The longest message of a far side that is ready, all its parts together.
        hub: The id of this hub, which other hubs look at; others pass over such a property.
    """

    __slots__ = (
        "_has_eof",
        "_hub",
        "_incoming",
        "_limit_bytes",
        "_minor",
        "_outgoing",
        "_own",
        "_state",
        "far_hub",
        "rejected_messages",
        "rejected_topics",
    )

    rejected_messages: int
    """How many messages were not taken, as none is expected here, or none of that kind."""

    rejected_topics: int
    """How many subscriptions were not taken, as their topics are too long."""

    def __init__(self, own: SocketType, limit_bytes: int, hub: bytes = b"") -> None:
        self._own = own
        self._hub = hub
        self.far_hub = b""
        """The id of the far side, if it is a hub, once it is ready."""
        self._limit_bytes = limit_bytes
        self._incoming = Incoming(HANDSHAKE_LIMIT_BYTES)
        greeting = Greeting(NULL)
        self._minor = greeting.minor
        self._outgoing = [greeting.encode()]
        self._state = _State.GREETING
        # Set when the far side has ended the stream.
        self._has_eof = False
        self.rejected_messages = self.rejected_topics = 0

    @property
    def closed(self) -> bool:
        """Whether the session is over."""
        return self._state is _State.ENDED

    @property
    def is_open(self) -> bool:
        """Whether messages may be sent."""
        return self._state is _State.OPEN

    @property
    def held_bytes(self) -> int:
        """How many bytes were fed and not taken."""
        return self._incoming.held_bytes

    @property
    def has_more(self) -> bool:
        """Whether `next_event` may have something to say; behind the last of what was read it says `NEED_DATA`."""
        return self._has_eof or bool(self._incoming.held_bytes)

    @property
    def unfinished(self) -> int:
        """None: the frames of a message stand together."""
        return 0

    @property
    def has_outgoing(self) -> bool:
        """Whether something waits to be written."""
        return bool(self._outgoing)

    def take_outgoing(self) -> bytes:
        """Return and forget what is to be written now."""
        outgoing = b"".join(self._outgoing)
        self._outgoing.clear()
        return outgoing

    def send(self, frames: bytes) -> None:
        """Put whole messages into what goes out next; between `Ready` and the end only."""
        self._outgoing.append(frames)

    def feed(self, data: bytes) -> None:
        """Take what was read; ask `next_event` for what it says."""
        if not self.closed:
            self._incoming.feed(data)

    def feed_eof(self) -> None:
        """Take note that the far side has ended the stream."""
        self._has_eof = True

    def next_event(self) -> Any:
        """Return an `Event` that says what the far side says next; `NEED_DATA` if that is all.

        None stands for what is dealt with already. Bad input becomes `Ended`.
        """
        if self.closed:
            return NEED_DATA
        try:
            event = self._next()
        except ProtocolError as error:
            self._end()
            return Ended(error.code, error.text, by_far_side=False)
        if event is NEED_DATA and self._has_eof:
            was_open = self.is_open
            self._end()
            text = "the stream ended" if was_open else "the stream ended in the handshake"
            return Ended(CloseCode.DONE, text, by_far_side=True)
        return event

    def end(self) -> None:
        """End the session from this side, without a word."""
        self._end()

    def _end(self) -> None:
        self._state = _State.ENDED
        self._incoming.forget()

    def _next(self) -> Any:
        if self._state is _State.GREETING:
            return self._greet()
        found = self._incoming.next_message()
        if found is None:
            return NEED_DATA
        if self._state is _State.READY:
            return self._open(found)
        if isinstance(found, Command):
            return self._obey(found)
        return self._subscription(found) if self._own.publishes else found

    def _greet(self) -> NeedData | None:
        """Read the far side's greeting, and say READY."""
        beginning = self._incoming.peek(GREETING_BYTES)
        check_beginning(beginning)
        if len(beginning) < GREETING_BYTES:
            return NEED_DATA
        greeting = Greeting.decode(self._incoming.take(GREETING_BYTES))
        if greeting.mechanism != NULL:
            text = f"ZMTP: the far side uses the mechanism {greeting.mechanism}, this side {NULL}"
            raise ProtocolError(CloseCode.PROTOCOL_ERROR, text)
        self._minor = min(self._minor, greeting.minor)
        properties = {"Socket-Type": self._own.value.encode()}
        if self._hub:
            properties[HUB] = self._hub
        self._outgoing.append(encode_command(Command(b"READY", encode_properties(properties))))
        self._state = _State.READY
        return None

    def _open(self, found: Message | Command) -> Ready:
        if isinstance(found, Message):
            raise ProtocolError(CloseCode.PROTOCOL_ERROR, "ZMTP: a message before READY")
        if found.name == b"ERROR":
            reason = found.data[1:].decode("utf-8", "replace")
            raise ProtocolError(CloseCode.PROTOCOL_ERROR, f"ZMTP: the far side refuses this one: {reason!r}")
        if found.name != b"READY":
            raise ProtocolError(CloseCode.PROTOCOL_ERROR, f"ZMTP: {found.name!r} before READY")
        properties = decode_properties(found.data)
        kind = properties.get(SOCKET_TYPE, b"").decode("latin-1")
        if kind not in self._own.counterparts:
            names = " or ".join(self._own.counterparts)
            text = (
                f"ZMTP: the far side is a socket of the type {kind!r}, this one ({self._own.value}) talks with {names}"
            )
            raise ProtocolError(CloseCode.PROTOCOL_ERROR, text)
        self.far_hub = properties.get(HUB, b"")
        self._state = _State.OPEN
        self._incoming.limit_bytes = self._limit_bytes
        return Ready(kind, self._minor)

    def _obey(self, command: Command) -> Event | None:
        if command.name == b"PING":
            context = command.data[_TTL_BYTES : _TTL_BYTES + _PING_CONTEXT_BYTES]
            self._outgoing.append(encode_command(Command(b"PONG", context)))
        elif self._own.publishes and command.name in (b"SUBSCRIBE", b"CANCEL"):
            return self._wish(command.data, is_wanted=command.name == b"SUBSCRIBE")
        return None

    def _subscription(self, message: Message) -> Event | None:
        frames, start = message.frames, message.starts[0]
        if len(message.ends) > 1 or start == len(frames) or frames[start] > 1:
            self.rejected_messages += 1
            return None
        return self._wish(frames[start + 1 :], is_wanted=bool(frames[start]))

    def _wish(self, topic: bytes, *, is_wanted: bool) -> Event | None:
        if len(topic) > TOPIC_LIMIT_BYTES:
            self.rejected_topics += 1
            return None
        return Subscribed(topic) if is_wanted else Unsubscribed(topic)


def encode_subscription(topic: bytes, *, is_wanted: bool) -> bytes:
    """Return the message that tells a publisher what this side wants, in the form that all versions know."""
    return encode_frame(bytes((is_wanted,)) + topic)
