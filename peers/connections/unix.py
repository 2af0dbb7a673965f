"""`UnixConversation`: a client on a Unix socket, which may share memory with the hub, or speak HTTP.

```
HELLO with `shared` ─▶ the socket is handed over to a UnixTransport ─▶ HELLO, granted ─▶ handles, descriptors
```

A client that asks for shared memory sends no descriptor before it was granted, and the hub changes transports before it
answers: so none is lost. Clients without shared memory get bytes, copied once for all of them; blocks of a ring are
read when they come. The check of a handle costs 1.3 µs, for any size.
"""

from __future__ import annotations

import asyncio
import os
import socket
from typing import Any, Final, cast

from hub.errors import ProtocolError, RejectedError
from hub.handlers.handler import Handler
from hub.limits import QueueLimits
from hub.messages.batch import Batch
from hub.messages.frame import FLAG_BATCH, FLAG_CONFIRM, FLAG_SHARED
from hub.messages.request_frame import Item, Reply, Request, Status, failure
from hub.quotas import Resource
from hub.topics import RESERVED
from peers.connections.connection import Connection
from peers.connections.conversation import Session
from peers.connections.tcp import TcpConversation, render_items
from peers.connections.websocket import Handshake
from peers.server.server import Server
from peers.shm import memory
from peers.shm.sharing import Memfd, Shared, SharedBatch, SharedValues, Sharing
from peers.shm.transport import UnixTransport
from peers.wire.control import Notice, encode_notice
from peers.wire.events import Confirmable, Event
from peers.wire.hello import Hello
from peers.wire.shared import Released, Segment, SharedMessages, decode_handle, encode_released

_RESERVED = RESERVED.encode()


def unix_connection(server: Server, queue: QueueLimits, *, cost: int | None = None) -> Connection:
    connection = Connection(server, lambda connection: UnixConversation(connection, queue, cost=cost))
    connection.session = cast("Session", _FirstByte(connection, queue))
    return connection


