"""Bystanders: connections beside the traffic, on topics that nobody publishes to. One process for all of them.

* idle subscribers: each subscribes to one prefix of its own (or to nothing), and answers pings;
* links: they greet as peer hubs, each with an id of its own, subscribe to one prefix of their own, take the
  announcements of the hub and answer pings. To the hub they are peer hubs; a process for each would cost the machine
  about 40 MB and, every second, a turn of its event loop, beside the hub that is measured;
* the churner: one client that subscribes and unsubscribes, each request a frame of its own and confirmed by the hub.
  It sends what is due every millisecond; `_CHURN_KEPT` of its prefixes are alive at a time.
"""

from __future__ import annotations

import select
import time
from collections import deque

from peers.bench.board import Board
from peers.bench.dial import Line, dial
from peers.bench.errors import BenchError
from peers.bench.framing import Control
from peers.bench.orders import BystanderSetup, Churn, Churned, Done, Order, Populate, Ready, Subscribe
from peers.bench.station import Station, serve

_CHURN_KEPT = 100
_PREFIXES_PER_REQUEST = 500
_READ_BYTES = 64 * 1024


class _Bystanders:
    """All of them, and their loop."""

    def __init__(self, station: Station, setup: BystanderSetup) -> None:
        self._station = station
        self._setup = setup
        self._run_name = setup.layout.prefix.strip("/").replace("/", "-")
        self._poll = select.epoll()
        self._lines: dict[int, Line] = {}
        self._subscribers: list[Line] = []
        self._links: list[Line] = []
        self._made = 0
        self._prefixes = 0
        self._churner: _Churner | None = None

    def run(self) -> None:
        """Answer the hub and the command until the command is gone."""
        self._poll.register(self._station.fileno(), select.EPOLLIN)
        while True:
            churner = self._churner
            for descriptor, _ in self._poll.poll(churner.wait_s() if churner is not None else -1):
                line = self._lines.get(descriptor)
                if line is not None:
                    self._read(line)
                elif churner is not None and descriptor == churner.line.fileno():
                    churner.read()
                else:
                    for order in self._station.take():
                        self._obey(order)
            if self._churner is not None:
                self._churner.send()

    def _obey(self, order: Order) -> None:
        match order:
            case Populate():
                self._populate(order)
                self._station.answer(Done())
            case Subscribe():
                self._subscribe(order.prefixes)
                self._station.answer(Done())
            case Churn():
                self._station.answer(self._churn(order.pairs_per_s))
            case _:
                raise BenchError(f"a bystander cannot {order}")

    def _populate(self, order: Populate) -> None:
        while len(self._subscribers) > order.subscribers:
            self._drop(self._subscribers.pop())
        while len(self._links) > order.links:
            self._drop(self._links.pop())
        url = order.idle_url or self._setup.url
        while len(self._subscribers) < order.subscribers:
            prefixes = [] if order.silent else [f"/idle/{self._run_name}/{self._made:06}/"]
            self._subscribers.append(self._add(url, prefixes, link=False))
        while len(self._links) < order.links:
            self._links.append(self._add(self._setup.url, [f"/links/{self._run_name}/{self._made:06}/"], link=True))

    def _add(self, url: str, prefixes: list[str], *, link: bool) -> Line:
        name = f"bench {'link' if link else 'idle'} {self._made}"
        self._made += 1
        line = dial(url, self._setup.layout, name, link=link)
        if prefixes:
            line.subscribe(prefixes)
        line.socket.settimeout(None)
        self._lines[line.fileno()] = line
        self._poll.register(line.fileno(), select.EPOLLIN)
        return line

    def _drop(self, line: Line) -> None:
        self._poll.unregister(line.fileno())
        del self._lines[line.fileno()]
        line.close()

    def _subscribe(self, prefixes: int) -> None:
        """Spread over few topics of many components, as subscriptions to hosts and services are."""
        for line in self._subscribers:
            for first in range(0, prefixes, _PREFIXES_PER_REQUEST):
                count = min(_PREFIXES_PER_REQUEST, prefixes - first)
                numbers = range(self._prefixes, self._prefixes + count)
                self._prefixes += count
                line.subscribe([f"/idle/zeek/{number % 50:02}/10.{number >> 8}.{number & 255}/" for number in numbers])

    def _churn(self, pairs_per_s: float) -> Churned:
        if self._churner is not None:
            churned = self._churner.stop()
            self._poll.unregister(self._churner.line.fileno())
            self._churner.line.close()
            self._churner = None
        else:
            churned = Churned(0, 0, 0.0)
        if pairs_per_s:
            line = dial(self._setup.url, self._setup.layout, "bench churner")
            self._churner = _Churner(line, f"/churn/{self._run_name}/", pairs_per_s)
            self._poll.register(line.fileno(), select.EPOLLIN)
        return churned

    def _read(self, line: Line) -> None:
        """Take what came, answer pings.

        Raises:
            BenchError: The hub has closed a bystander, so that it would no longer be one.
        """
        data = line.socket.recv(_READ_BYTES)
        if not data:
            raise BenchError("the hub closed the connection")
        buffer = bytearray(line.held + data)
        position = 0
        frame = line.framing.at(buffer, position, len(buffer))
        while frame is not None:
            position += frame.size
            if not isinstance(frame, Control):
                raise BenchError("a bystander got messages")
            if frame.word in {"close", "error"}:
                raise BenchError(f"the hub says: {frame.text} ({frame.code})")
            if frame.answer:
                line.socket.sendall(frame.answer)
            frame = line.framing.at(buffer, position, len(buffer))
        line.held = bytes(buffer[position:])


