"""`EventSession`: the side of a subscriber (XSUB, SUB), to which the events of Zeek nodes come as runs of messages.

As `peers.zeek.zmtp.session`, but that messages are read by `peers.zeek.zmtp.event_reading`: a read may bring thousands.

Owner: one connection.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from peers.wire.scanner import NEED_DATA, RouteTable
from peers.zeek.zmtp.event_reading import EventReader, Keep, NoEvent
from peers.zeek.zmtp.frames import Command
from peers.zeek.zmtp.mechanism import NULL, Mechanism
from peers.zeek.zmtp.session import Session, SocketType

__all__ = ["EventSession"]

R = TypeVar("R")


class EventSession(Session, Generic[R]):
    """One side of a connection.

    Args:
        limit_bytes: The longest message of a far side that is ready, all its parts together.
        routes: Where the routes of messages are looked up.
        keep: Called with a run of events, and with the bytes that it was read from.
        own: This side's node id, whose events are not taken; None for none.
        hub: The id of this hub; see `Session`.
        mechanism: See `Session`.
        waits: See `Session`.
        mailbox: What the topics begin with whose events come as `Addressed`; empty for none.
        learn: Told the serializer of the first event.
    """

    __slots__ = ("_reader",)

    def __init__(  # noqa: PLR0913 -- what a side is told at once
        self,
        limit_bytes: int,
        routes: RouteTable[R],
        keep: Keep,
        own: bytes | None = None,
        hub: bytes = b"",
        *,
        mechanism: Mechanism = NULL,
        waits: bool = False,
        mailbox: bytes = b"",
        learn: Callable[[bytes], object] = lambda _: None,
    ) -> None:
        super().__init__(SocketType.XSUB, limit_bytes, hub, mechanism, waits=waits)
        self._reader = EventReader(self._incoming, routes, keep, own, mailbox=mailbox, learn=learn)

    def next_event(self) -> Any:
        """Return what the far side says next, as `Session.next_event`.

        Its messages come as a `Run` or a `Stretch` of events, as `Addressed`, or as `NoEvent`.
        """
        if not self.is_open:
            return super().next_event()
        found = self._reader.next_stretch()
        return super().next_event() if found is None else found

    def _next(self) -> Any:
        if not self.is_open:
            return super()._next()
        found = self._incoming.next_message()
        if found is None:
            return NEED_DATA
        if isinstance(found, Command):
            return self._obey(found)
        event = self._reader.take(found)
        if isinstance(event, NoEvent):
            self.rejected_messages += 1
        return event
