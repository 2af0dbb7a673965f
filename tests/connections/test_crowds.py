"""Very many connections that ask for something in one turn: all of them together have a share of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hub.frame import encode_frame
from hub.overflow import QueueLimits
from hub.turn import STEPS_PER_TURN, WRITES_PER_TURN
from peers.connections.connection import Connection
from peers.connections.websocket import websocket_connection
from peers.node.common_share import CHANGES_PER_TURN, EVENTS_PER_TURN
from peers.node.node import Node
from peers.wire.control import encode_close, encode_subscription
from peers.wire.kinds import Kind
from tests.connections import pretend
from tests.connections.pretend import HELLO, PretendTransport, over_tcp
from tests.hubs.raw_client import publication
from tests.hubs.raw_websocket import text, upgrade

PONG = encode_frame(Kind.PONG, b"")
CROWD = 200
FOLLOWING = {
    "tcp": [HELLO, encode_subscription(Kind.SUBSCRIBE, ["/crowd/"])],
    "websocket": [upgrade(), text({"type": "subscribe", "prefixes": ["/crowd/"]})],
    "events": [b"GET /v1/events?prefix=/crowd/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"],
}
"""What a client says that follows, by what it speaks."""


class Crowd(pretend.Stage):
    """As many connections as are asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.transports: list[PretendTransport] = []

    def connect(self, make: Callable[[Node], Connection] = over_tcp) -> Connection:
        connection = super().connect(make)
        self.transports.append(self.transport_of(connection))
        return connection

    def client(self) -> Connection:
        connection = super().client()
        self.play()
        return connection

    def most_in_a_turn(self, done: Callable[[], int], total: int) -> int:
        most = before = done()
        while before < total:
            assert self.loop.ready, "nothing is going on any more"
            self.loop.play_turn()
            most, before = max(most, done() - before), done()
        return most

    def written(self) -> bytes:
        return b"".join(data for transport in self.transports for data in transport.far.incoming if data is not None)


def _websocket(node: Node) -> Connection:
    return websocket_connection(node, QueueLimits(), loopback=True)


@pytest.fixture
async def crowd() -> Crowd:
    return Crowd()


async def test_all_that_subscribe_have_one_share_together(crowd: Crowd) -> None:
    clients = [crowd.client() for _ in range(CROWD)]
    core = crowd.node.core
    for number, client in enumerate(clients):
        client.data_received(encode_subscription(Kind.SUBSCRIBE, [f"/{number}/{n}" for n in range(10)]))
    most = crowd.most_in_a_turn(lambda: core.statistics().routing.subscriptions - 1, 10 * CROWD)
    assert most < CHANGES_PER_TURN + 10
    assert not len(crowd.node.changes)
    assert all(transport.reading for transport in crowd.transports)


async def test_whoever_publishes_does_not_wait_behind_them(crowd: Crowd) -> None:
    publisher, *clients = [crowd.client() for _ in range(CROWD)]
    for number, client in enumerate(clients):
        client.data_received(encode_subscription(Kind.SUBSCRIBE, [f"/{number}/{n}" for n in range(10)]))
    publisher.data_received(publication("/a", 1) + encode_frame(Kind.PING, b"") + publication("/b", 2))
    assert crowd.outlet.values == [1, 2]


async def test_each_does_what_it_asks_for_in_its_order(crowd: Crowd) -> None:
    clients = [crowd.client() for _ in range(CROWD)]
    for number, client in enumerate(clients):
        prefixes = [f"/{number}/{n}" for n in range(10)]
        client.data_received(encode_subscription(Kind.SUBSCRIBE, prefixes) + publication(f"/{number}/9", number))
    crowd.most_in_a_turn(lambda: len(crowd.outlet.values), CROWD)
    delivered = [client.handler.delivered_messages for client in clients if client.handler is not None]
    assert delivered == [1] * CROWD


async def test_all_that_say_hello_have_one_share_together(crowd: Crowd) -> None:
    clients = [crowd.connect() for _ in range(CROWD)]
    for client in clients:
        client.data_received(HELLO)
    assert crowd.most_in_a_turn(lambda: len(crowd.node.core.handlers) - 1, CROWD) <= CHANGES_PER_TURN // 10


