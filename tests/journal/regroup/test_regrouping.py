"""The hub's side of the process that lays segments anew: it is started when there is something to do, and again."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from structlog.testing import capture_logs

from peers.journal import side_process
from peers.journal.regroup.process import Order
from peers.journal.regrouping import Regrouping
from peers.journal.segments.laying import Laid, take_place
from tests.hubs.eventually import eventually
from tests.journal.files import everything, flip, segments
from tests.journal.regroup.made import forms, journal, left_over

pytestmark = pytest.mark.usefixtures("uncaught")


class Bench:
    """A journal with three sealed segments, who gives those that are laid their places, and the time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.sealed = 3
        self.takes = True
        order = msgspec.json.encode(Order(str(path), least_bytes=1))
        self.regrouping = Regrouping(order, lambda: self.sealed, self.take)
        self.now_s = asyncio.get_running_loop().time()

    def take(self, laid: Laid) -> None:
        """Give a segment its place."""
        if self.takes:
            take_place(str(self.path), laid)

    def tick(self, later_s: float = 0.0) -> None:
        """Let time pass."""
        self.now_s += later_s
        self.regrouping.tick(self.now_s)

    @property
    def is_at_rest(self) -> bool:
        """Whether no process runs."""
        return self.regrouping._process is None

    @property
    def pid(self) -> int:
        """Of the process."""
        assert self.regrouping._process is not None
        return self.regrouping._process.pid


@pytest.fixture
async def bench(path: Path) -> AsyncIterator[Bench]:
    """One that is stopped at the end, with no process left."""
    bench = Bench(path)
    yield bench
    await bench.regrouping.stop()
    assert bench.is_at_rest
    assert left_over(path) == []


async def test_it_works_when_there_is_something_to_do(bench: Bench) -> None:
    """And no process stays when there is nothing; all is counted, over all processes."""
    before = everything(bench.path)
    bench.tick()
    await eventually(lambda: bench.is_at_rest)
    statistics = bench.regrouping.statistics()
    assert (statistics.laid_total, statistics.skipped_total, statistics.error) == (3, 0, "")
    assert statistics.before_bytes_total > statistics.after_bytes_total > 0
    assert forms(bench.path) == [1, 1, 1, 0]
    assert everything(bench.path) == before
    bench.tick(3600.0)
    assert bench.is_at_rest
    bench.sealed += 1
    bench.tick()
    assert not bench.is_at_rest
    await eventually(lambda: bench.is_at_rest)
    assert bench.regrouping.statistics() == statistics


async def test_a_process_that_dies_is_replaced(bench: Bench) -> None:
    """Not at once; that is one line, and its end another."""
    bench.takes = False
    with capture_logs() as lines:
        bench.tick()
        await eventually(lambda: left_over(bench.path) != [])
        os.kill(bench.pid, signal.SIGKILL)
        await eventually(lambda: bench.regrouping.statistics().restarts_total == 1)
        assert f"code {-signal.SIGKILL}" in bench.regrouping.statistics().error
        bench.tick()
        assert bench.is_at_rest
        bench.takes = True
        bench.tick(3600.0)
        await eventually(lambda: bench.regrouping.statistics().laid_total == 3)
    events = [line["event"] for line in lines]
    assert events == ["segments of the journal are not laid anew", "segments of the journal are laid anew again"]
    assert bench.regrouping.statistics().error == ""


async def test_a_process_that_cannot_be_started(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is trouble like any other, and tried again."""

    def fail(*_: object) -> None:
        raise OSError(11, "Resource temporarily unavailable")

    with monkeypatch.context() as patch:
        patch.setattr(side_process, "_start", fail)
        bench.tick()
    assert "could not be started" in bench.regrouping.statistics().error
    bench.tick()
    assert bench.is_at_rest
    bench.tick(3600.0)
    await eventually(lambda: bench.regrouping.statistics().laid_total == 3)


async def test_damage_is_no_trouble(tmp_path: Path) -> None:
    """It is counted, and the segment left as it is: who reads there is told."""
    path = journal(tmp_path / "journal")
    file = segments(path)[1]
    flip(file, 5_000)
    bench = Bench(path)
    bench.tick()
    await eventually(lambda: bench.is_at_rest)
    statistics = bench.regrouping.statistics()
    assert (statistics.laid_total, statistics.skipped_total, statistics.error) == (2, 1, "")
    await bench.regrouping.stop()


async def test_a_hub_that_stops_meanwhile(bench: Bench) -> None:
    """The process is ended, and leaves nothing."""
    bench.takes = False
    bench.tick()
    pid = bench.pid
    await eventually(lambda: left_over(bench.path) != [])
    await bench.regrouping.stop()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    bench.tick(3600.0)
    assert bench.is_at_rest
