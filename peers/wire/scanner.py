"""`Scanner`: from the bytes of a stream to stretches of messages, each run of them with its route.

It does not take frames apart; it finds where runs begin and end (`hub.runs` is the hot loop):

```
read: [/a 100 B][/a 100 B][/a 90 B][/b 100 B][/c 7 B][SUBSCRIBE][/a ...
       └────────── same handlers: one run ─────────┘
       └────────────────── one stretch ─────────────┘ └─ frame ─┘
```

A run is a stretch of consecutive MESSAGES frames whose routes are the *same object*: usually one topic, but also
several topics with the same handlers (`hub.routes` interns them). Bytes of messages are forwarded as they came.

`feed` takes what was read, `next_item` says what is in it, one step at a time, so that a SUBSCRIBE takes effect on the
messages behind it, and that whoever reads may stop and go on later.

Owner: one session. Invariants: at most one incomplete frame is held, at most `frame_limit_bytes` + 4104 bytes of it,
beside what was fed and not asked for.

Cost: one call of `find_runs` a stretch; figures are in docs/performance.md.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from hub.errors import CloseCode, ProtocolError, RejectedError
from hub.frame import (
    FLAG_BATCH,
    FLAG_CONFIRM,
    HEADER,
    HEADER_BYTES,
    KEY_LIMIT_BYTES,
    KIND_MESSAGES,
    Frame,
    iterate_frames,
)
from hub.runs import batch_count
from hub.stretch import Run, Stretch, find_runs

__all__ = ["NEED_DATA", "NeedData", "Rejected", "RouteTable", "Scanner"]

R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R")


class NeedData(Enum):
    """The type of `NEED_DATA`."""

    NEED_DATA = "need data"


NEED_DATA: Final = NeedData.NEED_DATA
"""There is nothing more in what was read; as in h11."""


class RouteTable(Protocol[R]):
    """Where a scanner looks routes up: `hub.routes.Routes`, or what a client has instead."""

    table: dict[bytes, R]

    def miss(self, key: bytes) -> R:
        """Put the route of a key that is not in `table` there, and return it.

        Raises:
            RejectedError: Messages with this key are refused.
        """


class Rejected(NamedTuple):
    """Messages that are refused and not forwarded; the stream goes on."""

    code: int
    text: str
    messages: int


class Scanner(Generic[R]):
    """Cuts a stream into stretches of messages and other frames."""

    __slots__ = ("_data", "_held", "_later", "_needed_bytes", "_position", "frame_limit_bytes", "routes")

    def __init__(self, routes: RouteTable[R], frame_limit_bytes: int) -> None:
        self.routes = routes
        self.frame_limit_bytes = frame_limit_bytes
        self._data = b""  # what is being read
        self._position = 0  # and how far
        self._later: list[tuple[bytes, int]] = []  # what comes behind it, each from a place on; rarely more than one
        self._held = bytearray()  # the beginning of one incomplete frame
        self._needed_bytes = 0  # its size, or the header's while that is not complete

    @property
    def held_bytes(self) -> int:
        """Size of what is held of an incomplete frame."""
        return len(self._held)

    def feed(self, data: bytes) -> None:
        """Take what was read; ask `next_item` for what it completes."""
        if self._data or self._later or self._held:
            self._later.append((data, 0))
        else:
            self._data = data

    def forget(self) -> None:
        """Nothing more is wanted of what was fed."""
        self._data = b""
        self._position = 0
        self._later.clear()
        self._held = bytearray()

    def next_item(self) -> Run[R] | Stretch[R] | Frame | Rejected | NeedData:
        """Return what comes next in what was read.

        Raises:
            ProtocolError: A header breaks a limit; nothing behind it can be read.
        """
        while self._data or (self._later and self._advance()):
            data, position = self._data, self._position
            runs = find_runs(data, position, self.routes.table, self.frame_limit_bytes)
            routes, ends, messages = runs
            if routes:
                end = ends[-1]
                self._go_to(end)
                is_last = not self._data and not self._later
                if len(routes) > 1:
                    return Stretch(data, position, runs, is_last=is_last)
                frames = data if end - position == len(data) else data[position:end]
                return Run(routes[0], frames, messages[0], is_last=is_last)
            size = self._frame_size(data, position)
            if position + size > len(data):
                self._hold(data, position, size)
                self._go_to(len(data))
                continue
            odd = self._slow(data, position, size)
            if odd is not None:
                self._go_to(position + size)
                return odd
        return NEED_DATA

    def _go_to(self, position: int) -> None:
        """Be done with what stands before `position`; let go of what is used up."""
        if position == len(self._data):
            self._data = b""
            self._position = 0
        else:
            self._position = position

    def _advance(self) -> bool:
        """Begin with what was fed next, after the frame that it completes; False if there is nothing to read."""
        while self._later:
            data, position = self._later.pop(0)
            if not self._held:
                self._data, self._position = data, position
                if len(data) > position:
                    return True
                self._data, self._position = b"", 0
                continue
            used = self._complete(data)
            if used >= 0:
                self._later.insert(0, (data, used))
                self._data, self._held = bytes(self._held), bytearray()
                return True
        return False

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
        """What is no hit: a refusal, a frame (control, or with CONFIRM), or None for a key that the table has now."""
        frame = next(iterate_frames(data[position : position + size]))
        if frame.kind != KIND_MESSAGES:
            return frame
        if frame.flags & FLAG_BATCH and not batch_count(frame.body, 0, len(frame.body)):
            text = f"BATCH: a body of {len(frame.body)} bytes does not hold the number of values it says"
            return Rejected(CloseCode.BAD_DATA, text, 1)
        if frame.flags & FLAG_CONFIRM:
            return frame  # one at a time: each has an answer of its own
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
