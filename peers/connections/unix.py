"""`UnixValues`: values that a client on a Unix socket and the hub have in shared memory.

```
HELLO with `shared` ─▶ the socket is handed over to a UnixTransport ─▶ HELLO, granted ─▶ handles, descriptors
```

A client that asks for shared memory sends no descriptor before it was granted, and the hub changes transports before it
answers: so none is lost. Clients without shared memory get bytes, copied once for all of them; blocks of a ring are
read when they come. The check of a handle costs 1.3 µs, whatever the size.
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
from hub.messages.frame import FLAG_BATCH, FLAG_CONFIRM, FLAG_SHARED, Frame
from hub.messages.request_frame import Item, Reply, Request, Status, failure
from hub.quotas import Resource, Share
from hub.topics import RESERVED
from peers.connections.connection import Connection
from peers.connections.conversation import Session
from peers.connections.tcp import TcpConversation, render_items
from peers.connections.websocket import WebSocketConversation
from peers.server.server import Server
from peers.shm import memory
from peers.shm.sharing import Memfd, Shared, SharedBatch, SharedValues, Sharing
from peers.shm.transport import UnixTransport
from peers.wire.control import Notice, encode_notice
from peers.wire.events import Confirmable, Event
from peers.wire.shared import Released, Segment, SharedMessages, decode_handle, encode_released

_RESERVED = RESERVED.encode()


def unix_connection(server: Server, queue: QueueLimits, *, cost: int | None = None) -> Connection:
    """Make a connection that was accepted on a Unix socket, which may also speak HTTP and WebSocket."""
    if not (server.settings.shm.over_bytes and memory.AVAILABLE):
        return hear_http(
            Connection(server, lambda connection: TcpConversation(server, queue, connection, cost=cost)), queue
        )

    def make(connection: Connection) -> TcpConversation:
        def share(conversation: TcpConversation, frame_limit_bytes: int) -> UnixValues | None:
            try:
                return UnixValues(server, conversation, connection, frame_limit_bytes)
            except OSError as error:  # no descriptor is left: the client is served like one over TCP
                server.log.warning(
                    "no memory is shared with a client", address=connection.address, reason=error.strerror
                )
                return None

        return TcpConversation(server, queue, connection, cost=cost, share=share)

    return hear_http(Connection(server, make), queue)


class UnixValues:
    """Shared memory with one client; its connection goes on with a transport that takes descriptors.

    Raises:
        OSError: No descriptor is left. Nothing has changed then.
    """

    __slots__ = ("_connection", "_conversation", "_far_frame_limit", "_server", "_session", "_sharing", "offered_bytes")

    def __init__(
        self, server: Server, conversation: TcpConversation, connection: Connection, frame_limit_bytes: int
    ) -> None:
        self._server = server
        self._conversation = conversation
        self._connection = connection
        self._session = conversation.session
        self._far_frame_limit = frame_limit_bytes
        self.offered_bytes = server.settings.shm.over_bytes
        self._sharing = self._hand_over()
        self._session.shared = True
        connection.after_read = self._check_surplus

    def _hand_over(self) -> Sharing:
        connection = self._connection
        loop = asyncio.get_running_loop()
        old = connection.transport
        number = os.dup(old.get_extra_info("socket").fileno())
        old.set_protocol(_Behind(connection))
        old.close()
        new = UnixTransport(loop, socket.socket(fileno=number), connection)
        connection.transport = new  # nothing was written yet
        loop.call_soon(new.start)  # behind what the old one may still bring
        return Sharing(self._server.shared, new, lambda: connection.after_turn(self._tell_released))

    @property
    def is_held(self) -> bool:
        """Whether the client has as much memory as it may have at a time."""
        return self._sharing.is_full

    def charge(self, share: Share) -> None:
        """Charge the client's user for its descriptors."""
        self._sharing.charge(share[Resource.DESCRIPTORS])

    # What the client says.

    def _check_surplus(self) -> None:
        try:
            self._sharing.check_surplus(within_frame=self._session.held_bytes > 0 and not self._session.closed)
        except ProtocolError as error:
            self._connection.end(error.code, error.text)

    def act(self, event: Event) -> int:
        """Do what an event asks for; return its share of a turn."""
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
                    return self._conversation.act_plainly(item) if item is not None else 1
                case _:
                    return self._conversation.act_plainly(event)
        except ProtocolError as error:
            self._connection.end(error.code, error.text)
        return 1

    def _publish(self, event: SharedMessages) -> None:
        """Route a message whose values are in shared memory."""
        frame, handle = event
        confirm = bool(frame.flags & FLAG_CONFIRM)
        frame = frame._replace(flags=frame.flags & ~FLAG_CONFIRM)
        messages = frame.messages
        try:
            shared = self._sharing.take(handle, messages, self._server.settings.limits.frame_bytes)
            self._connection.count_read(handle.size_bytes)
            batch = SharedBatch(frame, shared)
            if confirm:  # it is recorded, so somebody needs the bytes anyway
                batch.copy()
            else:
                self._route(frame, batch)
        except RejectedError as error:
            if confirm:
                self._conversation.commands.journal.refuse(error, 0, messages)
            else:
                self._conversation.refuse_messages(error, messages)
            return
        if confirm:
            self._conversation.commands.act(Confirmable(next(iter(batch.parts()))))

    def _route(self, frame: Frame, batch: SharedBatch) -> None:
        core = self._server.core
        route = core.routes.of(frame.routing_key)
        handler = cast("Handler", self._connection.handler)
        if self._sharing.is_beyond(batch.shared):
            core.publish(handler, route, Batch(batch.frames, batch.messages))
            return
        if batch.is_block and any(not one.delivery.takes_blocks for one in route.handlers):
            batch.copy()  # now: its publisher may take it back
        core.publish(handler, route, batch)

    def _segment(self, segment: Segment) -> None:
        if not segment.size_bytes:
            self._sharing.close_segment(segment.number)
            return
        try:
            number = self._sharing.open_segment(segment)
        except RejectedError as error:
            self._session.reject(error, segment.number)
            return
        self._session.send(encode_notice(Notice("confirmed", request=segment.number, segment=number)))

    def _release(self, released: Released) -> None:
        sharing = self._sharing
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
        sharing = self._sharing
        try:
            shared: Shared = sharing.take(handle, item.requests, self._server.settings.limits.frame_bytes)
            self._connection.count_read(handle.size_bytes)
            # A batch may be cut on its way, the hub itself reads what it is asked, and whoever gets it may not be let
            # see what else stands in the memory of a block.
            is_open = isinstance(shared, Memfd) or self._server.core.authority.policy is None
            if item.flags & FLAG_BATCH or _is_for_hub(item) or sharing.is_beyond(shared) or not is_open:
                plain = SharedValues.of(values, shared).plain(item.flags)
                return item._replace(values=plain, flags=item.flags & ~FLAG_SHARED)
        except RejectedError as error:
            if isinstance(item, Reply):
                self._session.refuse(error.code, error.text, item.requests)
                text = "the service's reply was not to be found in shared memory"
                return failure(item.first, item.requests, Status.FAILED, text)
            answer = failure(item.first, item.requests, Status.NOT_ALLOWED, error.text)
            cast("Handler", self._connection.handler).post(answer, keep=True)
            return None
        return item._replace(values=SharedValues.of(values, shared))

    # What the handler writes.

    def render(self, batches: list[Batch]) -> list[bytes]:
        """Hand batches in shared memory over, behind everything before them; return the rest as frames."""
        plain = self._conversation.render_plainly
        start = 0
        for place, batch in enumerate(batches):
            if type(batch) is SharedBatch:
                if place > start:
                    self._connection.write(plain(batches[start:place]))
                start = place + 1
                self._give_batch(batch)
        return plain(batches[start:]) if start < len(batches) else []

    def _give_batch(self, batch: SharedBatch) -> None:
        if self._session.has_outgoing:  # answers stand before messages
            self._connection.write_outgoing()
        origin = self._conversation.render_origin(batch)
        if origin:
            self._connection.write([origin])
        if batch.shared.handle.size_bytes > self._far_frame_limit:
            self._lose(batch)
        elif self._sharing.is_late(batch.shared) or (batch.is_block and not self._takes_blocks):
            self._give_late(batch)
        else:
            self._give(batch.shared_frame, batch.shared)

    @property
    def _takes_blocks(self) -> bool:
        return cast("Handler", self._connection.handler).delivery.takes_blocks

    def _give_late(self, batch: SharedBatch) -> None:
        try:
            batch.copy()
        except RejectedError:
            self._lose(batch)
        else:
            self._connection.write(self._conversation.render_plainly([batch]))

    def _lose(self, batch: SharedBatch) -> None:
        self._connection.lose(batch.messages)
        self._connection.write([self._conversation.render_gap(batch.messages)])

    def render_items(self, items: list[Item]) -> list[bytes]:
        """Hand requests and replies in shared memory over, as `render` does."""
        start = 0
        for place, item in enumerate(items):
            if isinstance(item.values, SharedValues):
                self._connection.write(render_items(items[start:place]))
                start = place + 1
                self._give(item.encode(), item.values.shared)
        return render_items(items[start:])

    def _give(self, frame: bytes, shared: Shared) -> None:
        if self._connection.transport.is_closing():
            return
        self._sharing.give(frame, shared)
        if self._sharing.is_full and isinstance(shared, Memfd):
            cast("Handler", self._connection.handler).pause()

    def _tell_released(self) -> None:
        """End of a turn: report the blocks of the client that are free again."""
        if not self._session.closed and not self._connection.transport.is_closing():
            released = self._sharing.take_released()
            if released:
                self._session.send(encode_released(released.items()))
                self._connection.write_outgoing()

    def close(self) -> None:
        """The client has gone."""
        self._sharing.close()


class _Behind(asyncio.Protocol):
    """Forwards what an old transport reads until the socket was handed over."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def data_received(self, data: bytes) -> None:
        self._connection.data_received(data)


def _is_for_hub(item: Item) -> bool:
    return isinstance(item, Request) and item.target.startswith(_RESERVED)


_LETTERS: Final = range(ord("A"), ord("Z") + 1)
"""A request of HTTP begins with one. A frame begins with the length of its body: that would be 1 GiB of HELLO."""


def hear_http(connection: Connection, queue: QueueLimits) -> Connection:
    """Have a connection check its first byte for HTTP; return it."""
    connection.session = cast("Session", _FirstByte(connection, queue))
    return connection


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
            connection.become(WebSocketConversation(connection.server, queue, connection, loopback=True, any_host=True))
        else:
            connection.session = self._usual
        connection.session.feed(data)
