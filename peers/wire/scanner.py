"""`Scanner`: from the bytes of a stream to stretches of messages, each run of them with its route.

It does not take messages apart; it finds where runs begin and end (`hub.runs` is the hot loop):

```
read: [/a 100 B][/a 100 B][/a 90 B][/b 100 B][/c 7 B][SUBSCRIBE][/a ...
       └────────── same handlers: one run ─────────┘
       └────────────────── one stretch ─────────────┘ └─ frame ─┘
```

A run is a stretch of consecutive MESSAGES frames whose routes are the *same object*: usually one topic, but also
several topics with the same handlers (`hub.routes` interns them). Bytes of messages are forwarded as they came.

`feed` takes what was read, and `next_item` says what is in it, one step at a time. So a SUBSCRIBE takes effect on the
messages behind it, and the caller may stop and go on later.

What does not depend on the protocol is in `FrameBuffer`: bytes that were read and not looked at yet, and the beginning
of at most one incomplete frame. Broker's protocol has frames of another kind in it (`peers.zeek.broker.reading`).

```
held:  [header|the begin...      pieces, as they were read, only of the cut frame; small ones put together
data:  [frame][frame][fra...     what is being looked at, as it was read
later: what was fed meanwhile
```

Owner: one session. Invariants: besides what was fed and not asked for, at most one incomplete frame is held, and at
most `frame_limit_bytes` + 6152 bytes of it.

Cost: one call of `find_runs` a stretch; figures are in docs/performance.md. A frame that lies within one read is not
copied. A frame that was cut is copied once, by itself: joining it with the whole next read would copy up to 256 KiB.
"""

from __future__ import annotations

from enum import Enum
from typing import ClassVar, Final, Generic, NamedTuple, Protocol, TypeVar, cast

