"""Shared memory on a client's side: a conversation and a connection that hand memory over, and the client's blocks.

Over a Unix socket, values larger than the hub's limit (`shared` in its HELLO) travel as memory of their own, filled and
sealed here; a `Block` travels as its handle, without a copy. Where that is not granted, or not possible now (no
descriptor is left, the ring is not confirmed yet), the same travels as bytes. Received memory is checked before it is
mapped.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import socket
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, cast

from hub.errors import BlockGoneError, BusyError, CloseCode, ProtocolError, RejectedError
from hub.messages.frame import FLAG_BATCH, FLAG_SHARED, HEADER_BYTES, encode_frame, iterate_frames
from hub.messages.request_frame import Reply, Request
from hub.messages.stretch import Run
from peers.client.connection import Connection
from peers.client.conversation import Event, Introduction, Unreadable
from peers.client.routes import LocalRoutes
from peers.client.settings import ClientSettings
from peers.client.wire import WireConversation
from peers.shm import memory
from peers.shm.memory import Account, Descriptor
from peers.shm.ring import Block, BlockFrame, BlockValues, Ring
from peers.shm.transport import UnixTransport
from peers.shm.views import KnownSegment, Mapping, ReadBlock, Received, SharedRun, ViewValues, copied
from peers.wire.control import Notice
from peers.wire.events import Closing
from peers.wire.hello import Hello
from peers.wire.shared import (
    DESCRIPTORS,
    Handle,
    Released,
    Segment,
    SharedMessages,
    decode_handle,
    encode_released,
    encode_segment,
)

if TYPE_CHECKING:
    from peers.client.exchange import Exchange

_RING_REQUEST = 1  # Request number of the ring; its answer is recognised by its segment
_DESCRIPTORS_LIMIT = 64  # Messages whose memory stays open until they are read; more are copied when they come
_TELL_DESCRIPTORS = 16  # After so many descriptors RELEASED is sent at once: a quarter of a hub's default limit
_TELL_BYTES = 8 * 1024 * 1024  # After so many bytes RELEASED is sent at once: an eighth of that limit
_TELL_S = 0.01  # Delay of RELEASED for fewer, seconds. A hub with lower limits than the default waits so each time
_LOOK_AGAIN_S = 0.05
"""Interval at which a client that waits for room looks again, seconds: blocks dropped unsent make room silently."""

_Piece = tuple[bytes, Descriptor | None]  # A frame, or several, and the descriptor that goes with it


class SharingConversation(WireConversation):
    """The state of the protocol over one Unix socket."""

    def __init__(
        self,
        introduction: Introduction,
        routes: LocalRoutes,
        ring: Ring | None,
        on_room: Callable[[], None],
        *,
        views: bool,
    ) -> None:
        super().__init__(introduction, routes)
        self._loop = asyncio.get_running_loop()
        self._routes = routes
        self._views = views
        # Of the connection, while there is one: received descriptors, and its `write_outgoing`.
        self._descriptors: deque[Descriptor] = deque()
        self._write: Callable[[], None] | None = None
        self._over_bytes = 0  # Larger values travel as memory; 0 until the hub has granted it
        self._ring = ring
        self._on_room = on_room
        self._ring_number = 0  # The number that the hub has given the ring; 0 before
        self._pieces: deque[_Piece] = deque()
        self._known: dict[int, KnownSegment] = {}  # Number → segment of another client
        # Segments with released blocks that are not reported to the hub yet.
        self._released: dict[int, KnownSegment] = {}
        self._account = Account(_DESCRIPTORS_LIMIT)
        # How many descriptors were taken since HELLO; of how many RELEASED was sent; and the size of the others.
        self._taken = self._told = 0
        self._untold_bytes = 0
        self._telling: asyncio.TimerHandle | None = None

    def attach(self, descriptors: deque[Descriptor], write: Callable[[], None]) -> None:
        self._descriptors, self._write = descriptors, write

    def detach(self) -> None:
        """Forget the connection, which is closed."""
        for segment in self._known.values():
            segment.close()
        if self._telling is not None:
            self._telling.cancel()
        self._known.clear()
        self._pieces.clear()
        self._released.clear()
        self._write = None

    def _hello(self, shared: int = 1) -> Hello:
        return super()._hello(shared)

    def publish(self, frames: list[bytes]) -> None:
        over = self._over_bytes + HEADER_BYTES if self._over_bytes else 0
        start = 0
        for place, frame in enumerate(frames):
            if type(frame) is BlockFrame or (over and len(frame) > over):
                if place > start:
                    super().publish(frames[start:place])
                start = place + 1
                self._publish_large(frame)
        if start < len(frames):
            super().publish(frames[start:] if start else frames)

    def _publish_large(self, frame: bytes) -> None:
        if isinstance(frame, BlockFrame):
            kind, flags, key = frame.head[4], frame.head[5], frame.head[HEADER_BYTES:]
            values, descriptor, shared = self._values_of(frame.block)
        else:
            (whole,) = iterate_frames(frame)
            kind, flags, key = whole.kind, whole.flags, whole.key
            if flags & FLAG_BATCH or len(whole.body) <= self._over_bytes:
                super().publish([frame])
                return
            values, descriptor, shared = self._large(whole.body)
        self._hand_over(encode_frame(kind, values, key=key, flags=flags | shared), descriptor)

    def send(self, item: Request | Reply) -> None:
        values, flags = item.values, item.flags
        if isinstance(values, BlockValues):
            given = self._values_of(values.block)
        else:
            given = (values, None, 0) if flags & FLAG_BATCH else self._large(values)
        values, descriptor, shared = given
        self._hand_over(item._replace(values=values, flags=flags | shared).encode(), descriptor)

    def _values_of(self, block: Block) -> tuple[bytes, Descriptor | None, int]:
        ring = self._ring
        if ring is not None and self._ring_number and len(block) > self._over_bytes:
            handle = block.send(ring, self._loop.time())
            if handle is not None:
                return handle._replace(segment=self._ring_number).encode(), None, FLAG_SHARED
        return self._large(block.copy())

    def _large(self, values: bytes) -> tuple[bytes, Descriptor | None, int]:
        """Return values as a handle and memory if they are large enough, else as they are."""
        size = len(values)
        if not self._over_bytes or size <= self._over_bytes:
            return values, None, 0
        try:
            descriptor = Descriptor(memory.make_sealed([values], size))
        except OSError:  # no descriptor or no memory is left: bytes need neither
            return values, None, 0
        return Handle(size).encode(), descriptor, FLAG_SHARED

    def _hand_over(self, frame: bytes, descriptor: Descriptor | None) -> None:
        if descriptor is None:
            self._session.send(frame)
            return
        outgoing = self._session.take_outgoing()
        if outgoing:
            self._pieces.append((outgoing, None))
        self._pieces.append((frame, descriptor))

    def use_ring(self, ring: Ring) -> None:
        """Announce the ring of the client to the hub."""
        self._ring = ring
        if self._over_bytes and self._write is not None:
            self._hand_over(encode_segment(Segment(_RING_REQUEST, ring.size_bytes)), ring.descriptor)
            self._loop.call_soon(self._write)

    def take_pieces(self) -> list[_Piece]:
        if self._released:
            released = [(number, segment.released) for number, segment in self._released.items()]
            self._released = {}
            self._session.send(encode_released(released))
        pieces = list(self._pieces)
        self._pieces.clear()
        outgoing = self._session.take_outgoing()
        if outgoing:
            pieces.append((outgoing, None))
        return pieces

    def receive(self, data: bytes) -> Iterator[Event]:
        taken = self._taken
        for event in super().receive(data):
            try:
                heard = self._heard(event)
            except ProtocolError as error:
                self._session.close(error.code, error.text)
                yield Closing(error.code, error.text, by_far_side=False)
                return
            if heard is not None:
                yield heard
        if self._taken == taken:
            return
        # Report taken descriptors: at once if they are many, else together a little later.
        if self._taken - self._told >= _TELL_DESCRIPTORS or self._untold_bytes >= _TELL_BYTES:
            self._tell_now()
        elif self._telling is None:
            self._telling = self._loop.call_later(_TELL_S, self._tell_late)

    def _tell_now(self) -> None:
        if self._telling is not None:
            self._telling.cancel()
            self._telling = None
        self._told, self._untold_bytes = self._taken, 0
        self._session.send(encode_released([(DESCRIPTORS, self._taken)]))

    def _tell_late(self) -> None:
        self._telling = None
        if self._write is not None and not self._session.closed:
            self._tell_now()
            self._write()

    def _heard(self, event: object) -> Event | None:
        match event:
            case SharedMessages():
                messages = self._messages(event)
                if isinstance(messages, Run):
                    messages.origin = self.origin
                return messages
            case Request() | Reply() if event.flags & FLAG_SHARED:
                return self._item(event)
            case Segment():
                self._segment(event)
            case Released():
                self._blocks_released(event)
            case Notice() if event.segment:
                self._ring_number = event.segment
            case Hello():
                self._over_bytes = event.shared
                self._session.shared = bool(event.shared)
                if self._ring is not None:
                    self.use_ring(self._ring)
                return event
            case _:
                return cast("Event", event)
        return None

    def _blocks_released(self, released: Released) -> None:
        for number, generation in released.each:
            if number == self._ring_number and self._ring is not None:
                self._ring.released(generation)
                self._on_room()

    def _messages(self, event: SharedMessages) -> Event:
        frame = event.frame
        route = self._routes.find(frame.routing_key)
        try:
            received = self._take(event.handle)
            # Values stay where they are until they are read, or are copied now: a block is another client's, and the
            # reader of the stream may be slow; descriptors are few.
            if not (self._views if isinstance(received, ReadBlock) else received.is_charged):
                body = copied(received, frame.body, frame.flags)
                return Run(route, encode_frame(frame.kind, body, key=frame.key, flags=frame.flags), frame.messages)
        except BlockGoneError:
            return Notice("dropped", count=frame.messages)
        except (RejectedError, ValueError):
            return Unreadable(frame.messages)
        return SharedRun(route, frame, received, views=self._views)

    def _item(self, item: Request | Reply) -> Event:
        try:
            received = self._take(decode_handle(item.values, item.flags))
            if self._views and not item.flags & FLAG_BATCH:
                return item._replace(values=ViewValues.of(received))
            values = copied(received, item.values, item.flags)
        except (RejectedError, ValueError):
            values = b"\xc1"  # no msgpack: reported as such
        return item._replace(values=values, flags=item.flags & ~FLAG_SHARED)

    def _take(self, handle: Handle) -> Received:
        """Return the memory of a handle; raise RejectedError or ValueError if the handle is wrong."""
        if not handle.segment:
            self._taken += 1
            self._untold_bytes += handle.size_bytes
            descriptor = self._next_descriptor()
            memory.check_sealed(descriptor.number, handle.size_bytes)
            if self._account.has_room:
                descriptor.charge(self._account)
            return Mapping(descriptor, handle)
        segment = self._known.get(handle.segment)
        if segment is None:
            raise ValueError(f"segment {handle.segment} is not known")
        return segment.block(handle)

    def _next_descriptor(self) -> Descriptor:
        if self._write is None or not self._descriptors:
            raise ProtocolError(CloseCode.PROTOCOL_ERROR, "SHARED: no descriptor came with the frame")
        return self._descriptors.popleft()

    def _segment(self, event: Segment) -> None:
        old = self._known.pop(event.number, None)
        if old is not None:
            old.close()
        if not event.size_bytes:
            return
        descriptor = self._next_descriptor()
        try:
            memory.check_segment(descriptor.number, event.size_bytes)
        except RejectedError:
            return  # its blocks are unreadable
        self._known[event.number] = KnownSegment(event.number, event.size_bytes, descriptor, self._tell_released)

    def _tell_released(self, segment: KnownSegment) -> None:
        if not self._released and self._write is not None:
            self._loop.call_soon_threadsafe(self._write)  # a view may end in any thread
        self._released[segment.number] = segment


class SharingConnection(Connection):
    """A connection whose transport hands memory over."""

    conversation: SharingConversation
    _transport: UnixTransport | None

    async def adopt(self, sock: socket.socket) -> None:
        transport = UnixTransport(self._loop, sock, self)
        self.conversation.attach(transport.descriptors, self.write_outgoing)
        self.connection_made(transport)
        transport.start()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.conversation.detach()

    def write_outgoing(self) -> None:
        pieces = self.conversation.take_pieces()
        transport = self._transport
        if transport is not None and not transport.is_closing():
            for frame, descriptor in pieces:
                if descriptor is None:
                    transport.write(frame)
                else:
                    transport.hand_over(frame, descriptor, 1)
        self._exchange.subscriptions.regulate()


class Blocks:
    """The blocks of one client."""

    def __init__(self, settings: ClientSettings, *, shares: bool) -> None:
        self._shares = shares
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._conversation: SharingConversation | None = None
        self._ring: Ring | None = None
        self._room = asyncio.Event()
        self._closed = False  # True once `finish` was called, or there was no memory for a ring

    def connection(self, introduction: Introduction, exchange: Exchange) -> SharingConnection:
        if self._ring is not None:  # blocks sent over the last connection will not be released
            self._ring.released(self._ring.generation)
        routes, views = exchange.subscriptions.routes, self._settings.views
        self._conversation = SharingConversation(introduction, routes, self._ring, self._room.set, views=views)
        return SharingConnection(self._conversation, self._settings, exchange)

    def allocate_nowait(self, size_bytes: int) -> Block:
        ring = self._ring or self._open()
        if ring is None:
            return Block.alone(size_bytes)
        return ring.allocate(size_bytes, self._loop.time())

    async def allocate(self, size_bytes: int) -> Block:
        while True:
            self._room.clear()
            try:
                return self.allocate_nowait(size_bytes)
            except BusyError:
                due_s = self._ring.due_s() - self._loop.time() if self._ring is not None else math.inf
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(max(0.0, min(due_s, _LOOK_AGAIN_S))):
                        await self._room.wait()

    def _open(self) -> Ring | None:
        """Make the ring; without memory or descriptors for it, blocks travel as bytes."""
        if self._closed or not self._shares:
            return None
        try:
            self._ring = Ring(self._settings.ring_bytes, self._settings.lease_s)
        except OSError:
            self._closed = True
            return None
        if self._conversation is not None:
            self._conversation.use_ring(self._ring)
        return self._ring

    def finish(self) -> None:
        """Release the ring; no other is made."""
        self._closed = True
        if self._ring is not None:
            self._ring.close()
            self._ring = None
        self._room.set()
