"""Bystanders: connections beside the traffic, on topics that nobody publishes to. One process for all of them.

* idle subscribers: each subscribes to one prefix of its own, and answers pings;
* links: they greet as peer hubs, each with an id of its own, subscribe to one prefix of their own, take the
  announcements of the hub and answer pings. To the hub they are peer hubs; a process for each would cost the machine
  about 40 MB and, every second, a turn of its event loop, beside the hub that is measured.
"""

from __future__ import annotations

import select

from peers.bench.board import Board
from peers.bench.dial import Line, dial
from peers.bench.errors import BenchError
from peers.bench.framing import Control
from peers.bench.orders import BystanderSetup, Done, Order, Populate, Ready
from peers.bench.station import Station, serve

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

    def run(self) -> None:
        """Answer the hub and the command until the command is gone."""
        self._poll.register(self._station.fileno(), select.EPOLLIN)
        while True:
            for descriptor, _ in self._poll.poll():
                line = self._lines.get(descriptor)
                if line is not None:
                    self._read(line)
                else:
                    for order in self._station.take():
                        self._obey(order)

    def _obey(self, order: Order) -> None:
        if not isinstance(order, Populate):
            raise BenchError(f"a bystander cannot {order}")
        self._populate(order)
        self._station.answer(Done())

    def _populate(self, order: Populate) -> None:
        while len(self._subscribers) > order.subscribers:
            self._drop(self._subscribers.pop())
        while len(self._links) > order.links:
            self._drop(self._links.pop())
        while len(self._subscribers) < order.subscribers:
            self._subscribers.append(self._add(order.idle_url, "idle", link=False))
        while len(self._links) < order.links:
            self._links.append(self._add(self._setup.url, "links", link=True))

    def _add(self, url: str, kind: str, *, link: bool) -> Line:
        line = dial(url, self._setup.layout, f"bench {kind} {self._made}", link=link)
        line.subscribe([f"/{kind}/{self._run_name}/{self._made:06}/"])
        self._made += 1
        line.socket.settimeout(None)
        self._lines[line.fileno()] = line
        self._poll.register(line.fileno(), select.EPOLLIN)
        return line

    def _drop(self, line: Line) -> None:
        self._poll.unregister(line.fileno())
        del self._lines[line.fileno()]
        line.close()

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


def _run(station: Station, setup: BystanderSetup, board: Board) -> None:
    del board  # nobody waits for bystanders
    bystanders = _Bystanders(station, setup)
    station.answer(Ready())
    bystanders.run()


if __name__ == "__main__":
    serve(BystanderSetup, _run)
