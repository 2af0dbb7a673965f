"""Two hubs that dial each other at the same moment, on pretend sockets: every order in which things may happen.

The connections are the real ones; the test decides what is read, and which callback runs, at each step.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from hub.delivery import Role
from hub.overflow import QueueLimits
from hub.settings.settings import Settings
from peers.connections.tcp import tcp_connection
from peers.node.node import Node
from tests.connections.pretend import PretendLoop, PretendTransport
from tests.hub.fakes import handler_of

pytestmark = pytest.mark.asyncio(loop_factories=["asyncio"])  # which of them runs these loops makes no difference

LOW, HIGH = b"\x01" * 16, b"\x02" * 16
RUNS = 600


class Scene:
    def __init__(self, source: random.Random) -> None:
        self._source = source
        self.nodes = [Node(Settings(), hub_id=hub_id) for hub_id in (LOW, HIGH)]
        self.loops = [PretendLoop(), PretendLoop()]
        self.transports: list[PretendTransport] = []
        for node, loop in zip(self.nodes, self.loops, strict=True):
            node.loop = loop  # type: ignore[assignment]

    def dial(self, source: int) -> None:
        ends = [
            PretendTransport(
                self.loops[number], tcp_connection(self.nodes[number], QueueLimits(), dialled=number == source)
            )
            for number in (source, 1 - source)
        ]
        ends[0].far, ends[1].far = ends[1], ends[0]
        for end in self._source.sample(ends, 2):
            self.transports.append(end)
            end.connection.connection_made(end)

    def step(self) -> bool:
        possible: list[Callable[[], object]] = [end.receive for end in self.transports if end.incoming]
        possible += [lambda loop=loop: loop.ready.popleft()() for loop in self.loops if loop.ready]  # type: ignore[misc]
        if not possible:
            return False
        self._source.choice(possible)()
        return True

    def links(self, number: int) -> list[PretendTransport]:
        handlers = self.nodes[number].core.handlers.values()
        return [one.outlet.transport for one in handlers if one.role is Role.LINK]  # type: ignore[attr-defined]


@pytest.mark.parametrize("wanted", [False, True])
async def test_exactly_one_link_stays(*, wanted: bool) -> None:
    for seed in range(RUNS):
        source = random.Random(seed)  # noqa: S311 -- repeatable
        scene = Scene(source)
        if wanted:
            for node in scene.nodes:
                node.core.attach(reader := handler_of(role=Role.LOCAL))
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
            assert [len(node.core.mesh.links) for node in scene.nodes] == [1, 1]
            for node, far in zip(scene.nodes, reversed(scene.nodes), strict=True):
                assert list(node.core.far_hubs.wanted_by(far.id)) == ["/a"]
