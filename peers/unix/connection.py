"""`UnixConnection`: a `peers.tcp.Connection` over a Unix socket, whose far side may share memory with the hub.

```
HELLO with `shared` ─▶ the socket is handed over to a UnixTransport ─▶ HELLO, granted ─▶ handles, descriptors
```

A client that does not ask for it has the transport of the event loop, and nothing here is done for it. One that does
sends no descriptor before it was granted, and the hub changes transports before it answers: so none is lost, and what
was read behind HELLO is with the session already.

Owner: the event loop. Invariants: those of `peers.tcp.connection`; whoever does not take shared memory gets bytes, read
at most once for all of them; blocks are read while they are there, when they come.

Cost: that of a small frame, whatever the size, and 1.3 µs for its check. Figures are in docs/performance.md.
"""

from __future__ import annotations

import asyncio
import os
import socket
from typing import cast

import msgspec

from hub.batch import Batch
from hub.errors import ProtocolError, RejectedError
from hub.frame import FLAG_BATCH, FLAG_CONFIRM, FLAG_SHARED, Frame
from hub.handler import Handler
from hub.overflow import QueueLimits
from hub.requests.lane import Item
from hub.requests.layout import Reply, Request, Status, failure
from hub.routes import Route
from hub.topics import RESERVED
from peers.shm import memory
from peers.shm.batch import Memfd, Shared, SharedBatch, SharedValues
from peers.shm.sharing import Sharing
from peers.shm.transport import UnixTransport
from peers.tcp.connection import Connection
from peers.wire.control import Notice, encode_notice
from peers.wire.hello import Hello
from peers.wire.session import Confirmable, Event
from peers.wire.shared import Released, Segment, SharedMessages, decode_handle, encode_released

__all__ = ["UnixConnection"]

_RESERVED = RESERVED.encode()