class UnixConversation(TcpConversation):
    """One client. Once memory is shared, its connection has a transport that takes descriptors."""

    __slots__ = ("_sharing",)

    def __init__(self, connection: Connection, queue: QueueLimits, *, cost: int | None = None) -> None:
        super().__init__(connection, queue, cost=cost)
        self._sharing: Sharing | None = None

    @property
    def _shared(self) -> Sharing:
        return cast("Sharing", self._sharing)

    @property
    def is_held(self) -> bool:
        return self._sharing is not None and self._sharing.is_full

    def _share_memory(self) -> int:
        over_bytes = self._server.settings.shm.over_bytes
        if not (over_bytes and memory.AVAILABLE):
            return 0
        connection = self._connection
        try:
            self._sharing = self._hand_over()
        except OSError as error:  # no descriptor is left: the client is served like one over TCP
            text = "no memory is shared with a client"
            self._server.log.warning(text, address=connection.address, reason=error.strerror)
            return 0
        self.session.shared = True
        self.render = self._render_shared
        connection.after_read = self._check_surplus
        return over_bytes

    def _hand_over(self) -> Sharing:
        connection = self._connection
        loop = asyncio.get_running_loop()
        old = connection.transport
        number = os.dup(old.get_extra_info("socket").fileno())
        old.set_protocol(_Forward(connection))
        old.close()
        new = UnixTransport(loop, socket.socket(fileno=number), connection)
        connection.transport = new  # nothing was written yet
        loop.call_soon(new.start)  # behind the last bytes of the old one
        return Sharing(self._server.shared, new, lambda: connection.after_turn(self._tell_released))

    def _opened(self, hello: Hello, handler: Handler, text: str) -> None:
        if self._sharing is not None and handler.share is not None:
            self._sharing.charge(handler.share[Resource.DESCRIPTORS])
        super()._opened(hello, handler, text)

    # The client's frames.

    def _check_surplus(self) -> None:
        try:
            self._shared.check_surplus(within_frame=self.session.held_bytes > 0 and not self.session.closed)
        except ProtocolError as error:
            self._connection.end(error.code, error.text)

    def act(self, event: Event) -> int:
        if self._sharing is None:
            return super().act(event)
        try:
            match event:
                case SharedMessages():
                    self._publish(event)
                case Segment():
                    self._segment(event)
                case Released():
                    self._release(event)
                case Request() | Reply() if event.flags & FLAG_SHARED:
                    item = self._with_memory(event)
                    return super().act(item) if item is not None else 1
                case _:
                    return super().act(event)
        except ProtocolError as error:
            self._connection.end(error.code, error.text)
        return 1

    def _publish(self, event: SharedMessages) -> None:
        frame, handle = event
        confirm = bool(frame.flags & FLAG_CONFIRM)
        frame = frame._replace(flags=frame.flags & ~FLAG_CONFIRM)
        messages, core = frame.messages, self._server.core
        try:
            shared = self._shared.take(handle, messages, self._server.settings.limits.frame_bytes)
            self._connection.count_read(handle.size_bytes)
            batch = SharedBatch(frame, shared)
            if confirm:
                batch.copy()  # the journal needs the bytes anyway
            else:
                route = core.routes.of(frame.routing_key)
                handler = cast("Handler", self._connection.handler)
                if self._shared.is_beyond(shared):
                    core.publish(handler, route, Batch(batch.frames, batch.messages))
                    return
                if batch.is_block and any(not one.delivery.takes_blocks for one in route.handlers):
                    batch.copy()  # now: its publisher may take it back
                core.publish(handler, route, batch)
        except RejectedError as error:
            if confirm:
                self._requests.refuse_confirmable(error, 0, messages)
            else:
                self.refuse_messages(error, messages)
            return
        if confirm:
            self._requests.act(Confirmable(next(iter(batch.parts()))))

    def _segment(self, segment: Segment) -> None:
        if not segment.size_bytes:
            self._shared.close_segment(segment.number)
            return
        try:
            number = self._shared.open_segment(segment)
        except RejectedError as error:
            self.session.reject(error, segment.number)
            return
        self.session.send(encode_notice(Notice("confirmed", request=segment.number, segment=number)))

    def _release(self, released: Released) -> None:
        sharing = self._shared
        was_full = sharing.is_full
        for segment, generation in released.each:
            sharing.released(segment, generation)
        if was_full and not sharing.is_full and not self._connection.is_choked:
            self._connection.write_on()

    def _with_memory(self, item: Item) -> Item | None:
        """Join a request or a reply with its memory.

        Returns:
            The item; the failure that a reply becomes whose handle is wrong; None for such a request, already answered.
        """
        values = item.values
        handle = decode_handle(values, item.flags)
        sharing = self._shared
        try:
            shared: Shared = sharing.take(handle, item.requests, self._server.settings.limits.frame_bytes)
            self._connection.count_read(handle.size_bytes)
            # A batch may be cut on its way, the hub itself reads requests to it, and a receiver may not have the right
            # to see the rest of the memory of a block.
            is_open = isinstance(shared, Memfd) or self._server.core.authority.policy is None
            is_for_hub = isinstance(item, Request) and item.target.startswith(_RESERVED)
            if item.flags & FLAG_BATCH or is_for_hub or sharing.is_beyond(shared) or not is_open:
                plain = SharedValues.of(values, shared).plain(item.flags)
                return item._replace(values=plain, flags=item.flags & ~FLAG_SHARED)
        except RejectedError as error:
            if isinstance(item, Reply):
                self.session.refuse(error.code, error.text, item.requests)
                text = "the service's reply was not to be found in shared memory"
                return failure(item.first, item.requests, Status.FAILED, text)
            answer = failure(item.first, item.requests, Status.NOT_ALLOWED, error.text)
            cast("Handler", self._connection.handler).post(answer, keep=True)
            return None
        return item._replace(values=SharedValues.of(values, shared))

    # The handler's messages.

    def _render_shared(self, batches: list[Batch]) -> list[bytes]:
        """Hand batches in shared memory over, behind everything before them; return the rest as frames."""
        plain = self.render_plainly
        start = 0
        for place, batch in enumerate(batches):
            if type(batch) is SharedBatch:
                if place > start:
                    self._connection.write(plain(batches[start:place]))
                start = place + 1
                self._give_batch(batch)
        return plain(batches[start:]) if start < len(batches) else []

    def _give_batch(self, batch: SharedBatch) -> None:
        connection = self._connection
        if self.session.has_outgoing:  # answers go before messages
            connection.write_outgoing()
        origin = b"" if self._origins is None else self._origins.before(batch)
        if origin:
            connection.write([origin])
        takes_blocks = cast("Handler", connection.handler).delivery.takes_blocks
        if batch.shared.handle.size_bytes > self._far_frame_limit:
            self._lose(batch)
        elif self._shared.is_late(batch.shared) or (batch.is_block and not takes_blocks):
            try:
                batch.copy()
            except RejectedError:
                self._lose(batch)
            else:
                connection.write(self.render_plainly([batch]))
        else:
            self._give(batch.shared_frame, batch.shared)

    def _lose(self, batch: SharedBatch) -> None:
        self._connection.lose(batch.messages)
        self._connection.write([self.render_gap(batch.messages)])

    def render_items(self, items: list[Item]) -> list[bytes]:
        if self._sharing is None:
            return super().render_items(items)
        start = 0
        for place, item in enumerate(items):
            if isinstance(item.values, SharedValues):
                self._connection.write(render_items(items[start:place]))
                start = place + 1
                self._give(item.encode(), item.values.shared)
        return render_items(items[start:])

    def _give(self, frame: bytes, shared: Shared) -> None:
        if not self._connection.transport.is_closing():
            self._shared.give(frame, shared)
            if self._shared.is_full and isinstance(shared, Memfd):
                cast("Handler", self._connection.handler).pause()

    def _tell_released(self) -> None:
        if self._sharing is not None and not self.session.closed and not self._connection.transport.is_closing():
            released = self._sharing.take_released()
            if released:
                self.session.send(encode_released(released.items()))
                self._connection.write_outgoing()

    def leave(self, reason: str) -> None:
        if self._sharing is not None:
            self._sharing.close()
        super().leave(reason)

    def conclude(self) -> None:
        self._sharing = None
        super().conclude()


class _Forward(asyncio.Protocol):
    """Forwards the bytes of an old transport until the socket was handed over."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def data_received(self, data: bytes) -> None:
        self._connection.data_received(data)


_LETTERS: Final = range(ord("A"), ord("Z") + 1)
"""A request of HTTP begins with one. A frame begins with the length of its body: that would be 1 GiB of HELLO."""


class _FirstByte:
    """The session of a connection until its first byte has come; the usual session in all but `feed`."""

    __slots__ = ("_connection", "_queue", "_usual")

    def __init__(self, connection: Connection, queue: QueueLimits) -> None:
        self._connection = connection
        self._queue = queue
        self._usual = connection.session

    def __getattr__(self, name: str) -> Any:
        return getattr(self._usual, name)

    def feed(self, data: bytes) -> None:
        connection, queue = self._connection, self._queue
        if data[0] in _LETTERS and not self._usual.closed:
            connection.become(Handshake(connection, queue, loopback=True, any_host=True))
        else:
            connection.session = self._usual
        connection.session.feed(data)
