"""More work than a turn's share, on a pretend socket: it is put off, in order, whatever comes in between."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import pytest
import structlog

from hub.errors import CloseCode
from hub.handlers.delivery import Role
from hub.handlers.handler import Handler
from hub.limits import QueueLimits
from hub.messages.batch import Batch
from hub.messages.frame import encode_frame
from hub.messages.request_frame import Reply
from hub.scheduling.scheduler import STEPS_PER_TURN, WRITES_PER_TURN
from peers.connections.connection import SHOWN_BYTES, SHOWN_CHARACTERS, TURN_EVENTS, Connection, describe
from peers.connections.conversation import ENDED
from peers.connections.websocket import websocket_connection
from peers.server.reading import BETWEEN_S, CHANGES_PER_TURN, EVENTS_PER_TURN
from peers.server.server import Server
from peers.wire.control import encode_close, encode_subscription
from peers.wire.kinds import Kind
from tests.connections import pretend
from tests.connections.pretend import HELLO, PretendTransport, over_tcp
from tests.hub.fakes import FakeOutlet, handler_of
from tests.hubs.raw_client import publication
from tests.hubs.raw_websocket import text, upgrade

BUSY = encode_frame(200, b"") * (TURN_EVENTS * 3)  # nothing to do, three turns long


class Member(NamedTuple):
    handler: Handler
    outlet: FakeOutlet


class Stage(pretend.Stage):
    def __init__(self) -> None:
        super().__init__()
        self.connection = self.client()
        self.transport = self.transport_of(self.connection)

    def crowd(self, prefix: str) -> list[Member]:
        crowd = []
        for _ in range(2 * WRITES_PER_TURN):
            outlet = FakeOutlet()
            handler = handler_of(outlet)
            self.server.core.attach(handler)
            self.server.core.subscribe(handler, [prefix])
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
    assert [one.role for one in stage.server.core.handlers.values()] == [Role.LOCAL]
    assert not stage.server.connections
    assert len(stage.server.keepalive) == 0


async def test_a_connection_that_is_closed_meanwhile(stage: Stage) -> None:
    stage.connection.data_received(BUSY + publication("/a", 1) + encode_frame(Kind.PING, b""))
    stage.connection.close(4008, "queue full")
    stage.connection.data_received(publication("/a", 2))
    stage.play()
    assert stage.values == []
    assert stage.told(stage.connection).endswith(encode_close(4008, "queue full"))
    assert stage.transport.far.incoming[-1] is None
    assert stage.connection.reason == "queue full (4008)"


async def test_copies_for_many_are_work_too(stage: Stage) -> None:
    for _ in range(100):
        one = handler_of(FakeOutlet(), role=Role.LOCAL)
        stage.server.core.attach(one)
        stage.server.core.subscribe(one, ["/large/"])
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


async def test_answers_stand_behind_what_came_in_earlier_turns(stage: Stage) -> None:
    """A client that waits for its turn to be written to, and asks for something, gets first what it should have got."""
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
    assert not stage.server.connections


async def test_a_read_is_measured_until_all_of_it_is_done(stage: Stage) -> None:
    seconds, sizes = stage.server.read_times.seconds, stage.server.read_times.bytes
    before = sum(seconds.statistics().counts)
    assert before == 1  # the HELLO
    stage.server.read_times.due_s = 0.0
    stage.connection.data_received(BUSY + publication("/a", 1))
    assert sum(seconds.statistics().counts) == before
    stage.play()
    assert stage.values == [1]
    assert sum(seconds.statistics().counts) == before + 1
    assert sizes.statistics().total == len(HELLO) + len(BUSY) + len(publication("/a", 1))
    stage.connection.data_received(publication("/a", 2))
    assert sum(seconds.statistics().counts) == before + 1  # some time lies between two that are measured
    assert stage.server.read_times.due_s == stage.loop.now_s + BETWEEN_S
    stage.loop.now_s += BETWEEN_S
    stage.connection.data_received(publication("/a", 3))
    assert sum(seconds.statistics().counts) == before + 2


async def test_what_was_read_is_counted_for_good(stage: Stage) -> None:
    stage.connection.data_received(publication("/a", 1))
    stage.transport.abort()
    stage.play()
    assert stage.server.received_bytes_before == len(HELLO) + len(publication("/a", 1))


PONG = encode_frame(Kind.PONG, b"")
CROWD = 200
FOLLOWING = {
    "tcp": [HELLO, encode_subscription(Kind.SUBSCRIBE, ["/crowd/"])],
    "websocket": [upgrade(), text({"type": "subscribe", "prefixes": ["/crowd/"]})],
    "events": [b"GET /v1/events?prefix=/crowd/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"],
}
"""What a client says that follows, by what it speaks."""


class Crowd(pretend.Stage):
    def __init__(self) -> None:
        super().__init__()
        self.transports: list[PretendTransport] = []

    def connect(self, make: Callable[[Server], Connection] = over_tcp) -> Connection:
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


def _websocket(server: Server) -> Connection:
    return websocket_connection(server, QueueLimits(), loopback=True)


@pytest.fixture
async def crowd() -> Crowd:
    return Crowd()


async def test_all_that_subscribe_have_one_share_together(crowd: Crowd) -> None:
    clients = [crowd.client() for _ in range(CROWD)]
    core = crowd.server.core
    for number, client in enumerate(clients):
        client.data_received(encode_subscription(Kind.SUBSCRIBE, [f"/{number}/{n}" for n in range(10)]))
    most = crowd.most_in_a_turn(lambda: core.statistics().routing.subscriptions - 1, 10 * CROWD)
    assert most < CHANGES_PER_TURN + 10
    assert not len(crowd.server.changes)
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


async def test_messages_of_many_topics_do_not_hold_up_the_others(crowd: Crowd) -> None:
    frames = [encode_frame(Kind.MESSAGES, b"", key=b"/%d" % number) for number in range(8_000)]
    crowd.client().data_received(b"".join(frames))
    assert crowd.most_in_a_turn(lambda: crowd.core.routes.misses, len(frames)) <= 2 * TURN_EVENTS


async def test_all_that_say_hello_have_one_share_together(crowd: Crowd) -> None:
    clients = [crowd.connect() for _ in range(CROWD)]
    for client in clients:
        client.data_received(HELLO)
    assert crowd.most_in_a_turn(lambda: len(crowd.server.core.handlers) - 1, CROWD) <= CHANGES_PER_TURN // 10


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
    core = crowd.server.core
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


async def test_whoever_goes_before_it_was_let_in(crowd: Crowd) -> None:
    clients = [crowd.connect() for _ in range(CROWD)]
    for client in clients:
        client.data_received(HELLO + encode_subscription(Kind.SUBSCRIBE, ["/a"]) + publication("/a", 1))
    for transport in crowd.transports:
        transport.abort()
    crowd.play()
    assert not crowd.server.connections
    assert len(crowd.server.core.handlers) == 1
    assert len(crowd.outlet.values) < CROWD // 2
    assert crowd.server.failed_connections == 0


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
    assert len(crowd.server.core.late) == 0
    publisher.data_received(publication("/crowd/a", 2))
    quiet.data_received(publication("/quiet", 3))
    assert crowd.outlet.values == [1, 2, 3]
    assert crowd.server.core.late
    crowd.play()
    assert all(len(one.far.incoming) == 2 for one in followers)


SORRY = encode_close(CloseCode.INTERNAL_ERROR, "internal error of the hub")


class Pair(pretend.Stage):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = self.client(), self.client()


@pytest.fixture
async def pair() -> Pair:
    return Pair()


def fail(*_: object) -> Any:
    raise ZeroDivisionError("a bug " + "x" * 1000)


class Broken:
    def __init__(self, connection: Connection, part: str) -> None:
        self._whole = connection.conversation
        self._part = part
        connection.conversation = cast("Any", self)

    def __getattr__(self, name: str) -> Any:
        return fail if name == self._part else getattr(self._whole, name)


def break_reading(pair: Pair) -> None:
    Broken(pair.one, "act")
    pair.one.data_received(publication("/a", 1) + encode_subscription(Kind.SUBSCRIBE, ["/"], 1))


def break_writing(pair: Pair) -> None:
    handler = pair.one.handler
    assert handler is not None
    pair.server.core.subscribe(handler, ["/b"])
    Broken(pair.one, "render")
    pair.other.data_received(publication("/b", 1))


def break_looking(pair: Pair) -> None:
    Broken(pair.one, "ping")
    pair.one.check(2000.0)


@pytest.mark.parametrize("how", [break_reading, break_writing, break_looking])
async def test_a_bug_ends_one_connection(pair: Pair, how: Callable[[Pair], None]) -> None:
    with structlog.testing.capture_logs() as logs:
        how(pair)
    assert pair.told(pair.one).endswith(SORRY)
    assert pair.server.failed_connections == 1
    (line,) = [line for line in logs if line["log_level"] == "error"]
    assert line["error"].startswith("ZeroDivisionError: a bug x")
    pair.other.data_received(publication("/a", 2))
    assert pair.outlet.values[-1] == 2
    assert not pair.told(pair.other).endswith(SORRY)


def test_the_line_is_bounded() -> None:
    try:
        fail()
    except ZeroDivisionError as error:
        fields = describe(error, b"\xff" * 1_000_000)
    assert len(str(fields["error"])) == SHOWN_CHARACTERS
    assert fields["read_bytes"] == 1_000_000
    assert fields["read"] == "ff" * SHOWN_BYTES
    assert "test_turns.py" in str(fields["at"])


# What is still asked of a connection that is over: nothing is said or done, and nothing goes wrong.


LATE: dict[str, Callable[[Connection], object]] = {
    "frames": lambda one: one.write([b"late"]),
    "answers": lambda one: one.write_outgoing(),
    "answers after the turn": lambda one: one.write_later(),
    "messages": lambda one: one.send([Batch.of("/a", [1])]),
    "replies": lambda one: one.post([Reply(0, 0, b"")]),
    "a gap": lambda one: one.send_gap(1),
    "the rest": lambda one: one.write_on(),
    "an overrun": lambda one: one.close(CloseCode.OVERFLOW, "late"),
    "an end": lambda one: one.end(CloseCode.GOING_AWAY, "late"),
    "the hub stops": lambda one: one.drain(),
    "another look": lambda one: one.look_in(0.0),
    "its proof": lambda one: one.proof_left_s(),
    "its place": lambda one: one.leave(),
    "its turn": lambda one: one.take_turn(5),
    "whoever has dialled gives up": lambda one: one.abandon(),
}


@pytest.mark.parametrize("late", LATE.values(), ids=LATE)
def test_what_comes_too_late(pair: Pair, late: Callable[[Connection], object]) -> None:
    one = pair.one
    far = one.transport.far  # type: ignore[attr-defined]
    one.connection_lost(None)
    for _ in range(3):
        pair.loop.play_turn()
    assert one.conversation is ENDED
    said, reason = list(far.incoming), one.reason
    late(one)
    for _ in range(3):
        pair.loop.play_turn()
    assert (list(far.incoming), one.reason) == (said, reason)
    assert one.due_s == -1
    assert pair.server.failed_connections == 0