class UnixConnection(Connection):
    """One Unix socket. Also the outlet of its handler. Arguments are those of `Connection`."""

    __slots__ = ("_is_paused", "_sharing")

    _sharing: Sharing | None
    _is_paused: bool
    """Whether the transport takes no bytes."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count the connection in."""
        self._sharing = None
        self._is_paused = False
        super().connection_made(transport)

    # The opening.

    def _greet(self, hello: Hello) -> None:
        over_bytes = self._node.settings.shm.over_bytes
        if hello.shared and hello.role == "client" and over_bytes and memory.AVAILABLE:
            self._hand_over()
        super()._greet(hello)
        if self._sharing is not None and self.handler is not None:
            self.handler.takes_shared = True

    def _introduction(self, granted: QueueLimits) -> Hello:
        hello = super()._introduction(granted)
        if self._sharing is None:
            return hello
        return msgspec.structs.replace(hello, shared=self._node.settings.shm.over_bytes)

    def _hand_over(self) -> None:
        """Go on with a transport that takes descriptors. Nothing was written yet."""
        old = self._transport
        loop = asyncio.get_running_loop()
        number = os.dup(old.get_extra_info("socket").fileno())
        old.set_protocol(_Behind(self))
        old.close()
        new = UnixTransport(loop, socket.socket(fileno=number), self)
        self._transport = new
        self._sharing = Sharing(self._node.shared, new, lambda: self._node.after_turn(self._tell_released))
        self._session.shared = True
        loop.call_soon(new.start)  # behind what the old one may still bring

    # Reading.

    def _work(self) -> None:
        super()._work()
        sharing = self._sharing
        if sharing is None or self._putting_off:
            return
        try:
            sharing.check_surplus(within_frame=self._session.within_frame and not self._session.closed)
        except ProtocolError as error:
            self._end(error.code, error.text)

    def _act(self, event: Event) -> int:
        sharing = self._sharing
        if sharing is None:
            return super()._act(event)
        try:
            match event:
                case SharedMessages():
                    self._publish(event, sharing)
                case Segment():
                    self._segment(event, sharing)
                case Released():
                    self._release(event, sharing)
                case Request() | Reply() if event.flags & FLAG_SHARED:
                    item = self._with_memory(event, sharing)
                    return super()._act(item) if item is not None else 1
                case _:
                    return super()._act(event)
        except ProtocolError as error:
            self._end(error.code, error.text)
        return 1

    def _publish(self, event: SharedMessages, sharing: Sharing) -> None:
        """Route a message whose values are in shared memory."""
        frame, handle = event
        confirm = bool(frame.flags & FLAG_CONFIRM)
        frame = frame._replace(flags=frame.flags & ~FLAG_CONFIRM)
        messages = frame.messages
        try:
            shared = sharing.take(handle, messages, self._node.settings.limits.frame_bytes)
            batch = SharedBatch(frame, shared)
            if confirm:  # it is recorded, so somebody needs the bytes anyway
                batch.copy()
            else:
                self._route(frame, batch, sharing)
        except RejectedError as error:
            if confirm:
                self._journal_requests().refuse(error, messages)
            else:
                self._refuse(error, messages)
            return
        if confirm:
            self._ask_journal(Confirmable(next(iter(batch.parts()))))

    def _route(self, frame: Frame, batch: SharedBatch, sharing: Sharing) -> None:
        core = self._node.core
        route: Route = core.routes.table.get(frame.routing_key) or core.routes.miss(frame.routing_key)
        handler = cast("Handler", self.handler)
        if sharing.is_beyond(batch.shared):
            core.publish(handler, route, Batch(batch.frames, batch.messages))
            return
        if batch.is_block and any(not one.takes_shared for one in route.handlers):
            batch.copy()  # now: its publisher may take it back
        core.publish(handler, route, batch)

    def _refuse(self, error: RejectedError, messages: int) -> None:
        self._session.rejected_messages += messages
        self._session.refuse(error.code, error.text, messages)

    def _segment(self, segment: Segment, sharing: Sharing) -> None:
        if not segment.size_bytes:
            sharing.close_segment(segment.number)
            return
        try:
            number = sharing.open_segment(segment)
        except RejectedError as error:
            self._session.reject(error, segment.number)
            return
        self._session.send(encode_notice(Notice("confirmed", request=segment.number, segment=number)))

    def _release(self, released: Released, sharing: Sharing) -> None:
        was_full = sharing.is_full
        for segment, generation in released.each:
            sharing.released(segment, generation)
        if was_full and not sharing.is_full and not self._is_paused:
            super().resume_writing()

    def _with_memory(self, item: Item, sharing: Sharing) -> Item | None:
        """Join a request or a reply with the memory that it speaks of.

        Returns:
            It, or the failure that a reply becomes whose memory is not what it says; None for such a request, which has
            been answered.
        """
        values = item.values
        handle = decode_handle(values, item.flags)
        try:
            shared: Shared = sharing.take(handle, item.requests, self._node.settings.limits.frame_bytes)
            # A batch may be cut on its way, and the hub itself reads what it is asked.
            if item.flags & FLAG_BATCH or _is_for_hub(item) or sharing.is_beyond(shared):
                plain = SharedValues.of(values, shared).plain(item.flags)
                return item._replace(values=plain, flags=item.flags & ~FLAG_SHARED)
        except RejectedError as error:
            if isinstance(item, Reply):
                self._session.refuse(error.code, error.text, item.requests)
                text = "the service's reply was not to be found in shared memory"
                return failure(item.first, item.requests, Status.FAILED, text)
            answer = failure(item.first, item.requests, Status.NOT_ALLOWED, error.text)
            cast("Handler", self.handler).post(answer, keep=True)
            return None
        return item._replace(values=SharedValues.of(values, shared))

    # Writing.

    @property
    def _is_read(self) -> bool:
        """A far side that has to take memory first is read all the same: that is how it says that it has."""
        return super()._is_read if self._sharing is None else not self._is_paused

    def pause_writing(self) -> None:
        """The transport has more than its high-water mark to write."""
        self._is_paused = True
        super().pause_writing()

    def resume_writing(self) -> None:
        """The transport takes bytes again."""
        self._is_paused = False
        if self._sharing is None or not self._sharing.is_full:
            super().resume_writing()

    def send(self, batches: list[Batch]) -> None:
        """Write batches as they are; those in shared memory as handles, to a client that takes them."""
        sharing = self._sharing
        if sharing is None:
            super().send(batches)
            return
        start = 0
        for place, batch in enumerate(batches):
            if type(batch) is SharedBatch:
                if place > start:
                    super().send(batches[start:place])
                start = place + 1
                self._send_shared(batch, sharing)
        if start < len(batches):
            super().send(batches[start:] if start else batches)

    def _send_shared(self, batch: SharedBatch, sharing: Sharing) -> None:
        if self._session.has_outgoing:  # answers stand before messages
            self._write_outgoing()
        if batch.shared.handle.size_bytes > self._far_frame_limit:
            cast("Handler", self.handler).lose(batch.messages)
        elif sharing.is_late(batch.shared):
            self._send_late(batch)
        else:
            self._give(batch.shared_frame, batch.shared, sharing)

    def _send_late(self, batch: SharedBatch) -> None:
        try:
            batch.copy()
        except RejectedError:
            cast("Handler", self.handler).lose(batch.messages)
        else:
            super().send([batch])

    def post(self, items: list[Item]) -> None:
        """Write requests and replies; those in shared memory as handles."""
        sharing = self._sharing
        if sharing is None or not any(item.flags & FLAG_SHARED for item in items):
            super().post(items)
            return
        for item in items:
            if isinstance(item.values, SharedValues):
                if self._session.has_outgoing:
                    self._write_outgoing()
                self._give(item.encode(), item.values.shared, sharing)
            else:
                super().post([item])

    def _give(self, frame: bytes, shared: Shared, sharing: Sharing) -> None:
        if self._transport.is_closing():
            return
        sharing.give(frame, shared)
        if sharing.is_full and isinstance(shared, Memfd):
            cast("Handler", self.handler).pause()

    def _tell_released(self) -> None:
        """End of a turn: tell the client which of its blocks nobody needs any more."""
        sharing = self._sharing
        if sharing is not None and not self._session.closed and not self._transport.is_closing():
            released = sharing.take_released()
            if released:
                self._session.send(encode_released(released.items()))
                self._write_outgoing()

    # Ends.

    def _leave(self) -> None:
        super()._leave()
        if self._sharing is not None:
            self._sharing.close()


class _Behind(asyncio.Protocol):
    """What an old transport may still say once the socket was handed over."""

    def __init__(self, connection: UnixConnection) -> None:
        self._connection = connection

    def data_received(self, data: bytes) -> None:
        """Read before it was told to stop."""
        self._connection.data_received(data)


def _is_for_hub(item: Item) -> bool:
    return isinstance(item, Request) and item.target.startswith(_RESERVED)
