"""`Conversation`: what a connection carries, as the connection sees it; `Session`: its protocol, without I/O.

```
Connection                    Conversation                 Session
reads ── feed ──────────────────────────────────────────▶  bytes in
      ◀─ next_event ────────────────────────────────────   events out
      ── act(event) ────────▶ the hub                      answers
      ◀─ take_outgoing ─────────────────────────────────   bytes out
handler ── send ── render ──▶ bytes of this protocol
```

A conversation decides what an event means and how it is answered; a connection decides when. TCP, WebSocket, HTTP,
Broker, Zeek's JSON bridge and ZeroMQ each have one.
"""

from __future__ import annotations

from typing import Any, Protocol, cast

from hub.messages.batch import Batch
from hub.messages.request_frame import Item
from peers.wire.scanner import NEED_DATA


class Session(Protocol):
    """The state of a protocol: bytes in, events out."""

    @property
    def closed(self) -> bool:
        """Whether one side has ended the conversation."""

    @property
    def has_outgoing(self) -> bool:
        """Whether something waits to be written."""

    @property
    def has_more(self) -> bool:
        """False if `next_event` is known to return `NEED_DATA` until something is fed."""

    @property
    def rejected_messages(self) -> int:
        """Messages of the far side that were rejected, except those that the conversation counts itself."""

    @property
    def held_bytes(self) -> int:
        """Bytes that were read and not acted on; 0 once the conversation is over."""

    @property
    def unfinished(self) -> int:
        """The number of the message of several frames whose last one has not come; 0 if there is none."""

    def feed(self, data: bytes) -> None:
        """Take a read."""

    def next_event(self) -> Any:
        """Return the next event; `NEED_DATA` if there is none, None for something that is dealt with already."""

    def take_outgoing(self) -> bytes:
        """Return and forget the bytes to be written."""


class Conversation(Protocol):
    """A protocol, and what it does to the hub for one far side."""

    @property
    def session(self) -> Session:
        """The state of the protocol; always the same object."""

    @property
    def scheme(self) -> str:
        """The protocol, as the scheme of a URL without TLS."""

    @property
    def changes(self) -> frozenset[type]:
        """The events that change what the hub knows, see `peers.server.read_budget`."""

    @property
    def far_name(self) -> str:
        """What the far side calls itself before it has a handler."""

    @property
    def is_open(self) -> bool:
        """Whether the handshake is over, so that pings make sense."""

    @property
    def is_held(self) -> bool:
        """Whether the far side must do something else than read before its handler may write on."""

    @property
    def is_bell(self) -> bool:
        """Whether the handler's messages only say that there are some, so that it never waits."""

    @property
    def is_quiet(self) -> bool:
        """Whether its end is logged for debugging only, as after a plain HTTP request."""

    @property
    def unsaid(self) -> str:
        """The reason of an end for which the far side gave none."""

    def begin(self, refusal: str) -> None:
        """The socket is connected: say the first word if that is this side's.

        Args:
            refusal: Why the hub takes no further connection, for the far side; empty if it does.
        """

    def act(self, event: Any) -> int:
        """Do what an event asks for; return its share of a turn."""

    def end_of_stream(self) -> None:
        """The far side has ended its stream in order."""

    def render(self, batches: list[Batch]) -> list[bytes]:
        """Return batches as this protocol has them."""

    def render_items(self, items: list[Item]) -> list[bytes]:
        """Return requests and replies as this protocol has them."""

    def render_gap(self, lost_messages: int) -> bytes:
        """Return the notice that messages were lost here; empty where the protocol has none."""

    def write_more(self) -> None:
        """The transport takes bytes again, and the handler's queue is written: write what else was put off."""

    def ping(self) -> None:
        """Ask for a sign of life."""

    def time_out(self) -> None:
        """The handshake has taken too long: end it."""

    def drain(self, text: str) -> None:
        """The hub stops, and its queue is written: say so."""

    def close(self, code: int, text: str) -> str:
        """End the session from this side; return the reason as it was sent."""

    def leave(self, reason: str) -> None:
        """The far side has left the hub. May be called several times."""

    def conclude(self) -> None:
        """The socket is closed, and everything was given back: drop references."""


class _Ended:
    """Conversation and session of every connection that is over, so that it and its own are freed at once."""

    __slots__ = ()

    closed = is_quiet = True
    has_more = has_outgoing = is_open = is_held = is_bell = False
    held_bytes = unfinished = rejected_messages = 0
    scheme = far_name = unsaid = ""
    changes: frozenset[type] = frozenset()

    @property
    def session(self) -> _Ended:
        return self

    def feed(self, data: bytes) -> None: ...

    def next_event(self) -> Any:
        return NEED_DATA

    def take_outgoing(self) -> bytes:
        return b""

    def render_items(self, items: list[Item]) -> list[bytes]:  # noqa: ARG002 -- see `Connection.post`
        return []

    def leave(self, reason: str) -> None: ...


ENDED = cast("Conversation", _Ended())
