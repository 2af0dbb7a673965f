"""`Writer`: all that one connection writes; the outlet of its handler.

```
session ── take_outgoing ─▶ answers ─────────────┐
conversation, verbs ─ write, speak ─▶ frames ────┤─▶ transport ─ full ─▶ pause ─▶ the handler queues
handler ─ send, post ─▶ conversation.render ─────┘             ─ empty ▶ resume ─▶ write_on
```

Purpose: in which order, and in how many writes, what there is to say leaves, and what is done while the transport holds
more than it should.

Owner: one `Connection`, which knows its handler, its session and its transport. Invariants: what the session answers is
written before what a read routed, so that a confirmation precedes the messages it speaks of; what a read brought for a
handler is one write; nothing is written to a transport that is closing; a far side that makes this side answer without
reading is not read on until it does.

Cost: per write, not per message. Not here: what is said (`peers.connections.conversation`), what happens on overflow
(`hub.handler`), the last word (`peers.connections.ending`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from hub.batch import Batch
from hub.request_frame import Item
from peers.connections.reading import UNANSWERED
from peers.node.waiting_time import WaitingTime
from peers.transport.tls_transport import KEPT_BYTES
from peers.transport.transport import pause_while_unwritten, write_pieces

if TYPE_CHECKING:
    from hub.handler import Handler
    from peers.connections.connection import Connection

__all__ = ["Writer"]

_COPIED_BYTES = 16 * 1024
"""Pieces of up to this size together are joined before they are written: to a transport each piece is work."""


class Writer:
    """Of one connection. See `hub.outlet.Outlet` and `hub.outlet.Poster`."""

    __slots__ = ("_is_speaking", "_is_telling_gap", "_rejected_messages", "_waiting", "connection", "is_choked")

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        """Whose it is; `OVER` once that is over."""
        self.is_choked = False
        """Whether the transport holds more than its high-water mark, from `pause` to `resume`."""
        self._is_speaking = False
        """Whether what the session has to say will be written after this turn."""
        self._is_telling_gap = False
        """Whether a loss is being counted that the far side was told of among its frames."""
        self._waiting: WaitingTime | None = None
        """How long the queue of the handler stands, while it may."""
        self._rejected_messages = 0
        """How many of the messages that the session has refused are counted at the node. It lags behind until this side
        writes."""

    # What is to be said.

    def write(self, pieces: list[bytes]) -> None:
        """Write ready frames, behind what the session has to say, with one write."""
        transport = self.connection.transport
        if self.connection.session.has_outgoing:
            pieces = [self._take_outgoing(), *pieces]
        if not pieces or transport.is_closing():
            return
        if len(pieces) == 1:
            transport.write(pieces[0])
        elif sum(map(len, pieces)) <= _COPIED_BYTES:
            transport.write(b"".join(pieces))
        else:
            write_pieces(transport, pieces)

    def write_outgoing(self) -> None:
        """Write what the session has to say."""
        outgoing = self._take_outgoing()
        transport = self.connection.transport
        if outgoing and not transport.is_closing():
            transport.write(outgoing)

    def _take_outgoing(self) -> bytes:
        self.count_rejected()
        return self.connection.session.take_outgoing()

    def count_rejected(self) -> None:
        """Count at the node what the session has refused since this was called last."""
        rejected = self.connection.session.rejected_messages
        if rejected != self._rejected_messages:
            self.connection.node.rejected_messages += rejected - self._rejected_messages
            self._rejected_messages = rejected

    def change_session(self) -> None:
        """The connection is about to have another session: what that has refused is counted from nothing."""
        self.count_rejected()
        self._rejected_messages = 0

    def write_answers(self) -> None:
        """Write what a read has made the session say, with what is for its handler."""
        handler = self.connection.handler
        if handler is not None:
            handler.write_pending()  # with what it is told itself, so that all that was asked for is one write
        self.write_outgoing()
        self.wait_for_reader()

    def speak(self) -> None:
        """Write what the session has to say after this turn: many answers, one write."""
        if not self._is_speaking:
            self._is_speaking = True
            self.connection.after_turn(self._speak)

    def _speak(self) -> None:
        self._is_speaking = False
        connection = self.connection
        if connection.session.closed or connection.transport.is_closing():
            return
        self.write_outgoing()
        self.wait_for_reader()

    # What is in the way.

    def pause(self) -> None:
        """The transport has more than its high-water mark to write."""
        connection = self.connection
        self.is_choked = True
        self._leave_unwritten()
        if connection.handler is not None and not connection.conversation.is_bell:
            connection.handler.pause()
            if self._waiting is None:
                self._waiting = WaitingTime(connection.node.loop.time())

    def resume(self) -> None:
        """The transport takes bytes again."""
        connection = self.connection
        self.is_choked = False
        connection.holding.leave_unwritten(0)
        # Whoever reads slowly may be minutes away from a ping that stands behind all of that.
        connection.watch.hear()
        if connection.conversation.is_held:
            connection.read_on(UNANSWERED)  # it is read: that is how it says that it has done what it must
        else:
            self.write_on()

    def _leave_unwritten(self) -> None:
        """The transport holds something: it is charged for, with what TLS keeps beside it."""
        connection, transport = self.connection, self.connection.transport
        connection.holding.leave_unwritten(transport.get_write_buffer_size() + transport.get_extra_info(KEPT_BYTES, 0))

    def carry(self, free_bytes: int, *, is_tight: bool) -> None:
        """Hold so much in each direction without it being charged; where it is tight, ask before each write.

        The user of the far side has many connections, or much in transit (`hub.quotas.transit`).
        """
        connection, transport = self.connection, self.connection.transport
        connection.holding.free_bytes = free_bytes
        if connection.handler is not None and not connection.handler.closed:
            connection.handler.restrain(restrained=is_tight)
        if transport.is_closing():
            return
        if is_tight:
            pause_while_unwritten(transport)
        else:
            transport.set_write_buffer_limits(free_bytes)
        if self.is_choked:
            self._leave_unwritten()

    def write_on(self) -> None:
        """Nothing is in the way of the handler: it writes its queue, and then what else was put off is written."""
        connection = self.connection
        handler, waiting = connection.handler, self._waiting
        if handler is not None:
            waited = handler.queued_messages
            handler.resume()
            node = connection.node
            if waiting is not None and not waiting.look(handler, waited, node.loop.time(), node.queue_times):
                self._waiting = None
        if not (self.is_choked or connection.transport.is_closing()):
            connection.go_on_written()

    def wait_for_reader(self) -> None:
        """Do not read on while the far side does not read what it has made this side write."""
        connection = self.connection
        if self.is_choked and not connection.ending.is_lingering:
            self._leave_unwritten()
            connection.stop_reading(UNANSWERED)

    # The outlet of the handler.

    def send(self, batches: list[Batch]) -> None:
        """Write batches in this protocol's form, with one write."""
        connection = self.connection
        transport = connection.transport
        if transport.is_closing():
            return
        try:
            if connection.session.has_outgoing:  # an early write, in the middle of a read: answers before messages
                self.write_outgoing()
            pieces = connection.conversation.render(batches)
            if len(pieces) == 1:
                transport.write(pieces[0])
            elif pieces:
                write_pieces(transport, pieces)
        except Exception as error:  # noqa: BLE001 -- the last line of defence: it may be another one's turn
            connection.fail(error)

    def post(self, items: list[Item]) -> None:
        """Write requests and replies, behind what else is to be said."""
        try:
            self.write(self.connection.conversation.render_items(items))
        except Exception as error:  # noqa: BLE001 -- as above
            self.connection.fail(error)

    def send_gap(self, lost_messages: int) -> None:
        """Tell the far side how many of its messages were lost here."""
        connection = self.connection
        if not self._is_telling_gap and not connection.transport.is_closing():
            notice = connection.conversation.render_gap(lost_messages)
            if notice:
                connection.transport.write(notice)

    def lose(self, messages: int) -> None:
        """Count messages that could not be said in this protocol. The conversation tells the far side, if it can."""
        self._is_telling_gap = True
        cast("Handler", self.connection.handler).lose(messages)
        self._is_telling_gap = False

    def close(self, code: int, text: str) -> None:
        """Called by the handler: its policy is to disconnect."""
        self.connection.end(code, text)
