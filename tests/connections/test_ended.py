"""What is still asked of a connection that is over: nothing is said or done, and nothing goes wrong."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hub.batch import Batch
from hub.errors import CloseCode
from hub.request_frame import Reply
from peers.connections.connection import Connection
from peers.connections.conversation import ENDED
from tests.connections.test_failure import Stage

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
    "whoever has dialled gives up": lambda one: one.abandon(),
}


@pytest.fixture
async def stage() -> Stage:
    return Stage()


@pytest.mark.parametrize("late", LATE.values(), ids=LATE)
def test_what_comes_too_late(stage: Stage, late: Callable[[Connection], object]) -> None:
    one = stage.one
    far = one.transport.far  # type: ignore[attr-defined]
    one.connection_lost(None)
    for _ in range(3):
        stage.loop.play_turn()
    assert one.conversation is ENDED
    said, reason = list(far.incoming), one.reason
    late(one)
    for _ in range(3):
        stage.loop.play_turn()
    assert (list(far.incoming), one.reason) == (said, reason)
    assert one.due_s == -1
    assert stage.node.failed_connections == 0
