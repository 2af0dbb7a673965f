"""`Session`: one side of a ZMTP connection, from the first byte to the last. It does no I/O.

```
greeting ── theirs fits ──▶ mechanism ── their metadata name a socket that fits ──▶ Ready, then Message ... ──▶ Ended
```

A connection feeds what it has read, acts on each `next_event()` until that is `NEED_DATA`, and writes
`take_outgoing()`. A far side that does not fit is refused by an end without a word: Zeek ends itself where a handshake
is answered by an ERROR, or by another mechanism than its own. So a side that `waits` says only as much of its greeting
as has the far side say all of its own, and its mechanism when it knows that it is the same.

Owner: one connection. Besides what was fed and not asked for, at most one incomplete message is held; a stranger's is
at most `HANDSHAKE_LIMIT_BYTES` long. Not here: who is told which subscriptions.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple

from hub.errors import CloseCode, ProtocolError
from peers.wire.scanner import NEED_DATA, NeedData
from peers.zeek.zmtp.frames import Command, Message, encode_command, encode_frame
from peers.zeek.zmtp.handshake import (
    GREETING_BYTES,
    HUB,
    NULL,
    OPENING_BYTES,
    SOCKET_TYPE,
    Fault,
    Greeting,
    HandshakeError,
    Mechanism,
    check_beginning,
    decode_properties,
    encode_properties,
)

HANDSHAKE_LIMIT_BYTES = 4096
"""Longest command before the far side is ready. Those of libzmq have 28 bytes, or 279 with a key, and a few for an
identity."""

TOPIC_LIMIT_BYTES = 1024
"""Longest topic that may be subscribed to, as everywhere in the hub."""

_PING_CONTEXT_BYTES = 16
_TTL_BYTES = 2


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


class Proving(NamedTuple):
    """The far side says something in a handshake that takes long to check: it is done when the next event is asked for.

    So whoever asks may put it off.
    """


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


class Refused(NamedTuple):
    """Something that the far side has said was not taken; the session goes on."""

    reason: str
    """Why, for a log."""
    is_subscription: bool
    """Whether it was a subscription; else a message, which nobody gets here."""


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
        own: What this side is.
        limit_bytes: The longest message of a far side that is ready, all its parts together.
        hub: The id of this hub, which other hubs look at; others pass over such a property.
        mechanism: This side's part of one, of this connection alone if it has a state.
        waits: Whether this side does not tell its mechanism first; of two sides, at most one may.
    """

    __slots__ = (
        "_has_eof",
        "_hub",
        "_incoming",
        "_is_proving",
        "_limit_bytes",
        "_mechanism",
        "_minor",
        "_outgoing",
        "_own",
        "_state",
        "_step",
        "_withheld",
        "far_hub",
        "far_key",
        "fault",
        "is_sealed",
        "rejected_messages",
    )

    rejected_messages: int
    """How many messages were not taken, as none is expected here, or none of that kind."""

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
        self.far_hub = b""
        """The id of the far side, if it is a hub, once it is ready."""
        self.is_sealed = mechanism is not NULL
        """Whether whole messages must be sealed before they are written."""
        self.far_key = b""
        """The public key that the far side has proved to have, once it is ready; empty if it has shown none."""
        self.fault: Fault | None = None
        """Why the handshake has failed; None unless it has."""
        self._limit_bytes = limit_bytes
        self._incoming = mechanism.incoming(HANDSHAKE_LIMIT_BYTES)
        greeting = Greeting(mechanism.name, is_server=mechanism.is_server)
        self._minor = greeting.minor
        said = greeting.encode()
        told = OPENING_BYTES if waits else GREETING_BYTES
        self._outgoing = [said[:told]]
        # What is said once the far side's greeting fits.
        self._withheld = said[told:]
        self._state = _State.GREETING
        # What the far side has said in a handshake that takes long to check: it is told before that is done.
        self._step: Message | Command | None = None
        self._is_proving = False
        # Set when the far side has ended the stream.
        self._has_eof = False
        self.rejected_messages = 0

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
        return self._has_eof or self._step is not None or bool(self._incoming.held_bytes)

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
        self._outgoing.append(self._mechanism.seal(frames))

    def seal(self, frames: bytes) -> bytes:
        """Return whole messages as they are to be written, behind what goes out next and before all that is sealed."""
        return self._mechanism.seal(frames)

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
            if event is NEED_DATA and self._incoming.open_more():
                return None
        except ProtocolError as error:
            if not self.is_open:
                self.fault = error.fault if isinstance(error, HandshakeError) else Fault.GARBLED
            self._end()
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
        self._end()
        return Ended(CloseCode.DONE, text, by_far_side=True)

    def end(self) -> None:
        """End the session from this side, without a word."""
        self._end()

    def _end(self) -> None:
        self._state = _State.ENDED
        self._step = None
        self._incoming.forget()

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
        return self._subscription(found) if self._own.publishes else found

    def _next_step(self) -> Any:
        """Take a step of the handshake; if that takes long, say so first."""
        found, self._step = self._step or self._incoming.next_message(), None
        if found is None:
            return NEED_DATA
        if self.is_sealed and not self._is_proving:
            self._step, self._is_proving = found, True
            return Proving()
        self._is_proving = False
        return self._shake_hands(found)

    def _greet(self) -> NeedData | None:
        """Read the far side's greeting, and say the mechanism's first word."""
        beginning = self._incoming.peek(GREETING_BYTES)
        check_beginning(beginning)
        if len(beginning) < GREETING_BYTES:
            return NEED_DATA
        greeting = Greeting.decode(self._incoming.take(GREETING_BYTES))
        mechanism = self._mechanism
        if greeting.mechanism != mechanism.name:
            text = f"ZMTP: the far side uses the mechanism {greeting.mechanism}, this side {mechanism.name}"
            raise HandshakeError(Fault.MECHANISM, text)
        self._minor = min(self._minor, greeting.minor)
        self._say(self._withheld)
        properties = {"Socket-Type": self._own.value.encode()}
        if self._hub:
            properties[HUB] = self._hub
        self._say(mechanism.begin(encode_properties(properties)))
        self._state = _State.MECHANISM
        return None

    def _shake_hands(self, found: Message | Command) -> Ready | None:
        if isinstance(found, Message):
            raise ProtocolError(CloseCode.PROTOCOL_ERROR, "ZMTP: a message before READY")
        if found.name == b"ERROR":
            reason = found.data[1:].decode("utf-8", "replace")
            raise HandshakeError(Fault.REFUSED, f"ZMTP: the far side refuses this one: {reason!r}")
        step = self._mechanism.take(found)
        if step.metadata is None:
            self._say(step.said)
            return None
        kind = self._check(decode_properties(step.metadata))
        self._say(step.said)
        self.far_key = step.key
        self._state = _State.OPEN
        self._incoming.limit_bytes = self._limit_bytes
        return Ready(kind, self._minor)

    def _check(self, properties: dict[str, bytes]) -> str:
        """See to it that the far side's socket fits; return what it is."""
        kind = properties.get(SOCKET_TYPE, b"").decode("latin-1")
        if kind not in self._own.counterparts:
            names = " or ".join(self._own.counterparts)
            text = (
                f"ZMTP: the far side is a socket of the type {kind!r}, this one ({self._own.value}) talks with {names}"
            )
            raise ProtocolError(CloseCode.PROTOCOL_ERROR, text)
        self.far_hub = properties.get(HUB, b"")
        return kind

    def _say(self, data: bytes) -> None:
        if data:
            self._outgoing.append(data)

    def _obey(self, command: Command) -> Event | None:
        if command.name == b"PING":
            context = command.data[_TTL_BYTES : _TTL_BYTES + _PING_CONTEXT_BYTES]
            self.send(encode_command(Command(b"PONG", context)))
        elif self._own.publishes and command.name in (b"SUBSCRIBE", b"CANCEL"):
            return self._wish(command.data, is_wanted=command.name == b"SUBSCRIBE")
        return None

    def _subscription(self, message: Message) -> Event | None:
        frames, start = message.frames, message.starts[0]
        if len(message.ends) > 1 or start == len(frames) or frames[start] > 1:
            self.rejected_messages += 1
            return Refused(
                f"a message of {len(message.ends)} parts, where subscriptions are expected", is_subscription=False
            )
        return self._wish(frames[start + 1 :], is_wanted=bool(frames[start]))

    def _wish(self, topic: bytes, *, is_wanted: bool) -> Event | None:
        if len(topic) > TOPIC_LIMIT_BYTES:
            text = f"a topic of {len(topic)} bytes, the limit is {TOPIC_LIMIT_BYTES}"
            return Refused(text, is_subscription=True)
        return Subscribed(topic) if is_wanted else Unsubscribed(topic)


def encode_subscription(topic: bytes, *, is_wanted: bool) -> bytes:
    """Return the message that tells a publisher what this side wants, in the form that all versions know."""
    return encode_frame(bytes((is_wanted,)) + topic)
