"""`replay`: an archive back to a hub, at a pace; with a real hub, without Spark."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hub.errors import ConnectionLostError, UsageError
from hub.messages.batch import encode_value
from peers.spark import replay as module
from peers.spark.archiving.folders import EVERYTHING, Selection
from peers.spark.connector.options import Access
from peers.spark.replay import Pace, Replay, replay
from tests.spark.archives import NOON_US, Archived, write_archive
from tests.spark.hubs import HubWithJournal

NOON = datetime.fromtimestamp(NOON_US // 1_000_000, UTC)
COUNT = 60


@pytest.fixture
def path(tmp_path: Path) -> Path:
    messages = [
        Archived(10 * number, NOON_US + 100_000 * number, f"/{'abc'[number % 3]}/x", encode_value(number))
        for number in range(COUNT)
    ]
    for batch in (1, 0):
        write_archive(tmp_path / "archive", messages[batch * 30 : batch * 30 + 30], batch)
    return tmp_path / "archive"


Run = Callable[..., Replay]


@pytest.fixture
def run(hub: HubWithJournal, path: Path) -> Run:
    def run(*, url: str = "", of: Path = path, selection: Selection = EVERYTHING, **more: Any) -> Replay:
        return replay(Access(url or hub.url), str(of), selection, **more)

    return run


def numbers(hub: HubWithJournal) -> list[int]:
    return [number for _, number in hub.records()]


def test_messages_come_in_order(hub: HubWithJournal, run: Run) -> None:
    done = run(from_offset=1000)
    assert (done.messages, done.ending, hub.records()) == (0, "", [])
    done = run()
    assert hub.records() == [(f"/{'abc'[number % 3]}/x", number) for number in range(COUNT)]
    assert (done.messages, done.bytes, done.skipped, done.rejected, done.ending) == (COUNT, COUNT, 0, 0, "")
    assert (done.first, done.last, done.next) == (0, 590, 591)
    selection = Selection(("/a/", "/b"), NOON + timedelta(seconds=1), NOON + timedelta(seconds=2))
    run(selection=selection, from_offset=130)
    assert numbers(hub)[COUNT:] == [13, 15, 16, 18, 19]


@pytest.mark.parametrize(("limit", "value"), [("_WINDOW_MESSAGES", 7), ("_WINDOW_BYTES", 1_000)])
def test_large_archives_are_read_in_windows(
    hub: HubWithJournal, run: Run, monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    monkeypatch.setattr(module, limit, value)
    monkeypatch.setattr(module, "_REPORTED_MESSAGES", 4)
    told: list[int] = []
    run(every=lambda done: told.append(done.next))
    assert numbers(hub) == list(range(COUNT))
    assert told == sorted(told)
    assert len(told) >= COUNT // 7


@pytest.mark.parametrize(("pace", "lasts_s"), [(Pace(speed=20), 5.9 / 20), (Pace(rate=200), (COUNT - 1) / 200)])
def test_a_pace(hub: HubWithJournal, run: Run, pace: Pace, lasts_s: float) -> None:
    assert run(pace=pace).elapsed_s >= lasts_s
    with hub.client() as client:
        times = [record.time_us for record in client.read()]
    assert len(times) == COUNT
    assert times[-1] - times[0] >= (lasts_s - 0.1) * 1_000_000
    assert np.all(np.diff(times) >= 0)


def test_what_no_hub_takes_is_counted(path: Path, run: Run, tmp_path: Path) -> None:
    """Values that are no MessagePack, values that are too large, and topics of the hub."""
    bad = [Archived(5, NOON_US, "/a", value) for value in (b"\xc1", b"", encode_value("x" * 100_000))]
    write_archive(path, [*bad, Archived(6, NOON_US, "$hub/x", encode_value(1))], 7)
    with HubWithJournal(tmp_path / "small", "--limits-frame-bytes", "65536") as small:
        done = run(url=small.url)
        assert (done.skipped, done.rejected, done.messages, done.ending) == (2, 2, COUNT, "")
        assert len(small.records()) == COUNT


def test_a_hub_that_goes_away(hub: HubWithJournal, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_REPORTED_MESSAGES", 10)

    def every(done: Replay) -> None:
        if done.next > 200:
            hub.stop()

    done = run(every=every, pace=Pace(rate=50))
    assert done.ending
    assert 200 < done.next < 591
    hub.start()
    run(from_offset=done.next)
    found = numbers(hub)
    assert found == sorted(set(found))
    assert found[-1] == COUNT - 1
    assert len(found) > COUNT / 2


def test_a_file_that_goes_away(run: Run, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_WINDOW_MESSAGES", 7)
    done = run(every=lambda _: shutil.rmtree(path, ignore_errors=True))
    assert "No such file" in done.ending
    assert 0 < done.next < 591


def test_it_can_be_stopped(run: Run) -> None:
    stop = threading.Event()
    done = run(every=lambda _: stop.set(), stop=stop, pace=Pace(rate=0.01))
    assert done.ending == "stopped"
    assert 0 < done.next < 591


def test_refusals(run: Run) -> None:
    with pytest.raises(UsageError, match="there is no such archive"):
        run(of=Path("/nowhere"))
    with pytest.raises(ConnectionLostError, match="nothing listens"):
        run(url="tcp://127.0.0.1:1")


def test_windows_are_cut_by_messages_and_bytes() -> None:
    half = module._WINDOW_MESSAGES // 2
    groups = [module._Group(0, 4 * half, 4 * half, 1, "", 0), module._Group(6 * half, 6 * half + 9, 9, 1, "", 0)]
    assert module._cuts(groups, 0) == [0, 2 * half, 6 * half + 1, 6 * half + 9]
    assert module._cuts(groups, 3 * half) == [3 * half, 6 * half + 1, 6 * half + 9]
    large = [module._Group(0, 10, 10, 3 * module._WINDOW_BYTES, "", 0)] * 2
    assert module._cuts(large, 0) == list(range(11))
    assert module._cuts([], 0) == [0]


S = 1_000_000


@pytest.mark.parametrize(
    ("pace", "windows", "expected"),
    [
        (Pace(), [[5, 900]], [0, 0]),
        (Pace(rate=2), [[5, 900, 901], [902]], [0, 0.5, 1, 1.5]),
        (Pace(speed=1), [[100, 101, 103.5]], [0, 1, 3.5]),
        (Pace(speed=1), [[100], [101], [103.5]], [0, 1, 3.5]),
        (Pace(speed=1), [[], [100, 101], [], [103.5]], [0, 1, 3.5]),
        (Pace(speed=10), [[100, 101, 103.5]], [0, 0.1, 0.35]),
        (Pace(speed=1, max_pause_s=60), [[0, 3600, 3601]], [0, 60, 61]),
        (Pace(speed=100, max_pause_s=60), [[0, 3600]], [0, 36]),
        (Pace(speed=1), [[100, 101, 50, 51], [52, 102]], [0, 1, 1, 1, 1, 2]),  # a clock that was set back
    ],
)
def test_when_messages_are_due(pace: Pace, windows: list[list[float]], expected: list[float]) -> None:
    due = [
        at for times in windows for at in pace.due_s(np.array([time * S for time in times], dtype=np.int64)).tolist()
    ]
    assert due == pytest.approx(expected)
