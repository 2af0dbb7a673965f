"""`Scanner`: from the bytes of a stream to stretches of messages, each run of them with its route.

It does not take frames apart; it finds where runs begin and end (`hub.runs` is the hot loop):

```
read: [/a 100 B][/a 100 B][/a 90 B][/b 100 B][/c 7 B][SUBSCRIBE][/a ...
       └────────── same handlers: one run ─────────┘
       └────────────────── one stretch ─────────────┘ └─ frame ─┘
```

A run is a stretch of consecutive MESSAGES frames whose routes are the *same object*: usually one topic, but also
several topics with the same handlers (`hub.routes` interns them). Bytes of messages are forwarded as they came.

`feed` takes what was read, and `next_item` says what is in it, one step at a time. So a SUBSCRIBE takes effect on the
messages behind it, and the caller may stop and go on later.

Owner: one session. Invariants: besides what was fed and not asked for, at most one incomplete frame is held, and at
most `frame_limit_bytes` + 6152 bytes of it.

Cost: one call of `find_runs` a stretch; figures are in docs/performance.md.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

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
    frame_at,
)
from hub.request_frame import KIND_REPLY, KIND_REQUEST
from hub.runs import batch_count
from hub.stretch import Run, Stretch, find_runs
from peers.wire.frame_buffer import FrameBuffer

__all__ = ["NEED_DATA", "SEARCHED", "NeedData", "Rejected", "RouteTable", "Scanner", "Searched"]

_KIND_AT = 4
"""Offset of the kind in a frame's header."""

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
        view = size > _VIEWED_BYTES and data[position + _KIND_AT] in _VIEWED_KINDS
        frame = frame_at(data, position, view=view)
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
