"""What a hub knows of itself: what it does, how long that takes, how much memory it holds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from hub.core import Core
from hub.handlers.counters import Histogram
from hub.handlers.delivery import Role
from hub.handlers.handler import Handler
from hub.limits import CoreLimits, QueueLimits
from hub.mesh.announcement import Announcement
from hub.messages.batch import Batch
from hub.scheduling.memory import Memory
from hub.settings.settings import Limits, Settings
from peers.journal.remote_journals import NoJournal
from peers.server import memory as module
from peers.server import ticker as pulse_module
from peers.server.memory import MemoryWatch, available_bytes, resident_bytes
from peers.server.reading import WaitingTime
from peers.server.server import KEYS_LIMIT, MINUTE_S, LogStatistics, LogThrottle, Server, core_limits
from peers.server.ticker import Ticker
from tests.descriptors import no_descriptor_left
from tests.hub.fakes import handler_of
from tests.hubs.clock import ShiftedLoop

# A look at the whole hub once a second; it takes a part of a turn.


class Connection:
    def __init__(self, handler: Handler | None = None) -> None:
        self.read_bytes = 0
        self.handler = handler


class Source:
    def __init__(self) -> None:
        self.core = Core()
        self.memory = Memory()
        self.received_bytes_before = 0
        self.draining = False
        self.journal = NoJournal()
        self.log_statistics = LogStatistics
        self.connections: dict[Any, str] = {}
        self.turns: list[Callable[[], object]] = []
        self.ticker = Ticker(self, self.turns.append)

    def join(self, role: Role = Role.CLIENT, prefix: str = "", name: str = "n") -> Connection:
        handler = handler_of(role=role, messages=2, name=name)
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
        self.ticker.beat(now_s, lag_s)
        turns = 0
        while self.turns:
            turns += 1
            self.turns.pop(0)()
        return turns

    def newest(self, name: str) -> float | None:
        value: float | None = self.ticker.history.behind()["figures"][name][-1]
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
    assert source.ticker.history.behind()["figures"]["in_messages"] == []
    publish(source, publisher, "/a/b", 10)
    publisher.read_bytes += 500
    source.beat(102.0, 0.25)
    assert (source.newest("in_messages"), source.newest("out_messages"), source.newest("in_bytes")) == (5, 5, 250)
    assert (source.newest("lag_s"), source.newest("connections"), source.newest("dropped_messages")) == (0.25, 2, 0)
    assert reader.handler is not None
    assert source.newest("out_bytes") == reader.handler.delivered_bytes * 10 / 17 / 2


@pytest.mark.parametrize("is_link", [True, False])
def test_what_stays_within_the_hub_does_not_count(*, is_link: bool) -> None:
    source = Source()
    inner = source.join(Role.LINK if is_link else Role.LOCAL, prefix="/")
    if is_link:
        source.ticker.leave_out(inner)
    publisher = source.join()
    source.beat(1.0)
    publish(source, publisher, "/a", 4)
    publish(source, inner, "/a", 4)
    inner.read_bytes = 100
    source.beat(2.0)
    assert (source.newest("in_messages"), source.newest("out_messages"), source.newest("in_bytes")) == (4, 0, 0)
    assert (source.newest("connections"), source.ticker.state.subscribers) == (1, 0)
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
    assert source.ticker.state.slow == 0
    source.beat(2.0)
    assert (source.ticker.state.slow, source.ticker.state.slow_ids) == (1, (reader.handler.id,))
    assert (source.newest("queued_messages"), (source.newest("queued_bytes") or 0) > 0) == (1, True)
    publish(source, publisher, "/a", 5)
    for event in source.core.report_drops():
        source.ticker.lose(2, event.value)
    reader.handler.resume()
    source.beat(3.0)
    assert source.newest("dropped_messages") == 4
    assert source.newest("out_messages") == 2
    assert source.ticker.state.fields()["text"] == (
        "1 of 2 subscribers is slow, 4 messages were dropped in the last minute, all by `sensor-7`."
    )
    (lost,) = source.ticker.losses.last()
    assert (lost.second, lost.id, lost.label, lost.messages, lost.why) == (
        2, reader.handler.id, "sensor-7", 4, "drop-oldest",
    )  # fmt: skip
    source.beat(70.0)
    assert source.ticker.state.fields()["text"] == "All 2 subscribers keep up, nothing was dropped in the last minute."


def test_thousands_are_looked_at_in_several_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulse_module, "STEP", 10)
    source = Source()
    some = [source.join() for _ in range(35)]
    source.beat(1.0)
    for one in some:
        publish(source, one, "/a", 1)
    source.ticker.beat(2.0, 0.0)
    source.ticker.beat(2.5, 0.0)
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
    source.ticker.leave_out(inner)
    source.core.tick(9.0)
    for second in range(9, 16):
        source.beat(float(second))
        source.core.tick(float(second))
        publish(source, publisher, "/a/b", 10)
    assert publisher.handler is not None
    found = source.ticker.recent.rings.behind(publisher.handler.id)
    assert found is not None
    assert found["figures"]["in_messages"][-2:] == [10, 10]
    assert [source.ticker.recent.rings.behind(one.handler.id) is None for one in (inner, local) if one.handler] == [
        False,
        True,
    ]
    topic = source.ticker.topics.behind("/a/b")
    assert topic is not None
    assert topic["figures"]["in_messages"][-1] == pytest.approx(10, rel=0.2)


def test_how_long_messages_wait_in_a_queue_that_is_always_behind() -> None:
    times, waiting = Histogram((1.0, 10.0, 100.0)), WaitingTime(0.0)
    for delivered, queued, now_s, observed in (
        (1, 3, 1.0, (1, 1.0)),
        (3, 6, 2.0, (1, 1.0)),
        (4, 5, 7.0, (2, 7.0)),
        (9, 0, 8.0, (3, 8.0)),
    ):
        handler: Any = SimpleNamespace(
            delivered_messages=delivered, queued_messages=queued, dropped_messages=0, limits=QueueLimits()
        )
        assert waiting.look(handler, 1, now_s, times) is (queued > 0)
        statistics = times.statistics()
        assert (sum(statistics.counts), statistics.total) == observed


# How much memory there is, and giving back what is free.


MIB = 1024 * 1024


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    write(tmp_path, "proc/meminfo", "MemTotal:        8388608 kB\nMemFree:   1 kB\n")
    return tmp_path


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def test_the_tightest_group_of_version_2_counts(machine: Path) -> None:
    write(machine, "proc/self/cgroup", "0::/outer/inner\n")
    write(machine, "sys/fs/cgroup/outer/inner/memory.max", "max\n")
    assert available_bytes(machine) == 8192 * MIB
    write(machine, "sys/fs/cgroup/outer/memory.max", f"{512 * MIB}\n")
    assert available_bytes(machine) == 512 * MIB
    write(machine, "sys/fs/cgroup/outer/inner/memory.max", f"{256 * MIB}\n")
    assert available_bytes(machine) == 256 * MIB


def test_what_is_resident_is_known_without_a_descriptor() -> None:
    resident_bytes()
    with no_descriptor_left():
        assert resident_bytes() > MIB


class Watched:
    """A hub's memory, of which the test says how much is resident, and who gives it back."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.resident = 100 * MIB
        self.asked: list[int] = []
        self.ticks = 0
        monkeypatch.setattr(module, "give_back", lambda: self.asked.append(self.ticks))
        memory = Memory(1 << 40, lambda: self.resident)
        self.queues, self._watch = memory.account("queues"), MemoryWatch(memory)

    async def tick(self, freed: int = 0) -> None:
        self._watch.tick()
        self.queues.charge(-freed)
        if self._watch._giving_back is not None:
            await self._watch._giving_back
            await asyncio.sleep(0)
        self.ticks += 1