from hub.errors import CloseCode, ProtocolError, RejectedError
from hub.frame import (
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
from hub.request_frame import KIND_REPLY, KIND_REQUEST
from hub.runs import batch_count
from hub.stretch import Run, Stretch, find_runs

_PIECE_BYTES = 16 * 1024
"""Pieces of a cut frame that are smaller are put together: else whoever sends a frame byte by byte would make this side
hold an object for each."""

_VIEWED_KINDS = (KIND_REQUEST, KIND_REPLY)
"""Kinds of frames whose values are taken out of the body at once, so that a large body need not be copied before."""

_VIEWED_BYTES = 4096
"""Frames up to this size are copied nevertheless, as making a view of one costs more."""

R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R")


class NeedData(Enum):
    """The type of `NEED_DATA`."""

    NEED_DATA = "need data"


NEED_DATA: Final = NeedData.NEED_DATA
"""There is nothing more in what was read; the name is that of h11."""


class Searched(Enum):
    """The type of `SEARCHED`."""

    SEARCHED = "searched"


SEARCHED: Final = Searched.SEARCHED
"""A key with labels was searched for and is known now. That costs as much as ten new topics, so a caller that is fair
to its other connections counts it."""


class RouteTable(Protocol[R]):
    """Where a scanner looks routes up: `hub.routes.Routes` in a hub, a table of its own in a client."""

    table: dict[bytes, R]
    """The routes that are known, by routing key."""

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
    """How many messages are refused."""


class FrameBuffer:
    """Keeps what was read until its frames are whole.

    Args:
        frame_limit_bytes: Longest body. The owner may change it between frames.
    """

    __slots__ = ("_held", "_later", "_needed_bytes", "data", "frame_limit_bytes", "has_more", "held_bytes", "position")

    _header_bytes: ClassVar[int]
    """How many bytes at the beginning of a frame tell how long it is."""

    data: bytes
    """The read that is being looked at; empty when everything up to its end has been taken or held."""

    position: int
    """How much of `data` has been taken; 0 while it is empty."""

    def __init__(self, frame_limit_bytes: int) -> None:
        self.frame_limit_bytes = frame_limit_bytes
        self.data = b""
        self.position = 0
        self.has_more = False
        """Whether anything that was read stands behind `position`. A plain attribute, as it is asked for at each read:
        `feed` makes it true, and whatever takes the last of `data` makes it false."""
        self._later: list[tuple[bytes, int]] = []
        """Reads that were fed after `data`, each with the position from which it counts; there is rarely more than one.
        `feed` appends, `_advance` takes from the front."""
        self._held: list[bytes | bytearray] = []
        """The beginning of a frame that goes on in the next read. `_keep` fills it, and `_take_held` empties it."""
        self.held_bytes = 0
        """How much that is: how many bytes of an incomplete frame are held."""
        self._needed_bytes = 0
        """Size of the held frame, or of a header while the header is incomplete; without a meaning if none is held."""

    def _frame_size(self, data: bytes, position: int) -> int:
        """Return the size of the frame at `position`, or of a header while the header is incomplete.

        Raises:
            ProtocolError: The frame breaks a limit, so nothing behind it can be read.
        """
        raise NotImplementedError

    @property
    def waiting_bytes(self) -> int:
        """How many bytes were fed and not taken, those of an incomplete frame included."""
        waiting = len(self.data) - self.position + self.held_bytes
        return waiting + sum(len(data) - position for data, position in self._later) if self._later else waiting

    def feed(self, data: bytes) -> None:
        """Take what was read."""
        if self.data or self._later or self._held:
            self._later.append((data, 0))
        else:
            self.data = data
        self.has_more = True

    def forget(self) -> None:
        """Throw away everything that was fed and not taken."""
        self.data = b""
        self.position = 0
        self._later.clear()
        self._held, self.held_bytes = [], 0
        self.has_more = False

    def go_to(self, position: int) -> None:
        """Take everything before `position`; if that is all of `data`, let go of it."""
        if position == len(self.data):
            self.data = b""
            self.position = 0
            if not self._later:
                self.has_more = False
        else:
            self.position = position

    def _hold(self, size: int) -> None:
        """Hold what is left of `data`, which is the beginning of a frame of that size, or of a header."""
        if self.position < len(self.data):
            self._keep(self.data[self.position :])
            self._needed_bytes = size
        self.go_to(len(self.data))

    def _keep(self, piece: bytes) -> None:
        """Hold some more of a frame."""
        held = self._held
        if len(piece) >= _PIECE_BYTES:
            held.append(piece)
        elif held and isinstance(held[-1], bytearray):
            held[-1] += piece
        else:
            held.append(bytearray(piece))
        self.held_bytes += len(piece)

    def _take_held(self) -> bytes:
        """Return what is held, and hold it no more: the one copy that is made of a large frame."""
        whole = b"".join(self._held)
        self._held, self.held_bytes = [], 0
        return whole

    def _advance(self) -> bool:
        """Begin with the next read, or with the held frame if that read completes it.

        Returns:
            Whether there is something to look at.
        """
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
        """Move what the held frame lacks from `data`; return how much that was, or -1 if that did not complete it."""
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
        """Return what comes next in what was read.

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
        """Take the frame at `position`, which `find_runs` has stopped at.

        Returns:
            A refusal; the frame itself if it is not to be forwarded as it is (control, CONFIRM, SHARED); or None or
            `SEARCHED` if only its key was unknown, which the table has now.
        """
        frame = _frame_at(data, position, position + size)
        if frame.kind != KIND_MESSAGES:
            return frame
        if frame.flags & FLAG_SHARED:
            return frame  # it holds only a handle in place of its values, which is for this connection alone
        if frame.flags & FLAG_BATCH and not batch_count(frame.body, 0, len(frame.body)):
            text = f"BATCH: a body of {len(frame.body)} bytes does not hold the number of values it says"
            return Rejected(CloseCode.BAD_DATA, text, 1)
        if frame.flags & FLAG_CONFIRM:
            return frame  # it does not join a run, since it gets an answer of its own
        try:
            self.routes.miss(frame.routing_key)
        except RejectedError as error:
            return Rejected(error.code, error.text, frame.messages)
        return SEARCHED if frame.flags & FLAG_TAGGED else None


def _frame_at(data: bytes, start: int, end: int) -> Frame:
    """Take the frame apart that begins at `start` and ends at `end`. Its body may be a view: see `_VIEWED_KINDS`."""
    _, kind, flags, key_length = HEADER.unpack_from(data, start)
    key_start = start + HEADER_BYTES
    body_start = key_start + key_length
    if end - start > _VIEWED_BYTES and kind in _VIEWED_KINDS:
        body = cast("bytes", memoryview(data)[body_start:end])
    else:
        body = data[body_start:end]
    return Frame(kind, flags, data[key_start:body_start], body)
