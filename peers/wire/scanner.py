"""`Scanner`: from the bytes of a stream to stretches of messages, each run of them with its route.

```
read: [/a 100 B][/a 100 B][/a 90 B][/b 100 B][/c 7 B][SUBSCRIBE][/a ...
       └────────── same handlers: one run ─────────┘
       └────────────────── one stretch ─────────────┘ └─ frame ─┘
```

It decodes no messages: it finds where runs begin and end (`hub.messages.runs` is the hot loop). A run is consecutive
MESSAGES frames whose routes are the *same object* (`hub.routing.routes` interns them), forwarded as they came.
A frame within one read is not copied; a cut one is copied once, by itself, not with the whole next read.
"""

from __future__ import annotations

from enum import Enum
from typing import ClassVar, Final, Generic, NamedTuple, Protocol, TypeVar, cast

from hub.errors import CloseCode, ProtocolError, RejectedError
from hub.messages.frame import (
    FLAG_BATCH,
    FLAG_CONFIRM,
    FLAG_SHARED,
    FLAG_TAGGED,
    HEADER,
    HEADER_BYTES,
    KEY_LIMIT_BYTES,
    KIND_MESSAGES,
    Frame,
)
from hub.messages.request_frame import KIND_REPLY, KIND_REQUEST
from hub.messages.runs import batch_count
from hub.messages.stretch import Run, Stretch, find_runs

_PIECE_BYTES = 16 * 1024  # smaller pieces of a cut frame are joined: not an object for each byte

_VIEWED_KINDS = (KIND_REQUEST, KIND_REPLY)  # their decoders copy the values, so a view of the body will do

_VIEWED_BYTES = 4096  # frames up to this size are copied nevertheless, as a view costs more

R = TypeVar("R")


class NeedData(Enum):
    """The type of `NEED_DATA`."""

    NEED_DATA = "need data"


NEED_DATA: Final = NeedData.NEED_DATA  # all bytes that were fed are processed; the name is that of h11


class Searched(Enum):
    """The type of `SEARCHED`."""

    SEARCHED = "searched"


SEARCHED: Final = Searched.SEARCHED
"""A key with labels was added to the table. That costs as much as ten new topics, so connections count it in their
turn."""


class RouteTable(Protocol[R]):
    """The table in which a scanner looks routes up: `hub.routing.routes.Routes` in a hub, another in a client."""

    table: dict[bytes, R]  # routes by routing key

    def miss(self, key: bytes) -> R:
        """Add the route of a key to `table`, and return it.

        Raises:
            RejectedError: Messages with this key are refused.
        """


class Rejected(NamedTuple):
    """Refused messages; the stream goes on."""

    code: int
    text: str
    messages: int


class FrameBuffer:
    """Holds bytes until their frames are complete.

    Args:
        frame_limit_bytes: Longest body. The owner may change it between frames.
    """

    __slots__ = ("_held", "_later", "_needed_bytes", "data", "frame_limit_bytes", "has_more", "held_bytes", "position")

    _header_bytes: ClassVar[int]  # size of the header, which tells the size of the frame

    data: bytes  # the read in progress; empty when all of it is processed or held

    position: int  # how many bytes of `data` are processed; 0 while it is empty

    def __init__(self, frame_limit_bytes: int) -> None:
        self.frame_limit_bytes = frame_limit_bytes
        self.data = b""
        self.position = 0
        self.has_more = False  # whether there are bytes after `position`. A plain attribute, as each read looks at it.
        self._later: list[tuple[bytes, int]] = []  # reads after `data`, with positions; rarely more than one
        self._held: list[bytes | bytearray] = []  # the beginning of a frame that continues in the next read
        self.held_bytes = 0  # bytes of the incomplete frame
        self._needed_bytes = 0  # size of the held frame, or of a header while the header is incomplete

    def _frame_size(self, data: bytes, position: int) -> int:
        """Return the size of the frame at `position`, or of a header while the header is incomplete.

        Raises:
            ProtocolError: The frame breaks a limit, so nothing behind it can be read.
        """
        raise NotImplementedError

    @property
    def waiting_bytes(self) -> int:
        waiting = len(self.data) - self.position + self.held_bytes
        return waiting + sum(len(data) - position for data, position in self._later) if self._later else waiting

    def feed(self, data: bytes) -> None:
        if self.data or self._later or self._held:
            self._later.append((data, 0))
        else:
            self.data = data
        self.has_more = True

    def forget(self) -> None:
        self.data = b""
        self.position = 0
        self._later.clear()
        self._held, self.held_bytes = [], 0
        self.has_more = False

    def go_to(self, position: int) -> None:
        if position == len(self.data):
            self.data = b""
            self.position = 0
            if not self._later:
                self.has_more = False
        else:
            self.position = position

    def _hold(self, size: int) -> None:
        """Hold the rest of `data`: the beginning of a frame of that size, or of a header."""
        if self.position < len(self.data):
            self._keep(self.data[self.position :])
            self._needed_bytes = size
        self.go_to(len(self.data))

    def _keep(self, piece: bytes) -> None:
        held = self._held
        if len(piece) >= _PIECE_BYTES:
            held.append(piece)
        elif held and isinstance(held[-1], bytearray):
            held[-1] += piece
        else:
            held.append(bytearray(piece))
        self.held_bytes += len(piece)

    def _take_held(self) -> bytes:
        """Return the held bytes and clear them: the one copy of a large frame."""
        whole = b"".join(self._held)
        self._held, self.held_bytes = [], 0
        return whole

    def _advance(self) -> bool:
        """Begin the next read, or the held frame if that read completes it; return False if there is none."""
        while self._later:
            data, position = self._later.pop(0)
            if not self._held:
                if len(data) > position:
                    self.data, self.position = data, position
                    return True
                continue
            used = self._complete(data)
            if used >= 0:
                self._later.insert(0, (data, used))
                self.data = self._take_held()
                return True
        self.has_more = False
        return False

    def _complete(self, data: bytes) -> int:
        """Move the rest of the held frame from `data`; return its size, or -1 if `data` did not complete the frame."""
        used = 0
        while self.held_bytes < self._needed_bytes:
            if used == len(data):
                return -1
            piece = data[used : used + self._needed_bytes - self.held_bytes]
            used += len(piece)
            self._keep(piece)
            if self.held_bytes == self._header_bytes:  # the header is complete and tells the size of the frame
                self._needed_bytes = self._frame_size(b"".join(self._held), 0)
        return used


