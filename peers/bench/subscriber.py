"""Subscribers: a process that reads for one or many of them, and accounts for every message.

One `epoll` loop, one large buffer for all, up to 256 KiB a read. Stalled subscribers are the same with a small receive
buffer in the kernel, and are not read until the command says so. So that the hub does not take them for dead (it closes
who does not answer its ping), they say something now and then: a pong that nobody asked for.
"""

from __future__ import annotations

import select
import socket
import time
from contextlib import suppress

from peers.bench.board import Board
from peers.bench.dial import Line, dial
from peers.bench.errors import BenchError
from peers.bench.framing import Control
from peers.bench.histogram import Histogram
from peers.bench.orders import Done, Ready, Report, Reported, Resume, SubscriberSetup
from peers.bench.station import Station, serve
from peers.bench.tally import Counted, Tally

_READ_BYTES = 256 * 1024
_SIGN_OF_LIFE_S = 5.0
"""Well below the 20 s of silence after which a hub pings."""

_STALLED_RECEIVE_BYTES = 4096
"""Linux doubles it and gives at least about this; so the hub soon notices that nobody reads."""


class _Subscriber:
    """One connection that subscribes."""

    __slots__ = ("_board", "_line", "_settled", "_slot", "tally")

    def __init__(self, line: Line, setup: SubscriberSetup, board: Board, number: int) -> None:
        line.socket.settimeout(None)  # read only when epoll says so
        self._line = line
        self._board = board
        self._slot = -1 if setup.stalled else number
        self._settled = 0  # messages that were accounted for in earlier reports
        topic = number if setup.own_topics else None
        self.tally = Tally(setup.layout, setup.publishers, line.framing, self._control, topic)

    def fileno(self) -> int:
        return self._line.fileno()

    def read(self, buffer: bytearray, view: memoryview) -> bool:
        """Read once and account for it; False when the connection is over."""
        line = self._line
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
        tally = self.tally
        rest = tally.feed(buffer, end, now_ns)
        line.held = bytes(view[rest:end])
        tally.counted.reads += 1
        if self._slot >= 0:
            self._post(now_ns)
        return True

    def report(self, sent: list[int]) -> Counted:
        """Return what was counted since the last report."""
        self._settled = sum(sent)
        return self.tally.take(sent)

    def widen(self) -> None:
        """Read as quickly as the others from now on."""
        self._line.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _READ_BYTES)

    def sign_of_life(self) -> None:
        """Send what the hub takes note of and does not answer."""
        with suppress(OSError):  # it has closed; why is read when this subscriber is resumed
            self._line.socket.sendall(self._line.pong)

    def _post(self, now_ns: int) -> None:
        """Tell the others through the board."""
        board, slot, counted = self._board, self._slot, self.tally.counted
        board.last_ns[slot] = now_ns
        for publisher, following in enumerate(self.tally.next):
            board.next[publisher * board.subscribers + slot] = following
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


class _Reading:
    """The loop over all subscribers of this process."""

    def __init__(self, station: Station, setup: SubscriberSetup, board: Board) -> None:
        self._station = station
        self._stalled = setup.stalled
        self._cpu_ns = time.process_time_ns()
        self._buffer = bytearray(_READ_BYTES + 2 * setup.layout.frame_bytes + _READ_BYTES)
        self._view = memoryview(self._buffer)
        self._poll = select.epoll()
        self._subscribers: dict[int, _Subscriber] = {}
        greeting = Control(0, "greeting")
        for number in range(setup.first, setup.first + setup.count):
            line = dial(
                setup.url,
                setup.layout,
                f"bench {'stalled ' if setup.stalled else ''}subscriber {number}",
                wish=setup.wish,
                receive_bytes=_STALLED_RECEIVE_BYTES if setup.stalled else 0,
            )
            line.subscribe([setup.layout.topic(number) if setup.own_topics else setup.layout.prefix])
            greeting = line.greeting
            subscriber = _Subscriber(line, setup, board, number)
            self._subscribers[line.fileno()] = subscriber
            if not setup.stalled:
                self._poll.register(line.fileno(), select.EPOLLIN)
        station.answer(Ready(greeting.queue_messages, greeting.queue_bytes))

    def run(self) -> None:
        """Read until the command is gone."""
        self._poll.register(self._station.fileno(), select.EPOLLIN)
        while True:
            if not self._turn(_SIGN_OF_LIFE_S if self._stalled else -1):
                for subscriber in self._subscribers.values():
                    subscriber.sign_of_life()

    def _turn(self, timeout_s: float) -> int:
        """Read what has come; return from how many subscribers."""
        ready = self._poll.poll(timeout_s)
        for descriptor, _ in ready:
            subscriber = self._subscribers.get(descriptor)
            if subscriber is None:
                self._obey()
            elif not subscriber.read(self._buffer, self._view):
                self._poll.unregister(descriptor)
        return len(ready)

    def _obey(self) -> None:
        for order in self._station.take():
            match order:
                case Report():
                    self._station.answer(self._report(order))
                case Resume():
                    self._resume(order.quiet_s)
                    self._station.answer(Done())
                case _:
                    raise BenchError(f"a subscriber cannot {order}")

    def _report(self, order: Report) -> Reported:
        latency = Histogram()
        counted = []
        for subscriber in self._subscribers.values():
            counted.append(subscriber.report(order.sent))
            if subscriber.tally.latency is not None:
                latency.add(subscriber.tally.latency)
            subscriber.tally.latency = Histogram() if order.latency else None
        now_ns = time.process_time_ns()
        used_ns, self._cpu_ns = now_ns - self._cpu_ns, now_ns
        return Reported(counted, latency.dump(), used_ns)

    def _resume(self, quiet_s: float) -> None:
        """Read stalled subscribers until nothing more comes."""
        self._stalled = False
        self._poll.unregister(self._station.fileno())
        for descriptor, subscriber in self._subscribers.items():
            subscriber.widen()
            self._poll.register(descriptor, select.EPOLLIN)
        while self._turn(quiet_s):
            pass
        self._poll.register(self._station.fileno(), select.EPOLLIN)


def _run(station: Station, setup: SubscriberSetup, board: Board) -> None:
    _Reading(station, setup, board).run()


if __name__ == "__main__":
    serve(SubscriberSetup, _run)
