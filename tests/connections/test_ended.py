"""What is still asked of a connection that is over: nothing is said or done, and nothing goes wrong."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hub.batch import Batch
from hub.errors import CloseCode
from hub.request_frame import Reply
from peers.connections.connection import Connection
from peers.connections.ended import ENDED, OVER
from tests.connections.test_failure import Stage

LATE: dict[str, Callable[[Connection], object]] = {
    "frames": lambda one: one.writer.write([b"late"]),
    "answers": lambda one: one.writer.write_outgoing(),
    "answers after the turn": lambda one: one.writer.speak(),
    "messages": lambda one: one.writer.send([Batch.of("/a", [1])]),
    "replies": lambda one: one.writer.post([Reply(0, 0, b"")]),
    "a gap": lambda one: one.writer.send_gap(1),
    "the rest": lambda one: one.writer.write_on(),
    "an overrun": lambda one: one.writer.close(CloseCode.OVERFLOW, "late"),
    "an end": lambda one: one.end(CloseCode.GOING_AWAY, "late"),
    "the hub stops": lambda one: one.drain(),
    "the hub stops, for publishers": lambda one: one.drain_publisher(only=False),
    "another look": lambda one: one.watch.look_in(0.0),
    "its proof": lambda one: one.watch.proof_left_s(),
    "its place": lambda one: one.charging.leave(),
    "whoever has dialled gives up": lambda one: one.abandon(),
}


@pytest.fixture
async def stage() -> Stage:
    """A fresh one."""
    return Stage()


@pytest.mark.parametrize("late", LATE.values(), ids=LATE)
def test_what_comes_too_late(stage: Stage, late: Callable[[Connection], object]) -> None:
    """It changes nothing: neither what was said, nor the reason, nor what the hub has counted."""
    one = stage.one
    one.connection_lost(None)
    for _ in range(3):
        stage.loop.play_turn()
    parts = (one.writer, one.ending, one.watch, one.share, one.charging)
    assert all(part.connection is OVER for part in parts)
    assert one.conversation is ENDED
    said, reason = stage.told(one), one.reason
    late(one)
    for _ in range(3):
        stage.loop.play_turn()
    assert (stage.told(one), one.reason) == (said, reason)
    assert one.watch.due_s == -1
    assert stage.node.failed_connections == 0
