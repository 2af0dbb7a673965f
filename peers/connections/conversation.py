"""`Conversation`: what one connection carries, as the connection sees it; `Session`: its protocol, without I/O.

```
Connection                    Conversation                 Session
reads ── feed ──────────────────────────────────────────▶  bytes in
      ◀─ next_event ────────────────────────────────────   events out
      ── act(event) ────────▶ the hub                      answers
      ◀─ take_outgoing ─────────────────────────────────   bytes out
handler ── send ── render ──▶ bytes of this protocol
```

Purpose: to keep what differs between TCP, WebSocket, Unix sockets, Broker and Zeek's WebSocket server apart from what
does not. A conversation decides what an event means and how things are said; a connection decides when.

Owner of a conversation: one `Connection`. Nothing here waits, and nothing here knows of the event loop.
"""

from __future__ import annotations

from typing import Any, Protocol, cast

from hub.batch import Batch
from hub.request_frame import Item
from peers.wire.scanner import NEED_DATA

__all__ = ["ENDED", "Conversation", "Session"]


class Session(Protocol):
    """The state of a protocol: bytes in, events out."""

    @property
    def closed(self) -> bool:
        """Whether one side has ended the conversation, so that nothing more is said."""

    @property
    def has_outgoing(self) -> bool:
        """Whether something waits to be written."""

    @property
    def has_more(self) -> bool:
        """False if `next_event` is known to return `NEED_DATA`, and nothing else, until something is fed."""

    @property
    def rejected_messages(self) -> int:
        """How many messages of the far side were refused so far, but for those that the conversation counts itself."""

    @property
    def held_bytes(self) -> int:
        """How many bytes were read and not acted on: a frame or message that is not complete, and what waits behind.

        Once it is over, that is nothing.
        """

    @property
    def unfinished(self) -> int:
        """The number of the message whose first frames have come, but not its last one; 0 if there is none.

        Only where a message may have several frames. Others stand between them, and say nothing of its progress.
        """

    def feed(self, data: bytes) -> None:
        """Take what was read."""

    def next_event(self) -> Any:
        """Return what the far side says next; `NEED_DATA` if that is all, None for what is dealt with already."""

    def take_outgoing(self) -> bytes:
        """Return and forget what is to be written now."""


class Conversation(Protocol):
    """A protocol, and what it does to the hub for one far side."""

    @property
    def session(self) -> Session:
        """The state of the protocol; always the same object."""

    @property
    def scheme(self) -> str:
        """What is spoken, as the scheme of a URL without TLS."""

    @property
    def changes(self) -> frozenset[type]:
        """The events that change what the hub knows of somebody, see `peers.node.common_share`."""

    @property
    def far_name(self) -> str:
        """What the far side has called itself before it has a handler, empty if nothing: see `Connection.far_name`."""

    @property
    def is_open(self) -> bool:
        """Whether the handshake is over, so that pings make sense."""

    @property
    def is_held(self) -> bool:
        """Whether the far side must do something else than read before its handler may write on."""

    @property
    def is_bell(self) -> bool:
        """Whether its handler is offered messages only to learn that there are some, so that it is never to wait."""

    @property
    def is_quiet(self) -> bool:
        """Whether nobody wants a line in the log when it ends, as after a plain HTTP request."""

    @property
    def unsaid(self) -> str:
        """The reason of an end for which the far side gave none."""

    def begin(self, refusal: str) -> None:
        """The socket is connected: say the first word if that is this side's.

        Args:
            refusal: Why the hub takes no further connection, which the far side must be told; empty if it does.
        """

    def act(self, event: Any) -> int:
        """Do what an event asks for; return its share of a turn. It may be put off before, but not behind others."""

    def end_of_stream(self) -> None:
        """The far side will send nothing more; what it had sent before is still to be acted on."""

    def render(self, batches: list[Batch]) -> list[bytes]:
        """Return the batches as this protocol has them. What cannot be said is told to `Connection.lose`."""

    def render_items(self, items: list[Item]) -> list[bytes]:
        """Return requests and replies as this protocol has them."""

    def render_gap(self, lost_messages: int) -> bytes:
        """Return the notice that so many messages were lost here, empty where the protocol has no word for it."""

    def write_more(self) -> None:
        """The transport takes bytes again, and the handler's queue is written: write what else was put off."""

    def ping(self) -> None:
        """Ask for a sign of life."""

    def time_out(self) -> None:
        """The handshake has taken too long: end it."""

    def drain(self, text: str) -> None:
        """The hub stops, and what was queued is written: say so, in these words where the protocol has room."""

    def close(self, code: int, text: str) -> str:
        """End the session from this side, and return the reason as it was told."""

    def leave(self, reason: str) -> None:
        """The far side is no part of the hub any more. May be called several times."""

    def conclude(self) -> None:
        """The socket is closed, and everything was given back."""


class _EndedSession:
    """Both sides have said all."""

    __slots__ = ()

    closed = True
    has_more = has_outgoing = False
    held_bytes = unfinished = rejected_messages = 0

    def feed(self, data: bytes) -> None:
        """Throw it away."""

    def next_event(self) -> Any:
        """Return that nothing comes."""
        return NEED_DATA

    def take_outgoing(self) -> bytes:
        """Return nothing."""
        return b""


class _Ended:
    """What a connection is asked for after its end; it calls nothing of its conversation any more."""

    __slots__ = ()

    session = _EndedSession()
    scheme = far_name = unsaid = ""
    changes: frozenset[type] = frozenset()
    is_open = is_held = is_bell = False
    is_quiet = True

    def render_items(self, items: list[Item]) -> list[bytes]:  # noqa: ARG002
        """Return nothing: another connection may write to this one in its own turn."""
        return []

    def leave(self, reason: str) -> None:
        """Do nothing."""


ENDED = cast("Conversation", _Ended())
"""The conversation of every connection that is over, in place of the one that knew it: so both are freed at once."""
