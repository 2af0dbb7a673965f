"""Handlers: writing, losing and ending; requests and replies among messages; and users who may hold little."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from hub.errors import CloseCode
from hub.handlers.counters import HandlerStatistics
from hub.handlers.delivery import Role
from hub.handlers.handler import Handler
from hub.handlers.waiting import ITEM_OVERHEAD_BYTES, LINK_WRITE_BYTES, WRITE_LIMIT_BYTES
from hub.limits import Overflow, QueueLimits
from hub.messages.batch import Batch
from hub.messages.request_frame import Reply
from hub.quotas import FREE_BYTES, Quotas, Resource
from tests.hub.fakes import ROOMY, Bench, FakeOutlet, Shape, handler_of, numbers_of, opaque_frame, shapes
from tests.hub.fakes import values_of as values_in
from tests.hub.requests.party import reply, values_of

KIB = 1024


# Writing.


def test_a_large_turn_is_written_early() -> None:
    bench = Bench()
    for _ in range(8):
        bench.offer(Shape(((1, False),), padding=64 * KIB))
        assert bench.handler._pending_bytes < WRITE_LIMIT_BYTES
    assert bench.outlet.writes == 2
    assert bench.dirty == 1
    bench.check_end()


def test_a_link_is_written_in_small_pieces_of_its_queue() -> None:
    """News of the mesh and requests are written between them."""
    outlet = FakeOutlet()
    handler = handler_of(outlet, role=Role.LINK)
    handler.pause()
    batch = Batch.of("/a", [bytes(LINK_WRITE_BYTES // 4)])
    for _ in range(20):
        handler.offer(batch)
    handler.resume()
    assert outlet.batches == [batch] * 20
    assert outlet.writes >= 20 // 5


def test_resuming_from_within_every_write_does_not_nest() -> None:
    bench = Bench()
    bench.handler.pause()
    for _ in range(600):
        bench.offer(Shape(((1, False),), padding=WRITE_LIMIT_BYTES))

    def blink() -> None:
        bench.handler.pause()
        bench.handler.resume()

    bench.outlet.act = blink
    bench.handler.resume()
    assert len(bench.outlet.batches) == 600
    bench.check_end()


# Losing.


@pytest.mark.parametrize("overflow", Overflow)
def test_a_gap_of_what_was_lost_elsewhere(overflow: Overflow) -> None:
    """It is told behind what was offered; where the oldest of what waits go first, in front; and not counted."""
    outlet = FakeOutlet()
    handler = handler_of(outlet, overflow=overflow)
    handler.offer(Batch.of("/a", [1]))
    handler.tell_gap(3)
    assert outlet.told[1:] == [3]
    handler.pause()
    handler.offer(Batch.of("/a", [2]))
    handler.tell_gap(4)
    handler.tell_gap(1)
    assert len(outlet.told) == 2
    handler.resume()
    gap, batch = outlet.told[2:] if overflow is Overflow.DROP_OLDEST else outlet.told[:1:-1]
    assert gap == 5
    assert isinstance(batch, Batch)
    assert handler.dropped_messages == 0
    handler.pause()
    handler.tell_gap(6)
    handler.resume()
    assert outlet.told[4:] == [6]
    handler.shut()
    handler.tell_gap(7)
    assert outlet.told[5:] == []


def test_losses_that_show_when_the_queue_is_taken_are_counted() -> None:
    bench = Bench(messages=5)
    bench.handler.pause()
    bench.handler.offer(Batch(opaque_frame(5), 5))
    bench.handler.offer(Shape(((1, False),)).batch(5))
    assert (bench.drops, bench.handler.dropped_messages) == (1, 1)
    bench.handler.resume()
    assert (bench.drops, bench.handler.dropped_messages) == (2, 5)
    assert bench.handler.delivered_messages == 1
    assert bench.outlet.told[0] == 5
    assert numbers_of(bench.outlet.batches) == [5]


def test_what_has_no_form_for_this_outlet_is_told_and_counted() -> None:
    bench = Bench()
    bench.outlet.act = lambda: bench.handler.lose(2) if not bench.outlet.gaps else None
    bench.offer(3)
    bench.flush()
    assert (bench.outlet.gaps, bench.drops) == ([2], 1)
    assert (bench.handler.delivered_messages, bench.handler.dropped_messages) == (1, 2)


# Ending.


@pytest.mark.parametrize("paused", [False, True])
def test_closing_throws_away_what_waits(paused: bool) -> None:  # noqa: FBT001
    bench = Bench()
    bench.offer(2)
    bench.flush()
    if paused:
        bench.handler.pause()
    bench.offer(3)
    bench.handler.close(CloseCode.GOING_AWAY, "the hub stops")
    bench.handler.close(CloseCode.DONE, "again")
    assert bench.outlet.closed == [(1001, "the hub stops")]
    bench.handler.resume()
    bench.flush()
    bench.offer(1)
    bench.flush()
    assert not bench.handler.writable
    assert numbers_of(bench.outlet.batches) == [0, 1]
    seen = bench.handler.statistics()
    assert (seen.delivered_messages, seen.queued_messages, seen.dropped_messages) == (2, 0, 0)


def test_shutting_from_within_a_write() -> None:
    bench = Bench(messages=3)
    bench.handler.pause()
    for _ in range(4):
        bench.offer(Shape(((1, False),), padding=WRITE_LIMIT_BYTES))
    bench.outlet.act = lambda: bench.handler.shut() if bench.outlet.batches else None
    bench.handler.resume()
    assert numbers_of(bench.outlet.batches) == [1]
    assert bench.handler.dropped_messages == 1
    assert bench.handler.delivered_messages == 1


# Looking at it.


def test_statistics_name_everything() -> None:
    outlet = FakeOutlet()
    limits = QueueLimits(2, 10_000, Overflow.DROP_NEWEST)
    handler = Handler(outlet, role=Role.LINK, limits=limits, name="hub-2", address="tcp://127.0.0.1:7400")
    assert repr(handler) == "<Handler 0 link 'hub-2'>"
    assert repr(handler_of()) == "<Handler 0 client 'nowhere'>"
    handler.prefixes = {f"/{number}": 1 for number in range(9)}
    handler.published_messages = 11
    handler.offer(Batch.of("/a", [1, 2]))
    handler.flush()
    handler.pause()
    queued = Batch.of("/a", [3])
    handler.offer(queued)
    handler.offer(Batch.of("/a", [4, 5]))
    assert outlet.values == [1, 2]
    assert handler.statistics() == HandlerStatistics(
        id=0,
        role="link",
        name="hub-2",
        address="tcp://127.0.0.1:7400",
        prefixes=9,
        sample=("/0", "/1", "/2", "/3", "/4"),
        published_messages=11,
        delivered_messages=2,
        delivered_bytes=Batch.of("/a", [1, 2]).frames_bytes,
        queued_messages=2,
        queued_bytes=queued.size_bytes + Batch.of("/a", [4]).size_bytes + 4,
        dropped_messages=1,
        overflow="drop-newest",
        paused=True,
    )


class HandlerAndOutlet(RuleBasedStateMachine):
    @initialize(
        messages=st.sampled_from((1, 5, 30, ROOMY.messages)),
        limit_bytes=st.sampled_from((300, 2000, ROOMY.bytes)),
        overflow=st.sampled_from((Overflow.DROP_OLDEST, Overflow.DROP_NEWEST)),
    )
    def start(self, messages: int, limit_bytes: int, overflow: Overflow) -> None:
        self.bench = Bench(messages, limit_bytes, overflow)
        self.lossless = messages == ROOMY.messages and limit_bytes == ROOMY.bytes
        self.plan: list[Callable[[], object]] = []
        self.bench.outlet.act = self.act
        self.replies = 0
        self.posted: list[int] = []

    def act(self) -> None:
        if self.plan:
            self.plan.pop()()

    @property
    def said(self) -> list[int]:
        return [value for item in self.bench.outlet.told if isinstance(item, Reply) for value in values_of(item)]

    @rule(actions=st.lists(st.sampled_from(("nothing", "pause", "resume", "offer", "offer much", "post")), min_size=1))
    def plan_actions(self, actions: list[str]) -> None:
        bench = self.bench
        doing: dict[str, Callable[[], object]] = {
            "post": self.post_reply,
            "nothing": lambda: None,
            "pause": bench.handler.pause,
            "resume": bench.handler.resume,
            "offer": bench.offer,
            "offer much": lambda: bench.offer(Shape(((1, True), (2, True)), padding=WRITE_LIMIT_BYTES // 2)),
        }
        self.plan.extend(doing[action] for action in actions)

    @rule(shape=shapes)
    def offer(self, shape: Shape) -> None:
        self.bench.offer(shape)

    @rule(shape=shapes)
    def offer_two(self, shape: Shape) -> None:
        self.bench.offer(shape)
        self.bench.offer(shape)

    @rule(keep=st.booleans())
    def post_reply(self, *, keep: bool = False) -> None:
        self.replies += 1
        self.posted.append(self.replies)
        if not self.bench.handler.post(reply(0, self.replies), keep=keep):
            assert not keep
            self.posted.remove(self.replies)

    @rule()
    def flush(self) -> None:
        self.bench.flush()
        if self.bench.handler.writable:
            assert not self.bench.pending_messages

    @rule()
    def pause(self) -> None:
        self.bench.handler.pause()
        assert not self.bench.handler.writable

    @rule()
    def resume(self) -> None:
        self.bench.handler.resume()

    @invariant()
    def consistent(self) -> None:
        self.bench.check()
        assert self.said == self.posted[: len(self.said)]
        assert not (self.lossless and self.bench.handler.dropped_messages)
        assert (self.bench.drops > 0) == (self.bench.handler.dropped_messages > 0)

    def teardown(self) -> None:
        self.plan.clear()
        self.bench.check_end()
        assert self.said == self.posted
        assert self.bench.handler.statistics().queued_bytes == 0


TestHandlerAndOutlet = HandlerAndOutlet.TestCase


def asking_handler(**limits: Any) -> tuple[Handler, FakeOutlet]:
    outlet = FakeOutlet()
    return handler_of(outlet, **limits), outlet


def said(outlet: FakeOutlet) -> list[Any]:
    told = [item for item in outlet.told if not isinstance(item, int)]
    each = [values_in([item]) if isinstance(item, Batch) else values_of(item) for item in told]
    return [value for values in each for value in values]


def message(value: Any) -> Batch:
    return Batch.of("/t", [value])


def test_the_order_of_a_turn() -> None:
    """Requests and replies stand where they were said, or before the messages that wait."""
    handler, outlet = asking_handler()
    for step in (message(1), reply(0, -1), reply(1, -2), message(2), message(3), reply(2, -3)):
        handler.offer(step) if isinstance(step, Batch) else handler.post(step)
    handler.flush()
    assert said(outlet) == [1, -1, -2, 2, 3, -3]
    assert outlet.writes == 4
    outlet.told.clear()
    handler.pause()
    for step in (message(1), reply(3, -1), message(2), reply(4, -2)):
        handler.offer(step) if isinstance(step, Batch) else handler.post(step)
    statistics = handler.statistics()
    assert statistics.queued_messages == 2
    assert statistics.queued_bytes > 2 * ITEM_OVERHEAD_BYTES
    handler.resume()
    assert said(outlet) == [-1, -2, 1, 2]


def test_what_waits_is_bounded() -> None:
    handler, outlet = asking_handler(messages=3)
    handler.pause()
    some = (reply(0, -1, -2), reply(2, -3, -4), reply(2, -3), reply(3, -4))
    assert [handler.post(item) for item in some] == [True, False, True, False]
    assert handler.post(reply(3, -5), keep=True)
    handler.resume()
    assert said(outlet) == [-1, -2, -3, -5]
    handler, _ = asking_handler(limit_bytes=1000)
    handler.pause()
    assert [handler.post(Reply(0, 0, bytes(size))) for size in (1000, 500, 500)] == [False, True, False]


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


PART = 4 * 1024 * 1024
LARGE = Shape(((1, False),), padding=FREE_BYTES)  # One message that is more than what is always free


def charged(handler: Handler) -> Quotas:
    quotas = Quotas({Resource.QUEUED_BYTES: 2 * PART})
    handler.share = quotas.join("alice", frozenset())
    return quotas


def fill(handler: Handler) -> None:
    assert handler.share is not None
    usage = handler.share[Resource.QUEUED_BYTES]
    usage.add(usage.room)


def test_a_message_that_there_is_no_room_for_is_lost_and_told() -> None:
    bench = Bench()
    quotas = charged(bench.handler)
    fill(bench.handler)
    for shape in (2, LARGE, 2):
        bench.offer(shape)
        bench.flush()
    assert [item.messages if isinstance(item, Batch) else item for item in bench.outlet.told] == [2, 1, 2]
    assert bench.outlet.gaps == [1]
    assert bench.drops == 1
    assert quotas.statistics()["queued_bytes"].refused_total >= 1
    bench.check_end()


def test_a_policy_to_disconnect_disconnects() -> None:
    bench = Bench(overflow=Overflow.DISCONNECT)
    charged(bench.handler)
    fill(bench.handler)
    bench.offer(1)
    bench.offer(LARGE)
    bench.flush()
    ((code, text),) = bench.outlet.closed
    assert code == CloseCode.OVERFLOW
    assert text.startswith("queues of alice full (")


def test_a_request_that_there_is_no_room_for_is_not_taken() -> None:
    handler, outlet = asking_handler()
    charged(handler)
    fill(handler)
    assert handler.post(reply(9, 1))
    assert not handler.post(reply(9, bytes(PART)))
    assert handler.post(reply(9, 2))
    handler.flush()
    assert said(outlet) == [1, 2]
    handler.offer(message(3))
    assert handler.post(reply(9, bytes(PART)), keep=True)
    handler.flush()
    assert said(outlet) == [1, 2, bytes(PART), 3]


def test_what_is_free_shrinks_with_the_connections_of_a_user() -> None:
    quotas = Quotas({Resource.QUEUED_BYTES: 2 * PART, Resource.CONNECTIONS: 1 << 20})
    free = [quotas.join("alice", frozenset()).free_bytes() for _ in range(1000)]
    assert (free[0], free[-1]) == (FREE_BYTES, 1024)
    assert sum(free) < PART
