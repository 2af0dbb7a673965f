"""Requests and replies in a handler: their order among messages, where they wait, and for how many there is room."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from hub.batch import Batch, decode_values
from hub.delivery import Role
from hub.handler import ANY_FRAME_BYTES, Handler
from hub.overflow import QueueLimits
from hub.request_frame import Item, Reply
from hub.waiting import ITEM_OVERHEAD_BYTES, WRITE_LIMIT_BYTES
from tests.hub.fakes import FakeOutlet, handler_of
from tests.hub.requests.party import reply, values_of


class Teller(FakeOutlet):
    def __init__(self) -> None:
        super().__init__()
        self.said: list[int] = []

    def send(self, batches: list[Batch]) -> None:
        self.writes += 1
        for batch in batches:
            self.said += [value for part in batch.parts() for value in decode_values(part)]
            self.act()

    def send_gap(self, lost_messages: int) -> None:
        """Take note of a gap: as nothing that was said."""

    def post(self, items: list[Item]) -> None:
        assert items, "a write of nothing"
        self.writes += 1
        for item in items:
            self.said += [value for value in values_of(item) if isinstance(value, int)]
            self.act()


def asking_handler(
    messages: int = 1000, limit_bytes: int = 1 << 30, frame_limit_bytes: int = ANY_FRAME_BYTES
) -> tuple[Handler, Teller]:
    outlet = Teller()
    limits = QueueLimits(messages=messages, bytes=limit_bytes)
    handler = Handler(outlet, role=Role.CLIENT, limits=limits, poster=outlet, frame_limit_bytes=frame_limit_bytes)
    return handler, outlet


def message(value: Any) -> Batch:
    return Batch.of("/t", [value])


def test_the_order_of_a_turn() -> None:
    handler, outlet = asking_handler()
    handler.offer(message(1))
    handler.post(reply(0, -1))
    handler.post(reply(1, -2))
    handler.offer(message(2))
    handler.offer(message(3))
    handler.post(reply(2, -3))
    handler.flush()
    assert outlet.said == [1, -1, -2, 2, 3, -3]
    assert outlet.writes == 4


def test_requests_go_before_messages_that_wait() -> None:
    handler, outlet = asking_handler()
    handler.pause()
    handler.offer(message(1))
    handler.post(reply(0, -1))
    handler.offer(message(2))
    handler.post(reply(1, -2))
    statistics = handler.statistics()
    assert statistics.queued_messages == 2
    assert statistics.queued_bytes > 2 * ITEM_OVERHEAD_BYTES
    handler.resume()
    assert outlet.said == [-1, -2, 1, 2]
    handler.post(reply(2, -3))
    handler.offer(message(3))
    handler.flush()
    assert outlet.said == [-1, -2, 1, 2, -3, 3]


def test_what_waits_is_bounded_in_requests() -> None:
    handler, outlet = asking_handler(messages=3)
    handler.pause()
    assert handler.post(reply(0, -1, -2))
    assert not handler.post(reply(2, -3, -4))
    assert handler.post(reply(2, -3))
    assert not handler.post(reply(3, -4))
    assert handler.post(reply(3, -5), keep=True)
    handler.resume()
    assert outlet.said == [-1, -2, -3, -5]


def test_what_waits_is_bounded_in_bytes() -> None:
    handler, _ = asking_handler(limit_bytes=1000)
    handler.pause()
    assert not handler.post(Reply(0, 0, bytes(1000)))
    assert handler.post(Reply(0, 0, bytes(500)))
    assert not handler.post(Reply(0, 0, bytes(500)))


@pytest.mark.parametrize("paused", [False, True])
def test_what_the_far_side_does_not_take(paused: bool) -> None:  # noqa: FBT001 -- a parameter
    handler, _ = asking_handler(frame_limit_bytes=100)
    if paused:
        handler.pause()
    head_bytes = 5
    fitting, large = Reply(0, 0, bytes(100 - head_bytes)), Reply(0, 0, bytes(101 - head_bytes))
    assert (handler.takes(fitting), handler.post(fitting)) == (True, True)
    assert (handler.takes(large), handler.post(large)) == (False, False)
    assert handler.post(large, keep=True)


def test_whoever_cannot_post() -> None:
    handler = handler_of()
    assert not handler.post(reply(0, -1), keep=True)
    handler.pause()
    assert not handler.post(reply(0, -1), keep=True)


def test_a_closed_handler() -> None:
    handler, outlet = asking_handler()
    handler.post(reply(0, -1))
    handler.shut()
    handler.flush()
    assert not handler.post(reply(0, -2), keep=True)
    assert not outlet.said


def test_a_pause_within_what_waits() -> None:
    handler, outlet = asking_handler()
    handler.pause()
    handler.post(Reply(0, 0, b"\xff" + b"\xc0" * WRITE_LIMIT_BYTES))
    handler.post(reply(1, -2))
    outlet.act = handler.pause
    handler.resume()
    assert outlet.said == [-1]
    handler.post(reply(2, -3))
    handler.offer(message(1))
    outlet.act = lambda: None
    handler.resume()
    assert outlet.said == [-1, -2, -3, 1]


class LaneAndQueue(RuleBasedStateMachine):
    @initialize(messages=st.sampled_from((2, 1000)))
    def start(self, messages: int) -> None:
        self.handler, self.outlet = asking_handler(messages)
        self.outlet.act = self.act
        self.plan: list[Callable[[], object]] = []
        self.offered = 0
        self.posted: list[int] = []
        self.numbers = 0

    def act(self) -> None:
        if self.plan:
            self.plan.pop()()

    @rule(names=st.lists(st.sampled_from(("nothing", "pause", "resume", "offer", "post")), min_size=1))
    def plan_actions(self, names: list[str]) -> None:
        doing: dict[str, Callable[[], object]] = {
            "nothing": lambda: None,
            "pause": self.handler.pause,
            "resume": self.handler.resume,
            "offer": self.offer,
            "post": lambda: self.post(keep=False),
        }
        self.plan.extend(doing[name] for name in names)

    @rule()
    def offer(self) -> None:
        self.offered += 1
        self.handler.offer(message(self.offered))

    @rule(keep=st.booleans())
    def post(self, *, keep: bool) -> None:
        self.numbers -= 1
        taken = self.handler.post(reply(0, self.numbers), keep=keep)
        assert taken or not keep
        if taken:
            self.posted.append(self.numbers)

    @rule()
    def flush(self) -> None:
        self.handler.flush()

    @rule()
    def pause(self) -> None:
        self.handler.pause()

    @rule()
    def resume(self) -> None:
        self.handler.resume()

    @invariant()
    def in_order(self) -> None:
        said = self.outlet.said
        messages = [number for number in said if number > 0]
        assert messages == sorted(messages)
        replies = [number for number in said if number < 0]
        assert replies == self.posted[: len(replies)]

    def teardown(self) -> None:
        self.plan.clear()
        self.handler.resume()
        self.handler.flush()
        self.in_order()
        assert len([number for number in self.outlet.said if number < 0]) == len(self.posted)
        assert self.handler.statistics().queued_bytes == 0
        assert self.handler._direct


TestLaneAndQueue = LaneAndQueue.TestCase
