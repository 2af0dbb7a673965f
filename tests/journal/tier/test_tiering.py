"""The hub's side of the copying process: it is started, started again, and never waited for."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from structlog.testing import capture_logs

from peers.journal import tiering as module
from peers.journal.tier.progress import Order
from peers.journal.tiering import Tiering
from tests.hubs.eventually import eventually
from tests.journal.tier.made import journal

pytestmark = pytest.mark.usefixtures("uncaught")


class Bench:
    def __init__(self, folder: Path) -> None:
        self.tier = folder / "tier"
        self.copied: list[int] = []
        order = msgspec.json.encode(Order(str(journal(folder / "journal", 40, 30, 25)), str(self.tier)))
        self.tiering = Tiering(order, str(self.tier), self.copied.append)
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
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    await bench.tiering.stop()
    assert bench.tiering._copier is None


async def test_it_tells_what_is_copied(bench: Bench) -> None:
    bench.tier.mkdir()
    bench.tick()
    bench.tick()
    await eventually(lambda: bench.copied == [95])
    statistics = bench.tiering.statistics()
    progress = statistics.progress
    assert (progress.first, progress.next, progress.files, statistics.error) == (0, 95, 1, "")


async def test_trouble_is_one_line_and_its_end_another(bench: Bench) -> None:
    with capture_logs() as lines:
        bench.tick()
        await eventually(lambda: bench.tiering.statistics().failures_total >= 2)
        assert "no such folder" in bench.tiering.statistics().error
        assert bench.copied == []
        bench.tier.mkdir()
        await eventually(lambda: bench.copied == [95])
    events = [line["event"] for line in lines]
    assert events == ["the journal is not copied to its tier", "the journal is copied to its tier again"]


async def test_a_process_that_dies_is_replaced(bench: Bench) -> None:
    bench.tier.mkdir()
    bench.tick()
    await eventually(lambda: bench.copied == [95])
    with capture_logs() as lines:
        os.kill(bench.pid, signal.SIGKILL)
        await eventually(lambda: bench.tiering.statistics().restarts_total == 1)
        assert f"code {-signal.SIGKILL}" in bench.tiering.statistics().error
        bench.tick(0.0)
        assert bench.tiering._copier is None
        bench.tick(3600.0)
        await eventually(lambda: not bench.tiering.statistics().error)
    assert len(lines) == 2
    assert bench.copied[-1] == 95


async def test_a_process_that_cannot_be_started(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(11, "Resource temporarily unavailable")

    with monkeypatch.context() as patch:
        patch.setattr(module, "_start", fail)
        bench.tick()
    assert "could not be started" in bench.tiering.statistics().error
    bench.tier.mkdir()
    bench.tick()
    assert bench.tiering._copier is None
    bench.tick(3600.0)
    await eventually(lambda: bench.copied == [95])


async def test_nothing_is_started_behind_the_end(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    await bench.tiering.stop()
    bench.tick(3600.0)
    assert bench.tiering._copier is None


async def test_a_hub_that_stops_at_once(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.tick()
    pid = bench.pid
    await bench.tiering.stop()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
