"""Two hubs that dial each other at the same moment, on pretend sockets: every order in which things may happen.

The connections are the real ones; the test decides what is read, and which callback runs, at each step.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from hub.config import Settings
from hub.handler import Role
from hub.overflow import QueueLimits
from peers.node import Node
from peers.tcp.connection import Connection

LOW, HIGH = b"\x01" * 16, b"\x02" * 16
RUNS = 1500


class PretendLoop:
    """Callbacks run when the test says so; the clock stands."""

    def __init__(self) -> None:
        self.ready: deque[Callable[[], object]] = deque()

    def time(self) -> float:
        """It is always the same moment."""
        return 1000.0

    def call_soon(self, act: Callable[..., object], *arguments: Any) -> None:
        """Put it behind the others."""
        self.ready.append(lambda: act(*arguments))


class PretendTransport(asyncio.Transport):
    """One end of a pretend socket."""

    def __init__(self, loop: PretendLoop, connection: Connection) -> None:
        super().__init__()
        self.loop = loop
        self.connection = connection
        self.far: PretendTransport
        self.incoming: deque[bytes | None] = deque()  # None is the end of the stream
        self.closing = False
        self.finished = False

    def write(self, data: Any) -> None:
        """Put it on the wire."""
        assert not self.finished, "a write behind the end of the stream"
        if not self.closing:
            self.far.incoming.append(bytes(data))

    def writelines(self, list_of_data: Any) -> None:
        """Put it all on the wire."""
        self.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        """As TCP can."""
        return True

    def write_eof(self) -> None:
        """End this direction."""
        if not self.finished and not self.closing:
            self.finished = True
            self.far.incoming.append(None)

    def is_closing(self) -> bool:
        """Whether this end is closed."""
        return self.closing

    def close(self) -> None:
        """Close this end; the connection hears of it a little later, as in asyncio."""
        if not self.closing:
            self.write_eof()
            self.closing = True
            self.loop.call_soon(self.connection.connection_lost, None)

    def abort(self) -> None:
        """The same."""
        self.close()

    def pause_reading(self) -> None:
        """Nothing here is so much that it would matter."""

    def resume_reading(self) -> None:
        """The same."""

    def is_reading(self) -> bool:
        """The same."""
        return True

    def receive(self) -> None:
        """Let the connection read the next piece."""
        data = self.incoming.popleft()
        if self.closing:
            return
        if data is None:
            self.close()
        else:
            self.connection.data_received(data)


class Scene:
    """Two hubs, and sockets between them."""

    def __init__(self, source: random.Random) -> None:
        self._source = source
        self.nodes = [Node(Settings(), hub_id=hub_id) for hub_id in (LOW, HIGH)]
        self.loops = [PretendLoop(), PretendLoop()]
        self.transports: list[PretendTransport] = []
        for node, loop in zip(self.nodes, self.loops, strict=True):
            node.loop = loop  # type: ignore[assignment]

    def dial(self, source: int) -> None:
        """One hub connects to the other."""
        ends = [
            PretendTransport(
                self.loops[number], Connection(self.nodes[number], QueueLimits(), dialled=number == source)
            )
            for number in (source, 1 - source)
        ]
        ends[0].far, ends[1].far = ends[1], ends[0]
        for end in self._source.sample(ends, 2):
            self.transports.append(end)
            end.connection.connection_made(end)

    def step(self) -> bool:
        """Do one of the things that may happen next; False if nothing is left."""
        possible: list[Callable[[], object]] = [end.receive for end in self.transports if end.incoming]
        possible += [lambda loop=loop: loop.ready.popleft()() for loop in self.loops if loop.ready]  # type: ignore[misc]
        if not possible:
            return False
        self._source.choice(possible)()
        return True

    def links(self, number: int) -> list[PretendTransport]:
        """Ends of the links that a hub has."""
        handlers = self.nodes[number].core.handlers.values()
        return [one.outlet._transport for one in handlers if one.role is Role.LINK]  # type: ignore[attr-defined]


@pytest.mark.parametrize("wanted", [False, True])
async def test_exactly_one_link_stays(*, wanted: bool) -> None:
    """Whatever comes first: in the end both hubs have one link, and it is the same one."""
    for seed in range(RUNS):
        source = random.Random(seed)  # noqa: S311 -- repeatable
        scene = Scene(source)
        if wanted:
            for node in scene.nodes:
                node.core.attach(reader := handler())
                node.core.subscribe(reader, ["/a"])
        for number in source.sample((0, 1), 2):
            scene.dial(number)
            for _ in range(source.choice((0, 0, 1, 2, 5, 10))):
                scene.step()
        while scene.step():
            pass
        ours, theirs = scene.links(0), scene.links(1)
        assert [end.far for end in ours] == theirs, seed
        assert len(ours) == 1, seed
        assert len(scene.nodes[0].links) == len(scene.nodes[1].links) == 1
        if wanted:
            assert [list(one.prefixes) for one in links(scene.nodes[0])] == [["/a"]]
            assert [list(one.prefixes) for one in links(scene.nodes[1])] == [["/a"]]


def links(node: Node) -> list[Any]:
    """Handlers of its links."""
    return [one for one in node.core.handlers.values() if one.role is Role.LINK]


def handler() -> Any:
    """A subscriber in this process that keeps nothing."""
    from tests.hub.fakes import handler_of

    return handler_of(role=Role.LOCAL)
