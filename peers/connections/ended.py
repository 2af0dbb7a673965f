"""`ENDED`: what a connection carries once it is over, and `OVER`: what its parts know in its place.

Purpose: a connection and its conversation know each other, and so do a connection and its parts. Objects in such a
circle are freed by the garbage collector alone, which may take minutes; so a connection lets go of its conversation,
its parts let go of it, and what is still called then, at the end of a turn, finds these instead: nothing is said, heard
or done any more.

Owner: nobody; it has no state. See `peers.connections.conversation` for what each method is for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from peers.transport.transport import NO_TRANSPORT
from peers.wire.scanner import NEED_DATA

if TYPE_CHECKING:
    from collections.abc import Callable

    from hub.batch import Batch
    from hub.request_frame import Item
    from peers.connections.connection import Connection

__all__ = ["ENDED", "OVER"]


class _EndedSession:
    """Both sides have said all."""

    __slots__ = ()

    closed = True
    has_more = False
    has_outgoing = False
    held_bytes = unfinished = 0
    rejected_messages = 0

    def feed(self, data: bytes) -> None:
        """Throw it away."""

    def next_event(self) -> Any:
        """Nothing comes."""
        return NEED_DATA

    def take_outgoing(self) -> bytes:
        """Nothing is said."""
        return b""


class _Ended:
    """A conversation that is over. Whatever is asked of it, it does nothing."""

    __slots__ = ()

    session = _EndedSession()
    scheme = ""
    changes: frozenset[type] = frozenset()
    far_name = ""
    is_open = False
    is_held = is_bell = False
    is_quiet = True
    unsaid = ""

    def begin(self, refusal: str) -> None:
        """Do nothing."""

    def act(self, event: Any) -> int:  # noqa: ARG002 -- as of all conversations
        """Do nothing."""
        return 1

    def end_of_stream(self) -> None:
        """Do nothing."""

    def render(self, batches: list[Batch]) -> list[bytes]:  # noqa: ARG002
        """Nothing can be said."""
        return []

    def render_items(self, items: list[Item]) -> list[bytes]:  # noqa: ARG002
        """Nothing can be said."""
        return []

    def render_gap(self, lost_messages: int) -> bytes:  # noqa: ARG002
        """Nothing can be said."""
        return b""

    def write_more(self) -> None:
        """Do nothing."""

    def ping(self) -> None:
        """Do nothing."""

    def time_out(self) -> None:
        """Do nothing."""

    def drain(self, text: str) -> None:
        """Do nothing."""

    def drain_publisher(self, text: str) -> None:
        """Do nothing."""

    def close(self, code: int, text: str) -> str:  # noqa: ARG002
        """It is closed."""
        return text

    def leave(self, reason: str) -> None:
        """Do nothing."""

    def conclude(self) -> None:
        """Do nothing."""


ENDED = _Ended()
"""The one there is."""


class _Over:
    """A connection that is over, as far as its parts can still ask for it."""

    __slots__ = ()

    transport = NO_TRANSPORT
    conversation = ENDED
    session = ENDED.session
    handler = identity = None
    is_lost = True

    def after_turn(self, act: Callable[[], object]) -> None:
        """Do nothing."""

    def guard(self, act: Callable[[], object]) -> None:
        """Do nothing."""

    def fail(self, error: Exception) -> None:
        """It has ended."""

    def end(self, code: int, text: str) -> None:
        """It has ended."""


OVER = cast("Connection", _Over())
"""The one there is."""
