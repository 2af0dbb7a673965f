"""A rate of a user: his connections are not read on until he may publish more, and nothing is dropped."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from types import SimpleNamespace
from typing import Any

import pytest

from hub.handlers.handler import Handler
from hub.messages.frame import encode_frame
from hub.policy.language import read_policy
from hub.quotas import QuotaLimits, RateLimits, Resource, SetLimits
from peers.connections.connection import NOTHING, Connection
from peers.wire.control import encode_close
from peers.wire.kinds import Kind
from tests.connections import pretend
from tests.connections.pretend import HELLO, PretendTransport
from tests.hubs.raw_client import publication

RIGHTS = read_policy({}, "policy").rights


class Stage(pretend.Stage):
    def __init__(self, **rates: RateLimits) -> None:
        super().__init__()
        limits = QuotaLimits(users={user: SetLimits(rate=rate) for user, rate in rates.items()})
        self.core.quotas.adopt(limits)

    def user(
        self, user: str, monkeypatch: pytest.MonkeyPatch, behind: bytes = b""
    ) -> tuple[Connection, PretendTransport]:
        attach = self.core.attach

        def attach_user(handler: Handler, *more: Any) -> None:
            handler.rights = RIGHTS(user, ("member",))
            attach(handler, *more)

        connection = self.connect()
        with monkeypatch.context() as patched:
            patched.setattr(self.core, "attach", attach_user)
            connection.data_received(HELLO + behind)
        return connection, self.transport_of(connection)


async def test_bytes_and_others(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(alice=RateLimits(bytes_per_s=1000))
    first, first_transport = stage.user("alice", monkeypatch)
    second, second_transport = stage.user("alice", monkeypatch)
    other, other_transport = stage.user("bob", monkeypatch)
    data = publication("/a", b"." * 2000)
    first.data_received(data)
    assert (first_transport.reading, second_transport.reading) == (False, True)
    second.data_received(data)
    other.data_received(data)
    assert (second_transport.reading, other_transport.reading) == (False, True)
    stage.loop.pass_s(2.0)
    assert not first_transport.reading, "what the second has read counts for the first"
    stage.loop.pass_s(4.0)
    assert first_transport.reading
    assert second_transport.reading


async def test_whoever_is_held_back_is_not_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(alice=RateLimits(bytes_per_s=1000))
    connection, transport = stage.user("alice", monkeypatch)
    data = publication("/a", b"." * 500_000)
    connection.data_received(data + data[:100_000])
    for _ in range(55):
        stage.loop.pass_s(10.0)
        connection.check(stage.loop.now_s)
    assert not transport.reading
    assert not transport.closing
    stage.loop.pass_s(100.0)
    assert transport.reading
    connection.data_received(data[100_000:])
    assert len(stage.outlet.values) == 2


async def test_connecting_anew_is_no_way_round(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(alice=RateLimits(messages_per_s=10))
    first, _ = stage.user("alice", monkeypatch)
    first.data_received(publication("/a", 1) * 30)
    first.transport.abort()
    stage.play()
    assert len(stage.core.quotas) == 0
    again, transport = stage.user("alice", monkeypatch, publication("/a", 2) * 20)
    again.data_received(publication("/a", 2))  # the loop had read it already
    stage.play()
    assert (len(stage.outlet.values), transport.reading) == (30, False)
    for _ in range(3):
        again.check(stage.loop.now_s)
    stage.loop.pass_s(1.9)
    assert len(stage.outlet.values) == 30
    stage.loop.pass_s(0.2)
    stage.play()
    assert stage.outlet.values[30:] == [2] * 21
    again.transport.abort()
    stage.play()
    third, _ = stage.user("alice", monkeypatch, publication("/a", 3))
    assert len(stage.outlet.values) == 51, "what was put off is counted when its connection is over"
    third.transport.abort()
    stage.play()
    assert not stage.server.connections
    assert not stage.loop.due


@pytest.mark.parametrize("is_lost", [False, True])
async def test_the_end_of_one_that_is_held_back(monkeypatch: pytest.MonkeyPatch, *, is_lost: bool) -> None:
    stage = Stage(alice=RateLimits(messages_per_s=1))
    connection, transport = stage.user("alice", monkeypatch)
    connection.data_received(publication("/a", 1) * 100)
    assert not transport.reading
    if is_lost:
        transport.abort()
        stage.play()
        assert not stage.core.quotas.largest(1)
        assert not stage.server.connections
    else:
        connection.close(4008, "queue full")
        assert transport.reading
        connection.data_received(encode_close(1000, ""))
    assert not stage.loop.due


End = Callable[[], object]


def paced(stage: Stage, connection: Connection) -> End:
    connection.data_received(publication("/a", 1) * 11)
    return timer_of(stage)


def unanswered(_stage: Stage, connection: Connection) -> End:
    connection.pause_writing()
    connection.data_received(encode_frame(Kind.PING, b""))
    return connection.resume_writing


def feeding(_stage: Stage, connection: Connection) -> End:
    ends: list[End] = []
    connection.hold_back(SimpleNamespace(wait_room=ends.append))  # type: ignore[arg-type]
    return ends.pop()


def waiting(_stage: Stage, connection: Connection) -> End:
    connection.hold(100.0)
    return connection.go_on


def barred(stage: Stage, connection: Connection) -> End:
    connection.bar(1.0)
    return timer_of(stage)


def timer_of(stage: Stage) -> End:
    timer = stage.loop.timers.pop()

    def end() -> None:
        stage.loop.now_s += 10.0
        timer.act()

    return end


REASONS = [paced, unanswered, feeding, waiting, barred]
"""In an order in which they can come: what is not read asks for nothing."""


@pytest.mark.parametrize(
    "pair", list(permutations(REASONS, 2)), ids=lambda pair: "-".join(one.__name__ for one in pair)
)
async def test_each_reason_goes_by_itself(
    pair: tuple[Callable[[Stage, Connection], End], ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(alice=RateLimits(messages_per_s=10))
    connection, transport = stage.user("alice", monkeypatch)
    ends = {reason: reason(stage, connection) for reason in REASONS if reason in pair}
    ends[pair[0]]()
    assert not transport.reading
    ends[pair[1]]()
    assert transport.reading
    assert connection.unread_for == NOTHING


async def test_one_connection_too_many_publishes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(alice=RateLimits(messages_per_s=10))
    limits = SetLimits({Resource.CONNECTIONS: 1}, RateLimits(messages_per_s=10))
    stage.core.quotas.adopt(QuotaLimits(users={"alice": limits}))
    stage.user("alice", monkeypatch)
    second, transport = stage.user("alice", monkeypatch, publication("/a", 1) * 100)
    stage.core.flush()
    stage.play()
    assert not stage.outlet.values
    assert second.reason.startswith("user alice has 1 connections, 1 more are too many")
    assert transport.reading, "so that it reads why"
