"""`Scanner`: from the bytes of a stream to runs of messages, each with its route.

This is the hot path. It does not take frames apart; it finds where runs begin and end:

```
read: [/a 100 B][/a 100 B][/a 90 B][/b 100 B][/c 7 B][SUBSCRIBE][/a ...
       └────────── same handlers: one run ─────────┘  └─ frame ─┘
       one slice of the read, one Batch, one offer
```

A run is a stretch of consecutive MESSAGES frames whose routes are the *same object*: usually one topic, but also
several topics with the same handlers (`hub.routes` interns them). The bytes of a run are forwarded as they came.

Owner: one session. Invariants: at most one incomplete frame is held, at most `frame_limit_bytes` + 4104 bytes of it
plus one read. Frames are yielded one step at a time, so that a SUBSCRIBE takes effect on the messages behind it.

Cost, measured (docs/performance.md): one `startswith` a frame while headers repeat, else one header, one slice and one
dictionary hit a frame.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, NamedTuple, Protocol, TypeVar

from hub.batch import Batch
from hub.errors import CloseCode, ProtocolError, RejectedError
from hub.frame import (
    BATCH_COUNT,
    BATCH_LIMIT_MESSAGES,
    FLAG_BATCH,
    HEADER,
    HEADER_BYTES,
    KEY_LIMIT_BYTES,
    KIND_MESSAGES,
    Frame,
)

__all__ = ["Rejected", "RouteTable", "Run", "Scanner"]

R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R")


class RouteTable(Protocol[R]):
    """Where a scanner looks routes up: `hub.routes.Routes`, or what a client has instead."""

    table: dict[bytes, R]

    def miss(self, key: bytes) -> R:
        """Return the route of a key that is not in `table`; may put it there.

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
        if self._held:
            if len(self._held) + len(data) < self._needed_bytes:
                self._held += data
                return iter(())
            data = b"".join((self._held, data))
            self._held = bytearray()
        return self._scan(data)

    def _scan(self, data: bytes) -> Iterator[Run[R] | Frame | Rejected]:  # noqa: C901, PLR0912, PLR0915 -- the hot path
        # One loop and local names on purpose: a call or an attribute here is paid for every message.
        find = self.routes.table.get
        unpack = HEADER.unpack_from
        starts_with = data.startswith
        limit = self.frame_limit_bytes
        end = len(data)
        start = position = messages = 0
        route: R | None = None
        last_key = b""
        while end - position >= HEADER_BYTES:
            body_length, _, flags, key_length = unpack(data, position)
            key_end = position + HEADER_BYTES + key_length
            frame_end = key_end + body_length
            if body_length > limit or key_length > KEY_LIMIT_BYTES:
                if messages:
                    yield Run(route, Batch(data[start:position], messages))  # type: ignore[arg-type]
                raise self._over_limit(body_length, key_length)
            if frame_end > end:
                break
            key = data[position + 4 : key_end]
            found = find(key)
            count = _batch_count(data, key_end, body_length) if flags & FLAG_BATCH else 1
            if found is None or not count:
                # A control frame, an unknown key, or a bad count: the run ends before it.
                if messages:
                    yield Run(route, Batch(data[start:position], messages))  # type: ignore[arg-type]
                    messages, route = 0, None
                odd, found = self._slow(Frame(key[0], flags, key[4:], data[key_end:frame_end]), key)
                if odd is not None:
                    yield odd
                    start = position = frame_end
                    limit = self.frame_limit_bytes  # HELLO raises it
                    continue
            if found is not route:
                if messages:
                    yield Run(route, Batch(data[start:position], messages))  # type: ignore[arg-type]
                route, start, messages = found, position, 0
            messages += count
            if key == last_key and not flags & FLAG_BATCH:
                # The same topic again: while whole headers repeat, sizes repeat too.
                header = data[position:key_end]
                size = frame_end - position
                last_start = end - size
                position = frame_end
                while position <= last_start and starts_with(header, position):
                    position += size
                    messages += 1
            else:
                position = frame_end
            last_key = key
        if messages:
            batch = Batch(data if start == 0 and position == end else data[start:position], messages)
            yield Run(route, batch)  # type: ignore[arg-type]
        self._hold(data, position)

    def _slow(self, frame: Frame, key: bytes) -> tuple[Frame | Rejected | None, R | None]:
        """What is not a hit: a control frame or a refusal, or else the route of a new key."""
        if frame.kind != KIND_MESSAGES:
            return frame, None
        if frame.flags & FLAG_BATCH and not _batch_count(frame.body, 0, len(frame.body)):
            text = f"BATCH: a body of {len(frame.body)} bytes does not hold the number of values it says"
            return Rejected(CloseCode.BAD_DATA, text, 1), None
        try:
            return None, self.routes.miss(key)
        except RejectedError as error:
            return Rejected(error.code, error.text, frame.messages), None

    def _hold(self, data: bytes, position: int) -> None:
        left = len(data) - position
        if not left:
            return
        if left >= HEADER_BYTES:
            body_length, _, _, key_length = HEADER.unpack_from(data, position)
            self._needed_bytes = HEADER_BYTES + key_length + body_length
        else:
            self._needed_bytes = HEADER_BYTES
        self._held = bytearray(memoryview(data)[position:])

    def _over_limit(self, body_length: int, key_length: int) -> ProtocolError:
        if key_length > KEY_LIMIT_BYTES:
            return ProtocolError(CloseCode.TOO_BIG, f"routing key of {key_length} bytes, limit {KEY_LIMIT_BYTES}")
        return ProtocolError(CloseCode.TOO_BIG, f"body of {body_length} bytes, limit {self.frame_limit_bytes}")


def _batch_count(data: bytes, body_start: int, body_length: int) -> int:
    """How many values a BATCH body holds, 0 if it cannot be: each value takes at least one byte."""
    if body_length <= BATCH_COUNT.size:
        return 0
    count: int = BATCH_COUNT.unpack_from(data, body_start)[0]
    return count if count <= min(body_length - BATCH_COUNT.size, BATCH_LIMIT_MESSAGES) else 0