async def test_all_that_ask_for_answers_have_one_share_together(crowd: Crowd) -> None:
    clients = [crowd.client() for _ in range(16)]
    for client in clients:
        client.data_received(encode_frame(Kind.PING, b"") * 1000)
    assert crowd.most_in_a_turn(lambda: crowd.written().count(PONG), 16_000) <= EVENTS_PER_TURN + len(clients)


async def test_handshakes_of_websockets_have_one_share_together(crowd: Crowd) -> None:
    clients = [crowd.connect(_websocket) for _ in range(CROWD)]
    for client in clients:
        client.data_received(upgrade())
    most = crowd.most_in_a_turn(lambda: crowd.written().count(b"HTTP/1.1 101"), CROWD)
    assert most <= CHANGES_PER_TURN // 10


@pytest.mark.parametrize("by_far_side", [True, False])
async def test_all_that_are_closed_leave_in_steps(crowd: Crowd, *, by_far_side: bool) -> None:
    publisher, *clients = [crowd.client() for _ in range(CROWD)]
    core = crowd.node.core
    for client in clients:
        client.data_received(encode_subscription(Kind.SUBSCRIBE, ["/a"]))
    crowd.play()
    handlers = [client.handler for client in clients if client.handler is not None]
    before = len(core.handlers)
    for client in clients:
        if by_far_side:
            client.data_received(encode_close(1000, "bye"))
        else:
            client.end(4000, "enough")
    publisher.data_received(publication("/a", 1))
    most = crowd.most_in_a_turn(lambda: before - len(core.handlers), len(clients))
    assert most <= STEPS_PER_TURN // 5
    assert {handler.delivered_messages for handler in handlers} == {0}
    assert core.statistics().routing.subscriptions == 1


async def test_whoever_goes_while_it_waits_changes_nothing(crowd: Crowd) -> None:
    clients = [crowd.client() for _ in range(CROWD)]
    for number, client in enumerate(clients):
        client.data_received(encode_subscription(Kind.SUBSCRIBE, [f"/{number}/{n}" for n in range(10)]))
    for transport in crowd.transports[:-1]:
        transport.abort()
    crowd.play()
    assert crowd.node.core.statistics().routing.subscriptions == 1 + 10
    assert len(crowd.node.connections) == 1


async def test_whoever_goes_before_it_was_let_in(crowd: Crowd) -> None:
    clients = [crowd.connect() for _ in range(CROWD)]
    for client in clients:
        client.data_received(HELLO + encode_subscription(Kind.SUBSCRIBE, ["/a"]) + publication("/a", 1))
    for transport in crowd.transports:
        transport.abort()
    crowd.play()
    assert not crowd.node.connections
    assert len(crowd.node.core.handlers) == 1
    assert len(crowd.outlet.values) < CROWD // 2
    assert crowd.node.failed_connections == 0


@pytest.mark.parametrize("kind", ["tcp", "websocket", "events"])
async def test_a_message_for_a_crowd(crowd: Crowd, kind: str) -> None:
    for _ in range(2 * WRITES_PER_TURN + 10):
        follower = crowd.connect(over_tcp if kind == "tcp" else _websocket)
        for data in FOLLOWING[kind]:
            follower.data_received(data)
            crowd.play()
    followers, publisher, quiet = list(crowd.transports), crowd.client(), crowd.client()
    for transport in followers:
        transport.far.incoming.clear()
    publisher.data_received(publication("/crowd/a", 1))
    most = crowd.most_in_a_turn(lambda: sum(bool(one.far.incoming) for one in followers), len(followers))
    assert most <= WRITES_PER_TURN
    assert len(crowd.node.core.late) == 0
    publisher.data_received(publication("/crowd/a", 2))
    quiet.data_received(publication("/quiet", 3))
    assert crowd.outlet.values == [1, 2, 3]
    assert crowd.node.core.late
    crowd.play()
    assert all(len(one.far.incoming) == 2 for one in followers)
