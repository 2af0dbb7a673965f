"""`Scanner`: from the bytes of a stream to runs of messages, each with its route.

It does not take frames apart; it finds where runs begin and end (`peers.wire.runs` is the hot loop):

```
read: [/a 100 B][/a 100 B][/a 90 B][/b 100 B][/c 7 B][SUBSCRIBE][/a ...
       └────────── same handlers: one run ─────────┘  └─ frame ─┘
       one slice of the read, one Batch, one offer
```

A run is a stretch of consecutive MESSAGES frames whose routes are the *same object*: usually one topic, but also
several topics with the same handlers (`hub.routes` interns them). The bytes of a run are forwarded as they came.

Owner: one session. Invariants: at most one incomplete frame is held, at most `frame_limit_bytes` + 4104 bytes of it
plus one read. Frames are yielded one step at a time, so that a SUBSCRIBE takes effect on the messages behind it.

Cost: one call of `next_run` and one slice a run; figures are in docs/performance.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Generic, NamedTuple, Protocol, TypeVar

from hub.batch import Batch
from hub.errors import CloseCode, ProtocolError, RejectedError
from hub.frame import (
    FLAG_BATCH,
    HEADER,
    HEADER_BYTES,
    KEY_LIMIT_BYTES,
    KIND_MESSAGES,
    Frame,
    iterate_frames,
)
from peers.wire.runs import batch_count

try:
    from peers.wire._runs import next_run
except ImportError:  # not built: no compiler was there
    from peers.wire.runs import next_run

__all__ = ["Rejected", "RouteTable", "Run", "Scanner"]

R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R")


class RouteTable(Protocol[R]):
    """Where a scanner looks routes up: `hub.routes.Routes`, or what a client has instead."""

    table: dict[bytes, R]

    def miss(self, key: bytes) -> R:
        """Put the route of a key that is not in `table` there, and return it.

        Raises:
            RejectedError: Messages with this key are refused.
        """


class Run(NamedTuple, Generic[R]):
    """Messages that go the same way."""

    route: R
    batch: Batch


class Rejected(NamedTuple):
    """Messages that are refused and not forwarded; the stream goes on."""

    code: int
    text: str
    messages: int


class Scanner(Generic[R]):
    """Cuts a stream into runs and frames."""

    __slots__ = ("_held", "_needed_bytes", "frame_limit_bytes", "routes")

    def __init__(self, routes: RouteTable[R], frame_limit_bytes: int) -> None:
        self.routes = routes
        self.frame_limit_bytes = frame_limit_bytes
        self._held = bytearray()  # the beginning of one incomplete frame
        self._needed_bytes = 0  # its size, or the header's while that is not complete

    @property
    def held_bytes(self) -> int:
        """Size of what is held of an incomplete frame."""
        return len(self._held)

    def receive(self, data: bytes) -> Iterator[Run[R] | Frame | Rejected]:
        """Yield what `data` completes, in order. Iterate to the end, or drop the connection.

        Raises:
            ProtocolError: A header breaks a limit; nothing behind it can be read.
        """
        if not self._held:
            return self._scan(data, 0)
        used = self._complete(data)
        if used < 0:
            return iter(())
        frame, self._held = bytes(self._held), bytearray()
        return chain(self._scan(frame, 0), self._scan(data, used))

    def _complete(self, data: bytes) -> int:
        """Move what the held frame lacks from `data`; return how much that was, -1 if it is not complete yet.

        Only the cut frame is copied together: joining it with the whole read would copy 256 KiB for it.
        """
        held = self._held
        used = 0
        while len(held) < self._needed_bytes:
            if used == len(data):
                return -1
            missing = self._needed_bytes - len(held)
            held += memoryview(data)[used : used + missing]
            used = min(len(data), used + missing)
            if len(held) == HEADER_BYTES:  # now its size can be told
                self._needed_bytes = self._frame_size(bytes(held), 0)
        return used

    def _scan(self, data: bytes, position: int) -> Iterator[Run[R] | Frame | Rejected]:
        table = self.routes.table
        while True:
            route, end, messages = next_run(data, position, table, self.frame_limit_bytes)
            if messages:
                whole = position == 0 and end == len(data)
                yield Run(route, Batch(data if whole else data[position:end], messages))  # type: ignore[arg-type]
                position = end
                if end == len(data):
                    return
                continue
            size = self._frame_size(data, position)
            if position + size > len(data):
                self._hold(data, position, size)
                return
            odd = self._slow(data, position, size)
            if odd is not None:
                yield odd
                position += size

    def _frame_size(self, data: bytes, position: int) -> int:
        """Size of the frame at `position`, or of a header while that is not complete."""
        if len(data) - position < HEADER_BYTES:
            return HEADER_BYTES
        body_length, _, _, key_length = HEADER.unpack_from(data, position)
        if key_length > KEY_LIMIT_BYTES:
            raise ProtocolError(CloseCode.TOO_BIG, f"routing key of {key_length} bytes, limit {KEY_LIMIT_BYTES}")
        if body_length > self.frame_limit_bytes:
            raise ProtocolError(CloseCode.TOO_BIG, f"body of {body_length} bytes, limit {self.frame_limit_bytes}")
        size: int = HEADER_BYTES + key_length + body_length
        return size

    def _slow(self, data: bytes, position: int, size: int) -> Frame | Rejected | None:
        """What is not a hit: a control frame or a refusal, or None for a new key, which is in the table now."""
        frame = next(iterate_frames(data[position : position + size]))
        if frame.kind != KIND_MESSAGES:
            return frame
        if frame.flags & FLAG_BATCH and not batch_count(frame.body, 0, len(frame.body)):
            text = f"BATCH: a body of {len(frame.body)} bytes does not hold the number of values it says"
            return Rejected(CloseCode.BAD_DATA, text, 1)
        try:
            self.routes.miss(frame.routing_key)
        except RejectedError as error:
            return Rejected(error.code, error.text, frame.messages)
        return None

    def _hold(self, data: bytes, position: int, size: int) -> None:
        """Keep the beginning of a frame that is `size` bytes long."""
        if position < len(data):
            self._held = bytearray(memoryview(data)[position:])
            self._needed_bytes = size
