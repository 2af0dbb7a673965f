"""The process that copies: what it tells, how it goes on after failures, and that it may be killed at any time."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from structlog.testing import capture_logs

from hub.errors import JournalUnavailableError
from hub.settings.settings import JournalSettings, Limits
from peers.journal.journal import Journal
from peers.journal.tier import tiering as module
from peers.journal.tier.copier import Copier, copy
from peers.journal.tier.tiering import Order, Progress, Tiering, Told
from tests.hub.fakes import Turn
from tests.hubs.eventually import eventually
from tests.journal.tier.made import journal


@pytest.fixture
def order(tmp_path: Path) -> Order:
    (tmp_path / "tier").mkdir()
    return Order(str(journal(tmp_path / "journal", 40, 30, 25)), str(tmp_path / "tier"))


class Pauses:
    def __init__(self, *due: object) -> None:
        self.waited: list[float] = []
        self._due = list(due)

    def __call__(self, _: socket.socket, wait_s: float) -> bool:
        self.waited.append(wait_s)
        if not self._due:
            return True
        act = self._due.pop(0)
        if callable(act):
            act()
        return False


def told(order: Order, *due: object) -> tuple[list[Told], list[float]]:
    ours, theirs = socket.socketpair()
    pauses = Pauses(*due)
    with ours, theirs:
        copy(order, theirs, pauses)
        theirs.close()
        data = b"".join(iter(lambda: ours.recv(65536), b""))
    return [msgspec.json.decode(line, type=Told) for line in data.splitlines()], pauses.waited


def test_it_tells_how_far_it_is(order: Order) -> None:
    lines, waited = told(order, 1, 2, 3)
    assert waited == [0, 0, 1, 1]
    (line,) = lines
    assert line.progress == Progress(0, 95, 1, line.progress.size_bytes)
    assert (line.failures, line.error) == (0, "")
    assert line.progress.size_bytes > 0


def test_a_tier_that_is_away_is_tried_again(order: Order, tmp_path: Path) -> None:
    away, back = tmp_path / "away", tmp_path / "tier"
    back.rename(away)
    lines, waited = told(order, *[None] * 8, lambda: away.rename(back), None)
    assert waited == [0, 1, 2, 4, 8, 16, 32, 60, 60, 0, 1]
    assert [line.failures for line in lines] == [*range(1, 9), 8]
    assert all("no such folder" in line.error for line in lines[:-1])
    assert (lines[-1].progress.next, lines[-1].error) == (95, "")


def test_what_nobody_foresaw(order: Order, monkeypatch: pytest.MonkeyPatch) -> None:
    original = Copier.step

    def step(_: Copier, __: int) -> bool:
        raise ValueError("two\nlines")

    monkeypatch.setattr(Copier, "step", step)
    lines, waited = told(order, None, lambda: monkeypatch.setattr(Copier, "step", original), None)
    assert (waited, [line.failures for line in lines]) == ([0, 1, 0, 1], [1, 1])
    assert lines[0].error.startswith("ValueError at ")
    assert lines[0].error.endswith(": two lines")
    assert (lines[-1].progress.next, lines[-1].error) == (95, "")


# The hub's side: it is started, started again, and never waited for.


class Bench:
    def __init__(self, folder: Path) -> None:
        self.tier = folder / "tier"
        self.copied: list[int] = []
        order = Order(str(journal(folder / "journal", 40, 30, 25)), str(self.tier))
        self.tiering = Tiering(order, self.copied.append)
        self.now_s = asyncio.get_running_loop().time()

    def tick(self, later_s: float = 0.0) -> None:
        self.now_s += later_s
        self.tiering.tick(self.now_s)

    @property
    def pid(self) -> int:
        copier = self.tiering._copier
        assert copier is not None
        return copier.pid


@pytest.fixture
async def bench(tmp_path: Path, uncaught: None) -> AsyncIterator[Bench]:  # noqa: ARG001 -- looks afterwards
    bench = Bench(tmp_path)
    yield bench
    await bench.tiering.stop()
    assert bench.tiering._copier is None


async def test_trouble_is_one_line_and_its_end_another(bench: Bench) -> None:
    with capture_logs() as lines:
        bench.tick()
        await eventually(lambda: bench.tiering.statistics.failures_total >= 2)
        assert "no such folder" in bench.tiering.statistics.error
        assert bench.copied == []
        bench.tier.mkdir()
        await eventually(lambda: bench.copied == [95])
    events = [line["event"] for line in lines]
    assert events == ["the journal is not copied to its tier", "the journal is copied to its tier again"]


async def test_a_process_that_dies_is_replaced(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(11, "Resource temporarily unavailable")

    bench.tier.mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(module, "start_process", fail)
        bench.tick()
    assert "could not be started" in bench.tiering.statistics.error
    bench.tick()
    assert bench.tiering._copier is None
    bench.tick(3600.0)
    bench.tick(-3600.0)
    await eventually(lambda: bench.copied == [95])
    statistics = bench.tiering.statistics
    progress = statistics.progress
    assert (progress.first, progress.next, progress.files, statistics.error) == (0, 95, 1, "")
    with capture_logs() as lines:
        os.kill(bench.pid, signal.SIGKILL)
        await eventually(lambda: bench.tiering.statistics.restarts_total == 1)
        assert f"code {-signal.SIGKILL}" in bench.tiering.statistics.error
        bench.tick(0.0)
        assert bench.tiering._copier is None
        bench.tick(3600.0)
        await eventually(lambda: not bench.tiering.statistics.error)
    assert len(lines) == 2
    assert bench.copied[-1] == 95
    pid = bench.pid
    await bench.tiering.stop()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    bench.tick(3600.0)
    assert bench.tiering._copier is None


@pytest.mark.parametrize("tier", ["gs://bucket/x", "s3://key:secret@bucket"])
async def test_a_tier_that_cannot_be(tmp_path: Path, tier: str) -> None:
    settings = JournalSettings(path=str(tmp_path / "journal"), tier=tier)
    turn = Turn()
    with pytest.raises(JournalUnavailableError, match=r"a folder or s3|keys do not belong"):
        Journal(turn.core, settings, Limits())
    assert not (tmp_path / "journal").exists()
