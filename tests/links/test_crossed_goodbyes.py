"""Two hubs that end their link at the same moment, on pretend sockets: each knows what was lost all the same."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable

import pytest

from hub.batch import Batch
from hub.delivery import Role
from hub.handler import Handler
from hub.overflow import QueueLimits
from hub.settings.settings import Settings
from peers.connections.tcp import tcp_connection
from peers.node.node import Node
from tests.connections.pretend import PretendLoop, PretendTransport
from tests.hub.fakes import FakeOutlet, handler_of


class Side:
    def __init__(self, number: int) -> None:
        self.loop = PretendLoop()
        self.node = Node(Settings(), hub_id=bytes([number]) * 16)
        self.node.loop = self.loop  # type: ignore[assignment]
        self.outlet = FakeOutlet()
        self.reader = handler_of(self.outlet, role=Role.CLIENT)
        self.node.core.attach(self.reader)
        self.node.core.subscribe(self.reader, ["/"])
        self.end = PretendTransport(self.loop, tcp_connection(self.node, QueueLimits(), dialled=number == 1))

    @property
    def link(self) -> Handler:
        (link,) = [one for one in self.node.core.handlers.values() if one.role is Role.LINK]
        return link

    def publish(self, messages: int) -> None:
        core = self.node.core
        for number in range(messages):
            core.publish(self.reader, core.routes.find("/a"), Batch.of("/a", [number]))
            core.flush()

    def close(self) -> None:
        self.end.connection.drain()


def linked() -> tuple[Side, Side]:
    one, other = Side(1), Side(2)
    one.end.far, other.end.far = other.end, one.end
    for side in (one, other):
        side.end.connection.connection_made(side.end)
    play(one, other, deque)
    assert list(one.node.core.far_hubs.wanted_by(other.node.id)) == ["/"]
    assert list(other.node.core.far_hubs.wanted_by(one.node.id)) == ["/"]
    return one, other


def play(one: Side, other: Side, order: Callable[[list[Callable[[], object]]], object]) -> None:
    while True:
        possible: list[Callable[[], object]] = [side.end.receive for side in (one, other) if side.end.incoming]
        possible += [side.loop.ready.popleft for side in (one, other) if side.loop.ready]
        if not possible:
            return
        order(possible)
        done = possible[0]()
        if callable(done):
            done()


@pytest.mark.parametrize("seed", range(20))
async def test_what_was_on_its_way_when_both_said_close(seed: int) -> None:
    source = random.Random(seed)  # noqa: S311 -- repeatable
    one, other = linked()
    one.publish(3)
    other.publish(4)
    play(one, other, source.shuffle)
    one.publish(5)
    other.publish(7)
    one.close()
    other.close()
    play(one, other, source.shuffle)
    for side, sent, missed in ((one, 5, 7), (other, 7, 5)):
        accounts = side.node.accounts
        assert (accounts.lost_messages, accounts.missed_messages) == (sent, missed)
        assert (accounts.messages_in_doubt, accounts.possibly_lost_messages) == (0, 0)
        assert not side.node.failed_connections
        assert not side.node.connections


async def test_a_goodbye_that_crosses_nothing() -> None:
    one, other = linked()
    one.publish(5)
    one.close()
    play(one, other, deque)
    for side in (one, other):
        accounts = side.node.accounts
        assert (accounts.lost_messages, accounts.missed_messages, accounts.messages_in_doubt) == (0, 0, 0)
    assert len(other.outlet.values) == 5
