"""`Bystanders`: connections beside the traffic, on topics that nobody publishes to.

* Idle subscribers subscribe to one prefix of their own each.
* Links greet as peer hubs, each with an id of its own, subscribe to one prefix of their own, and take the announcements
  of the hub. To the hub they are peer hubs; a process for each would cost the machine about 40 MB and, every second, a
  turn of its event loop, beside the hub that is measured.

Owner of the state: the command, which must let them `answer` at least every few seconds, as the hub closes who does not
answer its pings. Cost: one `epoll` for all of them, and a read for each that the hub has said something to.
"""

from __future__ import annotations

import select

from peers.bench.layout import Layout
from peers.bench.line import Line, dial

__all__ = ["Bystanders"]


class Bystanders:
    """All of them; there are none at first.

    Args:
        layout: Of the benchmark that they stand beside.
        client_url: Where idle subscribers connect.
        link_url: Where links connect: tcp or unix.
    """

    def __init__(self, layout: Layout, client_url: str, link_url: str) -> None:
        self._layout = layout
        self._client_url = client_url
        self._link_url = link_url
        self._poll = select.epoll()
        self._lines: dict[int, Line] = {}
        """Each line by its descriptor."""
        self._subscribers: list[Line] = []
        self._links: list[Line] = []
        self._made = 0

    def populate(self, subscribers: int, links: int) -> None:
        """Have so many, by connecting more or closing some.

        Raises:
            BenchError: The hub refuses one.
        """
        for lines, count, link in ((self._subscribers, subscribers, False), (self._links, links, True)):
            while len(lines) > count:
                self._drop(lines.pop())
            while len(lines) < count:
                lines.append(self._add(link=link))

    def answer(self) -> None:
        """Take what the hub has said, and answer its pings, without waiting.

        Raises:
            BenchError: The hub has closed a connection or sent messages, so that it is no bystander's any more.
        """
        for descriptor, _ in self._poll.poll(0):
            self._lines[descriptor].listen()

    def close(self) -> None:
        """Close all connections."""
        self.populate(0, 0)
        self._poll.close()

    def _add(self, *, link: bool) -> Line:
        kind = "links" if link else "idle"
        line = dial(self._link_url if link else self._client_url, self._layout, f"bench {kind} {self._made}", link=link)
        line.subscribe([f"/{kind}{self._layout.prefix}{self._made:06}/"])
        self._made += 1
        self._lines[line.fileno()] = line
        self._poll.register(line.fileno(), select.EPOLLIN)
        return line

    def _drop(self, line: Line) -> None:
        self._poll.unregister(line.fileno())
        del self._lines[line.fileno()]
        line.close()
