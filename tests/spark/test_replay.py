"""`replay`: an archive back to a hub, with a real hub and Spark."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from hub.batch import encode_value
from hub.errors import ConnectionLostError, UsageError
from peers.spark.progress import JobProgress
from peers.spark.replaying import publishing, windows
from peers.spark.replaying.pace import FullSpeed, Rate, Recorded
from peers.spark.replaying.replay import Replayed, ReplayOrder, replay
from peers.spark.selection import Selection
from peers.spark.session import Job
from tests.spark.archives import NOON_US, Archived, write_archive
from tests.spark.hubs import HubWithJournal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOON = datetime.fromtimestamp(NOON_US // 1_000_000, UTC)
COUNT = 60


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[HubWithJournal]:
    """A hub of one test, with a journal to see what came."""
    with HubWithJournal(tmp_path / "journal") as hub:
        yield hub


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """An archive of 60 messages, 100 ms apart, in several roots and batches, the later batch first."""
    messages = [
        Archived(10 * number, NOON_US + 100_000 * number, f"/{'abc'[number % 3]}/x", encode_value(number))
        for number in range(COUNT)
    ]
    for batch in (1, 0):
        write_archive(tmp_path / "archive", messages[batch * 30 : batch * 30 + 30], batch)
    return tmp_path / "archive"


Run = Callable[..., Replayed]


@pytest.fixture
def run(spark: SparkSession, hub: HubWithJournal, path: Path) -> Run:
    """Replay the archive."""

    def run(
        every: Callable[..., object] = lambda *_: None, stop: threading.Event | None = None, **order: Any
    ) -> Replayed:
        given = {"url": hub.url, "path": str(path), **order}
        return replay(Job(spark, JobProgress(shown=False)), ReplayOrder(**given), every, stop)

    return run


def test_messages_come_in_order(hub: HubWithJournal, run: Run) -> None:
    """As they were published, whatever root and batch they are in."""
    done = run()
    assert hub.records() == [(f"/{'abc'[number % 3]}/x", number) for number in range(COUNT)]
    assert (done.published.messages, done.published.left_out, done.rejected, done.ending) == (COUNT, 0, 0, "")
    assert (done.extent.messages, done.extent.first, done.extent.last) == (COUNT, 0, 590)
    assert done.published.next == 591
    assert done.published.bytes == done.extent.bytes == COUNT


@pytest.mark.parametrize(("limit", "value"), [("WINDOW_MESSAGES", 7), ("WINDOW_BYTES", 16)])
def test_large_archives_are_read_in_windows(
    hub: HubWithJournal, run: Run, monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    """Bounded by messages and by bytes; the order stays."""
    monkeypatch.setattr(windows, limit, value)
    monkeypatch.setattr(publishing, "_TOLD_MESSAGES", 4)
    told: list[int] = []
    run(lambda published, _: told.append(published.next))
    assert [number for _, number in hub.records()] == list(range(COUNT))
    assert told == sorted(told)
    assert len(told) >= COUNT // 7


def test_a_part_of_it(hub: HubWithJournal, run: Run) -> None:
    """By topics, by time, and from an offset on."""
    selection = Selection(("/a/", "/b"), NOON + timedelta(seconds=1), NOON + timedelta(seconds=2))
    run(selection=selection, from_offset=130)
    assert [number for _, number in hub.records()] == [13, 15, 16, 18, 19]


def test_nothing_is_no_error(hub: HubWithJournal, run: Run) -> None:
    """Where nothing is selected."""
    done = run(from_offset=1000)
    assert (done.published.messages, done.ending) == (0, "")
    assert hub.records() == []


def test_the_recorded_pace(hub: HubWithJournal, run: Run) -> None:
    """Divided by a factor: 5.9 s in a fifth of it, which the hub's own times show."""
    done = run(pace=Recorded(5))
    with hub.client() as client:
        times = [record.time_us for record in client.read()]
    assert done.elapsed_s >= 5.9 / 5
    assert times[-1] - times[0] >= (5.9 / 5 - 0.1) * 1_000_000
    assert np.all(np.diff(times) >= 0)


def test_a_rate(hub: HubWithJournal, run: Run) -> None:
    """So many a second."""
    assert run(pace=Rate(200)).elapsed_s >= (COUNT - 1) / 200
    assert len(hub.records()) == COUNT


def test_what_is_no_msgpack_is_left_out(hub: HubWithJournal, spark: SparkSession, tmp_path: Path) -> None:
    """And counted; it spoils nothing else."""
    values = [encode_value(0), b"\xc1", b"", encode_value(1)]
    archive = write_archive(
        tmp_path / "bad", [Archived(number, NOON_US, "/a", value) for number, value in enumerate(values)]
    )
    order = ReplayOrder(url=hub.url, path=str(archive), pace=FullSpeed())
    done = replay(Job(spark, JobProgress(shown=False)), order)
    assert hub.records() == [("/a", 0), ("/a", 1)]
    assert done.published.left_out == 2


def test_what_no_hub_takes_is_counted(run: Run, path: Path, tmp_path: Path) -> None:
    """Too large a value, or a topic that is the hub's own; the others come."""
    refused = [Archived(5, NOON_US, "/a", encode_value("x" * 100_000)), Archived(6, NOON_US, "$hub/x", encode_value(1))]
    write_archive(path, refused, 7)
    with HubWithJournal(tmp_path / "small", "--limits-frame-bytes", "65536") as small:
        done = run(url=small.url)
        assert (done.published.refused, done.published.messages, done.ending) == (2, COUNT, "")
        assert len(small.records()) == COUNT


def test_a_hub_that_goes_away(hub: HubWithJournal, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The replay ends and tells from where to go on; nothing comes twice."""
    monkeypatch.setattr(publishing, "_TOLD_MESSAGES", 10)

    def every(published: publishing.Published, _: object) -> None:
        if published.next > 200:
            hub.stop()

    done = run(every, pace=Rate(50))
    assert done.ending
    assert 200 < done.published.next < 591
    hub.start()
    run(from_offset=done.published.next)
    numbers = [number for _, number in hub.records()]
    assert numbers == sorted(set(numbers))
    assert numbers[-1] == COUNT - 1
    assert len(numbers) > COUNT / 2


def test_it_can_be_stopped(run: Run) -> None:
    """With the account of what was done; also in a long pause."""
    stop = threading.Event()
    done = run(lambda *_: stop.set(), stop, pace=Rate(0.01))
    assert done.ending == "stopped"
    assert 0 < done.published.next < 591


def test_refusals(run: Run) -> None:
    """No archive, or no hub."""
    with pytest.raises(UsageError, match="there is no such archive"):
        run(path="/nowhere")
    with pytest.raises(ConnectionLostError, match="nothing listens"):
        run(url="tcp://127.0.0.1:1")
