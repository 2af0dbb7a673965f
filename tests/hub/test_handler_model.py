"""Handlers: order, loss and counters, whatever the outlet does and whenever it does it."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from hub.overflow import Overflow
from hub.waiting import WRITE_LIMIT_BYTES
from tests.hub.fakes import ROOMY, Bench, Shape, shapes


class HandlerAndOutlet(RuleBasedStateMachine):
    @initialize(
        messages=st.sampled_from((1, 5, 30, ROOMY.messages)),
        limit_bytes=st.sampled_from((300, 2000, ROOMY.bytes)),
        overflow=st.sampled_from((Overflow.DROP_OLDEST, Overflow.DROP_NEWEST)),
    )
    def start(self, messages: int, limit_bytes: int, overflow: Overflow) -> None:
        self.bench = Bench(messages, limit_bytes, overflow)
        self.lossless = messages == ROOMY.messages and limit_bytes == ROOMY.bytes
        self.plan: list[Callable[[], None]] = []
        self.bench.outlet.act = self.act

    def act(self) -> None:
        if self.plan:
            self.plan.pop()()

    @rule(actions=st.lists(st.sampled_from(("nothing", "pause", "resume", "offer", "offer much")), min_size=1))
    def plan_actions(self, actions: list[str]) -> None:
        bench = self.bench
        doing: dict[str, Callable[[], None]] = {
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
        assert not (self.lossless and self.bench.handler.dropped_messages)
        assert (self.bench.drops > 0) == (self.bench.handler.dropped_messages > 0)

    def teardown(self) -> None:
        self.bench.check_end()


TestHandlerAndOutlet = HandlerAndOutlet.TestCase
