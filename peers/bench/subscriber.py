"""The subscribers: a process that reads for one or many of them, and accounts for every message.

The process has one `epoll` loop and one large buffer for all, and reads up to 256 KiB at a time. It tells the others
through the board how far it is after each read.

Owner of the state: this process. Cost: 1 to 2 µs for each read, and that of `peers.bench.tally`.
"""

from __future__ import annotations

import select
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection

from peers.bench.board import Board
from peers.bench.errors import BenchError
from peers.bench.framing import Control
from peers.bench.histogram import Histogram
from peers.bench.layout import Layout
from peers.bench.line import Line, dial
from peers.bench.tally import Counted, Tally
from peers.wire.hello import QueueWish

__all__ = ["Report", "Reported", "Subscribers", "subscribe"]

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
