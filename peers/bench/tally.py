"""`Tally`: what one subscriber got, was told, and missed.

For each publisher it knows which sequence number comes next. Frames of equal shape are taken as one run as long as
their numbers count up, which `peers.bench.sequence` finds out with a few slices.

What is counted:

* **lost**: numbers that were passed over, and those still to come when the stream is over;
* **out of order**: a number below the one expected. It was counted as lost where it should have stood, and stays so;
* **misrouted**: the topic is not the one that the number belongs to (looked at once a run);
* **told**: losses the hub told of, whether they are true or not.

Owner of the state: one subscriber. No I/O.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from peers.bench.errors import BenchError
from peers.bench.framing import Control, Framing, Shape
from peers.bench.histogram import Histogram
from peers.bench.layout import STAMP, Layout
from peers.bench.sequence import MESSAGES_LIMIT, Grid, is_sequence

__all__ = ["GAPS_LIMIT", "Counted", "Gap", "Tally"]

GAPS_LIMIT = 256
"""Gaps that are kept to be looked at; those above are only counted."""

_SEQUENCE_OFFSET = 4


class Gap(msgspec.Struct, frozen=True):
    """Messages that one subscriber did not get."""

    publisher: int
    first: int
    messages: int


class Counted(msgspec.Struct):
    """What a subscriber got since the last report."""

    received: int = 0
    bytes: int = 0
    """Frames with messages, as they came from the socket."""
    reads: int = 0
    lost: int = 0
    told: int = 0
    out_of_order: int = 0
    misrouted: int = 0
    closed: str = ""
    """Why the hub closed the connection, empty while it is open."""
    gaps: list[Gap] = []


class Tally:
    """The account of one subscriber.

    Args:
        layout: Of the messages.
        publishers: How many there are.
        framing: How the stream is cut.
        on_control: Called with every frame that holds no messages and tells of no loss.
        topic: The one that it subscribes to, None for all; one topic only with one value in a frame.
    """

    __slots__ = ("_apart", "_framing", "_layout", "_on_control", "counted", "latency", "next")

    next: list[int]
    """The sequence number that comes next, for each publisher."""

    def __init__(
        self,
        layout: Layout,
        publishers: int,
        framing: Framing,
        on_control: Callable[[Control], None],
        topic: int | None = None,
    ) -> None:
        self._layout = layout
        self._framing = framing
        self._on_control = on_control
        self._apart = 1 if topic is None else layout.topics
        self.next = [topic or 0] * publishers
        self.counted = Counted()
        self.latency: Histogram | None = None

    def feed(self, buffer: bytearray, end: int, now_ns: int) -> int:
        """Account for all whole frames in `buffer` up to `end`.

        Returns:
            Where the first incomplete one begins.

        Raises:
            BenchError: A message that this benchmark did not send.
        """
        position = 0
        while True:
            frame = self._framing.at(buffer, position, end)
            if frame is None:
                return position
            if isinstance(frame, Shape):
                position += self._run(buffer, position, end, frame, now_ns)
                continue
            position += frame.size
            if frame.word == "dropped":
                self.counted.told += frame.lost
            else:
                self._on_control(frame)

    def take(self, sent: list[int]) -> Counted:
        """Return and forget what was counted.

        Args:
            sent: How many messages each publisher has sent; what has not come by now is lost.
        """
        for publisher, total in enumerate(sent):
            if self.next[publisher] < total:
                following = self.next[publisher]
                missing = -(-(total - following) // self._apart)
                self._lose(publisher, following, missing)
                self.next[publisher] = following + missing * self._apart
        counted, self.counted = self.counted, Counted(closed=self.counted.closed)
        return counted

    def _run(self, buffer: bytearray, position: int, end: int, shape: Shape, now_ns: int) -> int:
        """Account for frames that follow on each other; return their size."""
        place = position + shape.first_value + len(self._layout.value_head)
        publisher, start, _ = STAMP.unpack_from(buffer, place)
        if publisher >= len(self.next):
            raise BenchError(f"a message of publisher {publisher}, there are {len(self.next)}")
        frames = self._frames_in_sequence(buffer, position, end, shape)
        if frames:
            self._count(publisher, start, frames * shape.values)
        else:
            frames = 1
            self._one_by_one(buffer, place, shape)
        if self._layout.topic_of(start) != shape.topic:
            self.counted.misrouted += 1
        size = frames * shape.size
        self.counted.bytes += size
        if self.latency is not None:
            self._time(buffer, place, shape, frames, now_ns)
        return size

    def _frames_in_sequence(self, buffer: bytearray, position: int, end: int, shape: Shape) -> int:
        """How many frames from here have this shape and count up; 0 if not even the values of the first one do.

        Not always the most there are: a run that is not whole is halved until it is.
        """
        layout = self._layout
        place = position + shape.first_value + len(layout.value_head)
        publisher, start, _ = STAMP.unpack_from(buffer, place)
        head = buffer[position : position + shape.head]
        frames = max(1, min((end - position) // shape.size, MESSAGES_LIMIT // (shape.values * self._apart)))
        while frames * shape.values > 1:
            last = position + (frames - 1) * shape.size
            grid = Grid(place + _SEQUENCE_OFFSET, frames, shape.size, shape.values, layout.value_bytes)
            if buffer[last : last + shape.head] == head and is_sequence(buffer, grid, start, publisher, self._apart):
                return frames
            frames //= 2
        return frames

    def _one_by_one(self, buffer: bytearray, place: int, shape: Shape) -> None:
        """A frame whose values do not count up."""
        for value in range(shape.values):
            publisher, sequence, _ = STAMP.unpack_from(buffer, place + value * self._layout.value_bytes)
            self._count(publisher, sequence, 1)

    def _count(self, publisher: int, start: int, messages: int) -> None:
        expected = self.next[publisher]
        self.counted.received += messages
        if start < expected:
            self.counted.out_of_order += min(messages, (expected - start) // self._apart)
        elif start > expected:
            self._lose(publisher, expected, (start - expected) // self._apart)
        self.next[publisher] = max(expected, start + messages * self._apart)

    def _lose(self, publisher: int, first: int, messages: int) -> None:
        self.counted.lost += messages
        if len(self.counted.gaps) < GAPS_LIMIT:
            self.counted.gaps.append(Gap(publisher, first, messages))

    def _time(self, buffer: bytearray, place: int, shape: Shape, frames: int, now_ns: int) -> None:
        """Record how long after their intended time the messages arrived."""
        assert self.latency is not None  # noqa: S101 -- asked before the call, which is made for every read
        for frame in range(frames):
            for value in range(shape.values):
                offset = place + frame * shape.size + value * self._layout.value_bytes
                intended_ns = STAMP.unpack_from(buffer, offset)[2]
                if intended_ns:
                    self.latency.record(now_ns - intended_ns)