@pytest.fixture
async def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(monkeypatch)


@pytest.mark.parametrize(("resident", "freed_meanwhile", "asked"), [(300, 0, [2]), (350, 100, [1, 2])])
async def test_malloc_is_asked_when_much_is_held_that_nobody_holds(
    watched: Watched, resident: int, freed_meanwhile: int, asked: list[int]
) -> None:
    await watched.tick()
    watched.queues.charge(200 * MIB)
    watched.resident = resident * MIB
    await watched.tick(freed_meanwhile * MIB)
    watched.queues.charge(0 if freed_meanwhile else -200 * MIB)
    for _ in range(3):
        await watched.tick()
    assert watched.asked == asked


async def test_malloc_is_asked_again_for_what_it_could_not_give_back(watched: Watched) -> None:
    for tick in range(100):
        watched.resident = 300 * MIB if 0 < tick < 90 else 100 * MIB
        await watched.tick()
    assert watched.asked == [1, 11, 31, 71]


# Of many events of one kind, one a minute is logged.


def test_one_line_a_minute_stands_for_all() -> None:
    lines = LogThrottle()
    assert [lines.add("a", now_s) for now_s in (5.0, 5.1, 64.9)] == [1, 0, 0]
    assert lines.add("b", 64.9) == 1
    assert lines.add("a", 65.0) == 3
    assert lines.add("a", 65.1) == 0


def test_keys_are_bounded() -> None:
    lines = LogThrottle()
    for key in range(KEYS_LIMIT + 1):
        assert lines.add(key, 0.0) == 1
    assert lines.add(1, 1.0) == 0
    assert lines.add(0, 1.0) == 1


# What the connections of one hub share.


@pytest.fixture
async def server() -> Server:
    return Server(Settings(limits=Limits(connections=2, frame_bytes=5000)), name="north")


async def test_limits_reach_the_core() -> None:
    server = Server(Settings(limits=Limits(routes=7, prefixes_per_client=3)))
    assert server.core.routes.limit == 7
    assert core_limits(Settings(limits=Limits(prefixes_per_client=3)), 1 << 40).client.prefixes == 3
    assert core_limits(Settings(), 1 << 40) == CoreLimits()
    assert core_limits(Settings(), 256 << 20).mesh.prefixes_total == 32_768


async def test_another_hub_with_the_same_id_is_logged_once_a_minute() -> None:
    server, clock = Server(Settings(), name="north"), ShiftedLoop()
    server.loop = clock  # type: ignore[assignment]
    link = handler_of(role=Role.LINK)
    server.core.attach(link)
    server.core.link(link, b"\x01" * 16, lambda: None)
    with capture_logs() as lines:
        for ahead_s in (0.0, 1.0, MINUTE_S + 1, 1.0):
            clock.ahead_s += ahead_s
            server.core.mesh.hear(link, Announcement(server.id, 0, 1000, "twin", ()))
    told = [line["hub"] for line in lines if line["event"].startswith("another hub has the id of this one")]
    assert told == [server.id.hex()] * 2
    assert server.core.mesh.statistics().clashes_total == 4
