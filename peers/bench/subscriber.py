"""The subscribers: a process that reads for one or many of them, and accounts for every message.

The process has one `epoll` loop and one large buffer for all, and reads up to 256 KiB at a time. For each publisher a
`Tally` knows which number comes next. Frames of equal shape are one run as long as their numbers count up.

* **lost**: numbers that were passed over, and those still to come when the stream is over;
* **out of order**: a number below the one expected. It was counted as lost where it should have stood, and stays so;
* **misrouted**: the topic is not the one that the number belongs to (which is looked at once a run);
* **told**: losses that the hub told of, whether they are true or not.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection

from peers.bench.line import Control, Framing, Line, Shape, dial
from peers.bench.measurement import Histogram
from peers.bench.messages import MESSAGES_LIMIT, SEQUENCE_OFFSET, STAMP, Grid, Layout, is_sequence
from peers.bench.worker import BenchError, Board
from peers.wire.hello import QueueWish


@dataclass(slots=True)
class Counted:
    """What a subscriber got since the last report."""

    received: int = 0
    reads: int = 0
    lost: int = 0
    told: int = 0
    out_of_order: int = 0
    misrouted: int = 0
    closed: str = ""
    """Why the hub closed the connection; empty while it is open."""


class Tally:
    """The account of one subscriber.

    Args:
        layout: What messages look like.
        publishers: How many there are.
        cut: How the stream is cut.
        on_control: Called with every frame that holds no messages and tells of no loss.

    Attributes:
        next: For each publisher, the sequence number that comes next.
        counted: What was counted since the last `take`.
        latency: Where latencies are recorded; None while nobody wants them.
    """

    __slots__ = ("_cut", "_layout", "_on_control", "counted", "latency", "next")

    def __init__(self, layout: Layout, publishers: int, cut: Framing, on_control: Callable[[Control], None]) -> None:
        self._layout = layout
        self._cut = cut
        self._on_control = on_control
        self.next = [0] * publishers
        self.counted = Counted()
        self.latency: Histogram | None = None

    def feed(self, buffer: bytearray, end: int, now_ns: int) -> int:
        """Account for all whole frames in `buffer` up to `end`; return where the first incomplete one begins.

        Raises:
            BenchError: There is a message that this benchmark did not send.
        """
        position = 0
        while (frame := self._cut(self._layout, buffer, position, end)) is not None:
            if isinstance(frame, Shape):
                position += self._run(buffer, position, end, frame, now_ns)
                continue
            position += frame.size
            if frame.word == "dropped":
                self.counted.told += frame.lost
            else:
                self._on_control(frame)
        return position

    def take(self, sent: list[int]) -> Counted:
        """Return and forget what was counted.

        Args:
            sent: How many messages each publisher has sent; what has not come by now is lost.
        """
        for publisher, total in enumerate(sent):
            self.counted.lost += max(0, total - self.next[publisher])
            self.next[publisher] = max(total, self.next[publisher])
        counted, self.counted = self.counted, Counted(closed=self.counted.closed)
        return counted

    def _run(self, buffer: bytearray, position: int, end: int, shape: Shape, now_ns: int) -> int:
        """Account for frames that follow on each other; return their size."""
        layout = self._layout
        place = position + shape.first_value + len(layout.value_head)
        publisher, start, _ = STAMP.unpack_from(buffer, place)
        if publisher >= len(self.next):
            raise BenchError(f"a message of publisher {publisher}, there are {len(self.next)}")
        frames = self._frames_in_sequence(buffer, position, end, shape)
        if frames:
            self._count(publisher, start, frames * shape.values)
        else:  # the values of the first frame do not count up
            frames = 1
            for value in range(shape.values):
                each, sequence, _ = STAMP.unpack_from(buffer, place + value * layout.value_bytes)
                self._count(each, sequence, 1)
        if layout.topic_of(start) != shape.topic:
            self.counted.misrouted += 1
        if self.latency is not None:
            for frame in range(place, place + frames * shape.size, shape.size):
                for value in range(frame, frame + shape.values * layout.value_bytes, layout.value_bytes):
                    intended_ns = STAMP.unpack_from(buffer, value)[2]
                    if intended_ns:
                        self.latency.record(now_ns - intended_ns)
        return frames * shape.size

    def _frames_in_sequence(self, buffer: bytearray, position: int, end: int, shape: Shape) -> int:
        """Return how many frames from here have this shape and count up; 0 if not even one frame's values do.

        These are not always the most there are: a run that is not whole is halved until it is.
        """
        layout = self._layout
        place = position + shape.first_value + len(layout.value_head)
        publisher, start, _ = STAMP.unpack_from(buffer, place)
        head = buffer[position : position + shape.head]
        frames = max(1, min((end - position) // shape.size, MESSAGES_LIMIT // shape.values))
        while frames * shape.values > 1:
            last = position + (frames - 1) * shape.size
            grid = Grid(place + SEQUENCE_OFFSET, frames, shape.size, shape.values, layout.value_bytes)
            if buffer[last : last + shape.head] == head and is_sequence(buffer, grid, start, publisher):
                return frames
            frames //= 2
        return frames

    def _count(self, publisher: int, start: int, messages: int) -> None:
        expected = self.next[publisher]
        self.counted.received += messages
        if start < expected:
            self.counted.out_of_order += min(messages, expected - start)
        else:
            self.counted.lost += start - expected
        self.next[publisher] = max(expected, start + messages)


_READ_BYTES = 256 * 1024


@dataclass(frozen=True)
class Subscribers:
    """The set-up: some subscribers in one process. The answer is the `QueueWish` that the hub has granted."""

    url: str
    layout: Layout
    board: Board
    first: int
    """The number of the first of them on the board."""
    count: int
    wish: QueueWish


@dataclass(frozen=True)
class Report:
    """The order to tell what was counted, and to start anew; `Reported` answers it."""

    sent: list[int]
    """What each publisher has sent until now."""
    latency: bool
    """Whether to measure latencies from now on."""


@dataclass(frozen=True)
class Reported:
    """What the subscribers of one process have counted."""

    counted: list[Counted]
    latency: Histogram
    cpu_ns: int


class _Subscriber:
    """One connection that subscribes."""

    __slots__ = ("_board", "_line", "_settled", "_slot", "tally")

    def __init__(self, line: Line, board: Board, slot: int) -> None:
        line.socket.settimeout(None)  # it is read only when epoll says so
        self._line = line
        self._board = board
        self._slot = slot
        self._settled = 0  # messages that were accounted for in earlier reports
        self.tally = Tally(line.layout, len(board.sent), line.cut, self._control)

    def read(self, buffer: bytearray, view: memoryview) -> bool:
        """Read once and account for it; return False when the connection is over."""
        line, tally = self._line, self.tally
        held = len(line.held)
        view[:held] = line.held
        try:
            count = line.socket.recv_into(view[held : held + _READ_BYTES])
        except OSError as error:
            self._closed(str(error))
            return False
        now_ns = time.monotonic_ns()
        if not count:
            self._closed("closed without a word")
            return False
        end = held + count
        rest = tally.feed(buffer, end, now_ns)
        line.held = buffer[rest:end]
        tally.counted.reads += 1
        self._post(now_ns)
        return True

    def report(self, sent: list[int]) -> Counted:
        """Return what was counted since the last report."""
        self._settled = sum(sent)
        return self.tally.take(sent)

    def _post(self, now_ns: int) -> None:
        """Tell the others through the board."""
        board, slot, counted = self._board, self._slot, self.tally.counted
        board.last_ns[slot] = now_ns
        for publisher, following in enumerate(self.tally.next):
            board.next[publisher][slot] = following
        board.accounted[slot] = self._settled + counted.received - counted.out_of_order + counted.told

    def _control(self, control: Control) -> None:
        if control.answer:
            self._line.socket.sendall(control.answer)
        if control.word == "close":
            self._closed(f"{control.text} ({control.code})")
        elif control.word == "error":
            raise BenchError(f"the hub says: {control.text} ({control.code})")

    def _closed(self, reason: str) -> None:
        self.tally.counted.closed = self.tally.counted.closed or reason


def subscribe(pipe: Connection, setup: Subscribers) -> None:
    """Be these subscribers until the command is gone."""
    buffer = bytearray(2 * _READ_BYTES + 2 * setup.layout.frame_bytes)
    view = memoryview(buffer)
    poll = select.epoll()
    subscribers: dict[int, _Subscriber] = {}
    granted = QueueWish()
    for number in range(setup.first, setup.first + setup.count):
        line = dial(setup.url, setup.layout, f"bench subscriber {number}", wish=setup.wish)
        line.subscribe([setup.layout.prefix])
        granted = line.granted
        subscribers[line.fileno()] = _Subscriber(line, setup.board, number)
        poll.register(line.fileno(), select.EPOLLIN)
    poll.register(pipe.fileno(), select.EPOLLIN)
    pipe.send(granted)
    cpu_ns = time.process_time_ns()
    while True:
        for descriptor, _ in poll.poll():
            subscriber = subscribers.get(descriptor)
            if subscriber is None:
                before_ns, cpu_ns = cpu_ns, time.process_time_ns()
                pipe.send(_reported(list(subscribers.values()), pipe.recv(), cpu_ns - before_ns))
            elif not subscriber.read(buffer, view):
                poll.unregister(descriptor)


def _reported(subscribers: list[_Subscriber], order: Report, cpu_ns: int) -> Reported:
    latency = Histogram()
    counted = []
    for subscriber in subscribers:
        counted.append(subscriber.report(order.sent))
        if subscriber.tally.latency is not None:
            latency.add(subscriber.tally.latency)
        subscriber.tally.latency = Histogram() if order.latency else None
    return Reported(counted, latency, cpu_ns)
