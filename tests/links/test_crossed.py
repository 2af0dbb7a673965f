"""Two hubs that dial each other, or end their link, at the same moment, over pretend sockets: every order of steps."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from hub.handlers.delivery import Role
from hub.limits import QueueLimits
from hub.messages.batch import Batch
from hub.settings.settings import Settings
from peers.connections.tcp import tcp_connection
from peers.server.server import Server
from tests.connections.pretend import PretendLoop, PretendTransport
from tests.hub.fakes import FakeOutlet, handler_of

RUNS = 60


class Side:
    def __init__(self, number: int) -> None:
        self.loop = PretendLoop()
        self.server = Server(Settings(), hub_id=bytes([number + 1]) * 16)
        self.server.loop = self.loop  # type: ignore[assignment]
        self.outlet = FakeOutlet()
        self.reader = handler_of(self.outlet, role=Role.CLIENT)
        self.server.core.attach(self.reader)

    @property
    def links(self) -> list[PretendTransport]:
        handlers = self.server.core.handlers.values()
        return [one.outlet.transport for one in handlers if one.role is Role.LINK]  # type: ignore[attr-defined]

    def publish(self, messages: int) -> None:
        core = self.server.core
        for number in range(messages):
            core.publish(self.reader, core.routes.find("/a"), Batch.of("/a", [number]))
            core.flush()

    @property
    def told(self) -> tuple[int, int, int, int]:
        accounts = self.server.accounts
        return (
            accounts.lost_messages,
            accounts.missed_messages,
            accounts.messages_in_doubt,
            accounts.possibly_lost_messages,
        )


class Scene:
    def __init__(self, seed: int, *prefixes: str) -> None:
        self.chance = random.Random(seed)  # noqa: S311 -- repeatable
        self.sides = Side(0), Side(1)
        self.transports: list[PretendTransport] = []
        for side in self.sides:
            side.server.core.subscribe(side.reader, list(prefixes))

    def dial(self, source: int) -> None:
        ends = [
            PretendTransport(
                self.sides[number].loop,
                tcp_connection(self.sides[number].server, QueueLimits(), dialled=number == source),
            )
            for number in (source, 1 - source)
        ]
        ends[0].far, ends[1].far = ends[1], ends[0]
        for end in self.chance.sample(ends, 2):
            self.transports.append(end)
            end.connection.connection_made(end)

    def step(self) -> bool:
        possible: list[Callable[[], object]] = [end.receive for end in self.transports if end.incoming]
        possible += [lambda loop=side.loop: loop.ready.popleft()() for side in self.sides if side.loop.ready]  # type: ignore[misc]
        if not possible:
            return False
        self.chance.choice(possible)()
        return True

    def play(self) -> None:
        while self.step():
            pass


@pytest.mark.parametrize("prefixes", [(), ("/a",)], ids=["nothing wanted", "wanted"])
async def test_exactly_one_link_stays(prefixes: tuple[str, ...]) -> None:
    for seed in range(RUNS):
        scene = Scene(seed, *prefixes)
        for number in scene.chance.sample((0, 1), 2):
            scene.dial(number)
            for _ in range(scene.chance.choice((0, 0, 1, 2, 5, 10))):
                scene.step()
        scene.play()
        ours, theirs = (side.links for side in scene.sides)
        assert [end.far for end in ours] == theirs, seed
        assert len(ours) == 1, seed
        for side, far in zip(scene.sides, scene.sides[::-1], strict=True):
            assert (len(side.server.links), len(side.server.core.mesh.links)) == (1, 1)
            assert tuple(side.server.core.remote_hubs.wanted_by(far.server.id)) == prefixes


@pytest.mark.parametrize(("published", "both"), [((5, 7), True), ((5, 0), False)])
async def test_what_was_on_its_way_when_a_link_ends(published: tuple[int, int], *, both: bool) -> None:
    """Each side knows what was lost, where both say goodbye at once; where one does, nothing is."""
    for seed in range(20):
        scene = Scene(seed, "/")
        scene.dial(0)
        scene.play()
        for side in scene.sides:
            side.publish(3)
        scene.play()
        ends = [side.links[0] for side in scene.sides]
        for side, messages in zip(scene.sides, published, strict=True):
            side.publish(messages)
        for end in ends[: 1 + both]:
            end.connection.drain()
        scene.play()
        for side, sent, missed in zip(scene.sides, published, published[::-1], strict=True):
            assert side.told == ((sent, missed, 0, 0) if both else (0, 0, 0, 0)), seed
            assert not side.server.failed_connections
            assert not side.server.connections
        if not both:
            assert len(scene.sides[1].outlet.values) == 3 + 3 + sum(published)