class Scanner(FrameBuffer, Generic[R]):
    """Cuts a stream into stretches of messages and other frames."""

    __slots__ = ("routes",)

    _header_bytes = HEADER_BYTES

    def __init__(self, routes: RouteTable[R], frame_limit_bytes: int) -> None:
        super().__init__(frame_limit_bytes)
        self.routes = routes

    def next_item(self) -> Run[R] | Stretch[R] | Frame | Rejected | Searched | NeedData:
        """Return the next item of the bytes that were fed.

        Raises:
            ProtocolError: A header breaks a limit, so nothing behind it can be read.
        """
        while self.data or (self._later and self._advance()):
            data, position = self.data, self.position
            runs = find_runs(data, position, self.routes.table, self.frame_limit_bytes)
            routes, ends, messages = runs
            if routes:
                end = ends[-1]
                if end == len(data) and not self._later:  # as `go_to`, with a call less for each read
                    self.data, self.position, self.has_more = b"", 0, False
                else:
                    self.go_to(end)
                if len(routes) > 1:
                    return Stretch(data, position, runs)
                frames = data if end - position == len(data) else data[position:end]
                return Run(routes[0], frames, messages[0])
            size = self._frame_size(data, position)
            if position + size > len(data):
                self._hold(size)
                continue
            odd = self._slow(data, position, size)
            if odd is SEARCHED:
                return odd
            if odd is not None:
                self.go_to(position + size)
                return odd
        return NEED_DATA

    def _frame_size(self, data: bytes, position: int) -> int:
        if len(data) - position < HEADER_BYTES:
            return HEADER_BYTES
        body_length, _, _, key_length = HEADER.unpack_from(data, position)
        if key_length > KEY_LIMIT_BYTES:
            raise ProtocolError(CloseCode.TOO_BIG, f"routing key of {key_length} bytes, limit {KEY_LIMIT_BYTES}")
        if body_length > self.frame_limit_bytes:
            raise ProtocolError(CloseCode.TOO_BIG, f"body of {body_length} bytes, limit {self.frame_limit_bytes}")
        size: int = HEADER_BYTES + key_length + body_length
        return size

    def _slow(self, data: bytes, position: int, size: int) -> Frame | Rejected | Searched | None:
        """Handle the frame at `position`, at which `find_runs` has stopped.

        Returns:
            A refusal; the frame itself if it is not forwarded unchanged (control, CONFIRM, SHARED); None or `SEARCHED`
            if only its key was unknown and is in the table now.
        """
        frame = _frame_at(data, position, position + size)
        if frame.kind != KIND_MESSAGES:
            return frame
        if frame.flags & FLAG_SHARED:
            return frame  # its handle is for this connection alone
        if frame.flags & FLAG_BATCH and not batch_count(frame.body, 0, len(frame.body)):
            text = f"BATCH: a body of {len(frame.body)} bytes does not hold the number of values it says"
            return Rejected(CloseCode.BAD_DATA, text, 1)
        if frame.flags & FLAG_CONFIRM:
            return frame  # it gets an answer of its own
        try:
            self.routes.miss(frame.routing_key)
        except RejectedError as error:
            return Rejected(error.code, error.text, frame.messages)
        return SEARCHED if frame.flags & FLAG_TAGGED else None


def _frame_at(data: bytes, start: int, end: int) -> Frame:
    """Decode the frame from `start` to `end`. Its body may be a view: see `_VIEWED_KINDS`."""
    _, kind, flags, key_length = HEADER.unpack_from(data, start)
    key_start = start + HEADER_BYTES
    body_start = key_start + key_length
    if end - start > _VIEWED_BYTES and kind in _VIEWED_KINDS:
        body = cast("bytes", memoryview(data)[body_start:end])
    else:
        body = data[body_start:end]
    return Frame(kind, flags, data[key_start:body_start], body)
