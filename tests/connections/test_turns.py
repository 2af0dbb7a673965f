"""More work than a turn's share, on a pretend socket: it is put off, in order, whatever comes in between."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from hub.delivery import Role
from hub.frame import encode_frame
from hub.handler import Handler
from hub.turn import WRITES_PER_TURN
from peers.connections.connection import TURN_EVENTS
from peers.wire.control import encode_close, encode_subscription
from peers.wire.kinds import Kind
from tests.connections import pretend
from tests.connections.pretend import HELLO
from tests.hub.fakes import FakeOutlet, handler_of
from tests.hubs.raw_client import publication

BUSY = encode_frame(200, b"") * (TURN_EVENTS * 3)
"""Nothing to do, three turns long."""


class Member(NamedTuple):
    """One of a crowd."""

    handler: Handler
    outlet: FakeOutlet


class Stage(pretend.Stage):
    """With one client, and crowds."""

    def __init__(self) -> None:
        super().__init__()
        self.connection = self.client()
        self.transport = self.transport_of(self.connection)

    def crowd(self, prefix: str) -> list[Member]:
        crowd = []
        for _ in range(2 * WRITES_PER_TURN):
            outlet = FakeOutlet()
            handler = handler_of(outlet)
            self.node.core.attach(handler)
            self.node.core.subscribe(handler, [prefix])
            crowd.append(Member(handler, outlet))
        return crowd

    @property
    def values(self) -> list[object]:
        return self.outlet.values


@pytest.fixture
async def stage() -> Stage:
    return Stage()


async def test_what_is_read_meanwhile_waits(stage: Stage) -> None:
    stage.connection.data_received(publication("/a", 1) + BUSY + publication("/a", 2) + publication("/a", 3)[:5])
    stage.connection.data_received(publication("/a", 3)[5:] + BUSY + publication("/a", 4))
    stage.connection.data_received(publication("/a", 5))
    stage.play()
    stage.connection.data_received(publication("/a", 6))
    stage.play()
    assert stage.values == [1, 2, 3, 4, 5, 6]


async def test_a_connection_that_is_lost_meanwhile(stage: Stage) -> None:
    stage.connection.data_received(
        BUSY + publication("/a", 1) + encode_frame(Kind.SUBSCRIBE, b"\x92\x01\x91\xa1/") + publication("/a", 2)
    )
    stage.transport.abort()
    stage.play()
    assert stage.values == [1, 2]
    assert [one.role for one in stage.node.core.handlers.values()] == [Role.LOCAL]
    assert not stage.node.connections
    assert len(stage.node.keepalive) == 0


async def test_a_connection_that_is_closed_meanwhile(stage: Stage) -> None:
    stage.connection.data_received(BUSY + publication("/a", 1) + encode_frame(Kind.PING, b""))
    stage.connection.close(4008, "queue full")
    stage.connection.data_received(publication("/a", 2))
    stage.play()
    assert stage.values == []
    assert stage.told(stage.connection).endswith(encode_close(4008, "queue full"))
    assert stage.transport.far.incoming[-1] is None
    assert stage.connection.reason == "queue full (4008)"


async def test_a_goodbye_behind_much_work(stage: Stage) -> None:
    stage.connection.data_received(BUSY + publication("/a", 1) + encode_close(1000, "bye") + publication("/a", 2))
    assert not stage.transport.closing
    stage.play()
    assert stage.values == [1]
    assert stage.transport.closing
    assert stage.connection.reason == "bye (1000)"
    assert not stage.node.connections


async def test_copies_for_many_are_work_too(stage: Stage) -> None:
    for _ in range(100):
        one = handler_of(FakeOutlet(), role=Role.LOCAL)
        stage.node.core.attach(one)
        stage.node.core.subscribe(one, ["/large/"])
    second, quiet = stage.client(), stage.client()
    for number in range(1, 4):
        stage.connection.data_received(publication("/large/a", bytes(100_000)) + publication("/large/a", number))
    second.data_received(publication("/large/b", bytes(100_000)) + publication("/large/b", 4))
    quiet.data_received(publication("/small", 5))
    assert stage.values == [bytes(100_000), 1, 5]
    assert not stage.transport.reading
    stage.play()
    assert [value for value in stage.values if isinstance(value, int)] == [1, 5, 2, 3, 4]
    assert stage.transport.reading


async def test_a_publisher_waits_for_its_crowd(stage: Stage) -> None:
    crowd = stage.crowd("/crowd/")
    last, quiet = crowd[-1], stage.client()
    stage.connection.data_received(publication("/crowd/a", bytes(5_000)))
    assert not stage.transport.reading
    while not last.outlet.told:
        assert not stage.transport.reading
        quiet.data_received(publication("/small", 1))
        assert stage.values[-1] == 1
        stage.loop.play_turn()
    stage.connection.data_received(publication("/crowd/a", 2))
    stage.play()
    assert stage.transport.reading
    assert all(member.outlet.values == [bytes(5_000), 2] for member in crowd)


async def test_a_publisher_that_leaves_while_it_waits_for_its_crowd(stage: Stage) -> None:
    crowd = stage.crowd("/crowd/")
    ended = stage.client()
    for connection in (stage.connection, ended):
        connection.data_received(publication("/crowd/a", bytes(5_000)))
        stage.loop.play_turn()
    stage.transport.abort()
    ended.end(1001, "go")
    ended.transport.abort()
    stage.play()
    assert all(member.outlet.values == [bytes(5_000)] * 2 for member in crowd)
    assert not stage.node.connections


async def test_answers_stand_behind_what_came_in_earlier_turns(stage: Stage) -> None:
    """A client that waits for its turn to be written to, and asks for something, gets first what it should have got.

    What it brings itself stands behind the answer, as always.
    """
    crowd = stage.crowd("/crowd/")
    late = stage.client()
    late.data_received(encode_subscription(Kind.SUBSCRIBE, ["/crowd/"]))
    far = stage.transport_of(late).far
    far.incoming.clear()
    stage.connection.data_received(publication("/crowd/a", 1))
    late.data_received(publication("/crowd/b", 2) + encode_frame(Kind.PING, b"?"))
    assert stage.told(late) == publication("/crowd/a", 1) + encode_frame(Kind.PONG, b"?") + publication("/crowd/b", 2)
    stage.play()
    assert all(member.outlet.values == [1, 2] for member in crowd)


async def test_the_hub_stops_while_somebody_waits_to_be_written_to(stage: Stage) -> None:
    stage.crowd("/crowd/")
    late = stage.client()
    late.data_received(encode_subscription(Kind.SUBSCRIBE, ["/crowd/"]))
    far = stage.transport_of(late).far
    far.incoming.clear()
    stage.connection.data_received(publication("/crowd/a", 1))
    assert not far.incoming
    late.drain("the hub stops")
    assert stage.told(late) == publication("/crowd/a", 1) + encode_close(1001, "the hub stops")


async def test_many_reads_of_one_turn_have_one_share(stage: Stage) -> None:
    half = encode_frame(200, b"") * (TURN_EVENTS // 2)
    stage.connection.data_received(half + publication("/a", 1))
    assert stage.transport.reading
    stage.connection.data_received(half + publication("/a", 2))
    assert not stage.transport.reading
    stage.connection.data_received(half + publication("/a", 3))
    assert stage.values == [1]
    stage.play()
    assert stage.values == [1, 2, 3]
    assert stage.transport.reading


async def test_each_turn_has_a_new_share(stage: Stage) -> None:
    most = encode_frame(200, b"") * (TURN_EVENTS - 100)
    for _ in range(3):
        stage.connection.data_received(most)
        assert stage.transport.reading
        stage.play()


async def test_bytes_count_in_a_share(stage: Stage) -> None:
    read = publication("/a", "x" * 1000) * 250
    reads = 0
    while stage.transport.reading:
        stage.connection.data_received(read)
        reads += 1
    assert 1 < reads * len(read) / 1_000_000 < 3
    stage.play()
    assert stage.transport.reading
    assert len(stage.values) == reads * 250


async def test_what_comes_behind_the_end_is_read_once_a_turn(stage: Stage) -> None:
    stage.connection.close(4008, "queue full")
    for _ in range(3):
        assert stage.transport.reading
        stage.connection.data_received(bytes(256 * 1024))
        assert not stage.transport.reading
        stage.play()
    stage.transport.abort()
    stage.play()
    assert not stage.node.connections


async def test_many_that_are_lost_at_once_are_given_back_in_several_turns() -> None:
    stage = Stage()
    connections = [stage.client() for _ in range(500)]
    stage.play()
    handlers = stage.node.core.handlers
    assert len(handlers) == 502
    for connection in connections:
        connection.connection_lost(None)
    turns = 0
    while len(handlers) > 2:
        before = len(handlers)
        stage.loop.play_turn()
        assert before - len(handlers) <= 200
        turns += 1
    assert turns >= 2
    assert len(stage.node.connections) == 1


async def test_a_read_is_measured_until_all_of_it_is_done(stage: Stage) -> None:
    seconds, sizes = stage.node.read_times.seconds, stage.node.read_times.bytes
    before = sum(seconds.statistics().counts)
    assert before == 1  # the HELLO
    stage.node.read_times.due_s = 0.0
    stage.connection.data_received(BUSY + publication("/a", 1))
    assert sum(seconds.statistics().counts) == before
    stage.play()
    assert stage.values == [1]
    assert sum(seconds.statistics().counts) == before + 1
    assert sizes.statistics().total == len(HELLO) + len(BUSY) + len(publication("/a", 1))
    stage.node.read_times.due_s = 0.0
    stage.connection.data_received(publication("/a", 2))
    assert sum(seconds.statistics().counts) == before + 2


async def test_what_was_read_is_counted_for_good(stage: Stage) -> None:
    stage.connection.data_received(publication("/a", 1))
    stage.transport.abort()
    stage.play()
    assert stage.node.received_bytes_before == len(HELLO) + len(publication("/a", 1))
