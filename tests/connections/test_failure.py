"""A bug in one conversation ends its connection; what is still asked of one that is over does nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
import structlog

from hub.batch import Batch
from hub.errors import CloseCode
from hub.request_frame import Reply
from peers.connections.connection import SHOWN_BYTES, SHOWN_CHARACTERS, Connection, describe
from peers.connections.conversation import ENDED
from peers.wire.control import encode_close, encode_subscription
from peers.wire.kinds import Kind
from tests.connections import pretend
from tests.hubs.raw_client import publication

SORRY = encode_close(CloseCode.INTERNAL_ERROR, "internal error of the hub")


class Stage(pretend.Stage):
    """With two clients."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = self.client(), self.client()


@pytest.fixture
async def stage() -> Stage:
    return Stage()


def fail(*_: object) -> Any:
    raise ZeroDivisionError("a bug " + "x" * 1000)


class Broken:
    """A conversation of which one part does not work."""

    def __init__(self, connection: Connection, part: str) -> None:
        self._whole = connection.conversation
        self._part = part
        connection.conversation = cast("Any", self)

    def __getattr__(self, name: str) -> Any:
        return fail if name == self._part else getattr(self._whole, name)


def break_reading(stage: Stage) -> None:
    Broken(stage.one, "act")
    stage.one.data_received(publication("/a", 1) + encode_subscription(Kind.SUBSCRIBE, ["/"], 1))


def break_writing(stage: Stage) -> None:
    handler = stage.one.handler
    assert handler is not None
    stage.node.core.subscribe(handler, ["/b"])
    Broken(stage.one, "render")
    stage.other.data_received(publication("/b", 1))


def break_looking(stage: Stage) -> None:
    Broken(stage.one, "ping")
    stage.one.check(2000.0)


@pytest.mark.parametrize("how", [break_reading, break_writing, break_looking])
async def test_a_bug_ends_one_connection(stage: Stage, how: Callable[[Stage], None]) -> None:
    with structlog.testing.capture_logs() as logs:
        how(stage)
    assert stage.told(stage.one).endswith(SORRY)
    assert stage.node.failed_connections == 1
    (line,) = [line for line in logs if line["log_level"] == "error"]
    assert line["error"].startswith("ZeroDivisionError: a bug x")
    stage.other.data_received(publication("/a", 2))
    assert stage.outlet.values[-1] == 2
    assert not stage.told(stage.other).endswith(SORRY)


def test_the_line_is_bounded() -> None:
    try:
        fail()
    except ZeroDivisionError as error:
        fields = describe(error, b"\xff" * 1_000_000)
    assert len(str(fields["error"])) == SHOWN_CHARACTERS
    assert fields["read_bytes"] == 1_000_000
    assert fields["read"] == "ff" * SHOWN_BYTES
    assert "test_failure.py" in str(fields["at"])


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
    "whoever has dialled gives up": lambda one: one.abandon(),
}


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
