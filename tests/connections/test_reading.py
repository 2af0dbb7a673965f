"""A connection is not read while there is any reason for that, whichever of them goes first."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

import pytest

from hub.frame import encode_frame
from hub.quotas.quotas import RateLimits
from peers.connections.connection import NOTHING, Connection
from peers.wire.kinds import Kind
from tests.connections.test_pacing import Stage
from tests.hubs.raw_client import publication

End = Callable[[], object]


def paced(stage: Stage, connection: Connection) -> End:
    connection.data_received(publication("/a", 1) * 11)
    return timer_of(stage)


def unanswered(_stage: Stage, connection: Connection) -> End:
    connection.pause_writing()
    connection.data_received(encode_frame(Kind.PING, b""))
    return connection.resume_writing


def feeding(stage: Stage, connection: Connection) -> End:
    ends: list[End] = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(stage.node.journal, "wait_room", ends.append)
        connection.hold_back()
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