class _Churner:
    """The client that subscribes and unsubscribes."""

    def __init__(self, line: Line, prefix: str, pairs_per_s: float) -> None:
        self.line = line
        self._prefix = prefix
        self._pairs_per_s = pairs_per_s
        self._began_s = time.monotonic()
        self._pairs = 0
        self._requests = 0
        self._confirmed = 0
        self._alive: deque[str] = deque()
        self._buffer = bytearray(line.held)

    def wait_s(self) -> float:
        """How long until the next pair is due."""
        return max(0.0, self._began_s + (self._pairs + 1) / self._pairs_per_s - time.monotonic())

    def send(self) -> None:
        """Send what is due: a subscription, and the end of an older one."""
        due = int((time.monotonic() - self._began_s) * self._pairs_per_s)
        requests = []
        while self._pairs < due:
            self._pairs += 1
            prefix = f"{self._prefix}{self._pairs:09}/"
            self._alive.append(prefix)
            requests.append(self._request(prefix, subscribe=True))
            if len(self._alive) > _CHURN_KEPT:
                requests.append(self._request(self._alive.popleft(), subscribe=False))
        if requests:
            self.line.socket.sendall(b"".join(requests))

    def _request(self, prefix: str, *, subscribe: bool) -> bytes:
        self._requests += 1
        return self.line.subscription([prefix], self._requests, subscribe=subscribe)

    def read(self) -> None:
        """Count confirmations."""
        data = self.line.socket.recv(_READ_BYTES)
        if not data:
            raise BenchError("the hub closed the connection of the churner")
        self._buffer += data
        position = 0
        frame = self.line.framing.at(self._buffer, position, len(self._buffer))
        while frame is not None:
            position += frame.size
            if isinstance(frame, Control):
                if frame.word in {"close", "error"}:
                    raise BenchError(f"the hub says: {frame.text} ({frame.code})")
                self._confirmed += frame.word == "confirmed"
                if frame.answer:
                    self.line.socket.sendall(frame.answer)
            frame = self.line.framing.at(self._buffer, position, len(self._buffer))
        del self._buffer[:position]

    def stop(self) -> Churned:
        """Wait until all is confirmed; return what was done."""
        elapsed_s = time.monotonic() - self._began_s
        while self._confirmed < self._requests:
            self.read()
        return Churned(self._requests, self._confirmed, elapsed_s)


def _run(station: Station, setup: BystanderSetup, board: Board) -> None:
    del board  # nobody waits for bystanders
    bystanders = _Bystanders(station, setup)
    station.answer(Ready())
    bystanders.run()


if __name__ == "__main__":
    serve(BystanderSetup, _run)
