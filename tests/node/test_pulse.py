"""A look at the whole hub once a second: what it counts, and that it takes a part of a turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hub.batch import Batch
from hub.core import Core
from hub.delivery import Role
from hub.handler import Handler
from hub.memory import Memory
from hub.overflow import Overflow, QueueLimits
from peers.node import pulse as pulse_module
from peers.node.pulse import Pulse


class Connection:
    def __init__(self, handler: Handler | None = None) -> None:
        self.read_bytes = 0
        self.handler = handler


class Sink:
    def send(self, batches: Any) -> None:
        """Take batches."""

    def send_gap(self, messages: int) -> None:
        """Take a gap."""

    def close(self, *_: Any) -> None:
        """Be closed."""


class Source:
    def __init__(self) -> None:
        self.core = Core(lambda: None)
        self.memory = Memory()
        self.received_bytes_before = 0
        self.draining = False
        self.journal_trouble = ""
        self.log_trouble = ""
        self.connections: dict[Any, str] = {}
        self.turns: list[Callable[[], object]] = []
        self.pulse = Pulse(self, self.turns.append)

    def join(self, role: Role = Role.CLIENT, prefix: str = "", name: str = "n") -> Connection:
        limits = QueueLimits(messages=2, bytes=1 << 20, overflow=Overflow.DROP_OLDEST)
        handler = Handler(Sink(), role=role, limits=limits, name=name)
        self.core.attach(handler)
        if prefix:
            self.core.subscribe(handler, [prefix])
        connection = Connection(handler)
        if role is not Role.LOCAL:
            self.connections[connection] = ""
        return connection

    def leave(self, connection: Connection) -> None:
        assert connection.handler is not None
        self.core.detach(connection.handler, "left")
        self.received_bytes_before += self.connections.pop(connection, None) is not None and connection.read_bytes
        for _ in range(10):
            self.core.flush()

    def beat(self, now_s: float, lag_s: float = 0.0) -> int:
        self.pulse.beat(now_s, lag_s)
        turns = 0
        while self.turns:
            turns += 1
            self.turns.pop(0)()
        return turns

    def newest(self, name: str) -> float | None:
        value: float | None = self.pulse.history.behind()["figures"][name][-1]
        return value


def publish(source: Source, connection: Connection, topic: str, messages: int) -> None:
    assert connection.handler is not None
    for number in range(messages):
        batch = Batch.of(topic, [number])
        source.core.publish(connection.handler, source.core.routes.find(topic), batch)
    source.core.flush()


def test_rates_are_what_was_done_between_two_looks() -> None:
    source = Source()
    publisher, reader = source.join(), source.join(prefix="/a")
    publish(source, publisher, "/a/b", 7)
    source.beat(100.0)
    assert source.pulse.history.behind()["figures"]["in_messages"] == []
    publish(source, publisher, "/a/b", 10)
    publisher.read_bytes += 500
    source.beat(102.0, 0.25)
    assert (source.newest("in_messages"), source.newest("out_messages"), source.newest("in_bytes")) == (5, 5, 250)
    assert (source.newest("lag_s"), source.newest("connections"), source.newest("dropped_messages")) == (0.25, 2, 0)
    assert reader.handler is not None
    assert source.newest("out_bytes") == reader.handler.delivered_bytes * 10 / 17 / 2


def test_who_has_left_is_in_the_sums() -> None:
    source = Source()
    publisher, other = source.join(), source.join()
    publish(source, publisher, "/a", 100)
    publisher.read_bytes = 1000
    source.beat(1.0)
    publish(source, publisher, "/a", 3)
    publisher.read_bytes += 30
    source.leave(publisher)
    publish(source, other, "/a", 2)
    source.beat(2.0)
    assert (source.newest("in_messages"), source.newest("in_bytes"), source.newest("connections")) == (5, 30, 1)
    source.beat(3.0)
    assert (source.newest("in_messages"), source.newest("in_bytes")) == (0, 0)


@pytest.mark.parametrize("is_link", [True, False])
def test_what_stays_within_the_hub_does_not_count(*, is_link: bool) -> None:
    source = Source()
    inner = source.join(Role.LINK if is_link else Role.LOCAL, prefix="/")
    if is_link:
        source.pulse.leave_out(inner)
    publisher = source.join()
    source.beat(1.0)
    publish(source, publisher, "/a", 4)
    publish(source, inner, "/a", 4)
    inner.read_bytes = 100
    source.beat(2.0)
    assert (source.newest("in_messages"), source.newest("out_messages"), source.newest("in_bytes")) == (4, 0, 0)
    assert (source.newest("connections"), source.pulse.state.subscribers) == (1, 0)
    source.leave(inner)
    source.beat(3.0)
    assert (source.newest("in_messages"), source.newest("out_messages"), source.newest("in_bytes")) == (0, 0, 0)


def test_who_is_slow() -> None:
    """Whoever has something waiting at two looks in a row, or has lost something within a minute."""
    source = Source()
    publisher, reader = source.join(), source.join(prefix="/a", name="sensor-7")
    source.join(prefix="/b")
    assert reader.handler is not None
    reader.handler.pause()
    publish(source, publisher, "/a", 1)
    source.beat(1.0)
    assert source.pulse.state.slow == 0
    source.beat(2.0)
    assert (source.pulse.state.slow, source.pulse.state.slow_ids) == (1, (reader.handler.id,))
    assert (source.newest("queued_messages"), (source.newest("queued_bytes") or 0) > 0) == (1, True)
    publish(source, publisher, "/a", 5)
    for event in source.core.report_drops():
        source.pulse.lose(2, event.value)
    reader.handler.resume()
    source.beat(3.0)
    assert source.newest("dropped_messages") == 4
    assert source.newest("out_messages") == 2
    assert source.pulse.state.fields()["text"] == (
        "1 of 2 subscribers is slow, 4 messages were dropped in the last minute, all by `sensor-7`."
    )
    (lost,) = source.pulse.losses.last()
    assert (lost.second, lost.id, lost.label, lost.messages, lost.why) == (
        2, reader.handler.id, "sensor-7", 4, "drop-oldest",
    )  # fmt: skip
    source.beat(70.0)
    assert source.pulse.state.fields()["text"] == "All 2 subscribers keep up, nothing was dropped in the last minute."


def test_thousands_are_looked_at_in_several_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulse_module, "STEP", 10)
    source = Source()
    some = [source.join() for _ in range(35)]
    source.beat(1.0)
    for one in some:
        publish(source, one, "/a", 1)
    source.pulse.beat(2.0, 0.0)
    source.pulse.beat(2.5, 0.0)
    assert len(source.turns) == 1
    source.leave(some[30])
    turns = 0
    while source.turns:
        turns += 1
        source.turns.pop(0)()
    assert turns == 8, "four parts of connections, four of handlers"
    assert (source.newest("in_messages"), source.newest("connections")) == (35, 35)
    source.beat(3.0)
    assert (source.newest("in_messages"), source.newest("connections")) == (0, 34)


def test_every_five_seconds_each_connection_and_topic_is_marked() -> None:
    source = Source()
    publisher, inner = source.join(), source.join(role=Role.LINK)
    local = source.join(role=Role.LOCAL)
    source.pulse.leave_out(inner)
    source.core.tick(9.0)
    for second in range(9, 16):
        source.beat(float(second))
        source.core.tick(float(second))
        publish(source, publisher, "/a/b", 10)
    assert publisher.handler is not None
    found = source.pulse.recent.rings.behind(publisher.handler.id)
    assert found is not None
    assert found["figures"]["in_messages"][-2:] == [10, 10]
    assert [source.pulse.recent.rings.behind(one.handler.id) is None for one in (inner, local) if one.handler] == [
        False,
        True,
    ]
    topic = source.pulse.topics.behind("/a/b")
    assert topic is not None
    assert topic["figures"]["in_messages"][-1] == pytest.approx(10, rel=0.2)
