"""`archive`: a hub's journal as an archive, with a real hub and Spark; and the commands, there and back."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow.dataset
import pytest

from hub.errors import BusyError, InvalidTopicError, UsageError
from hub.messages.batch import encode_value
from peers.cli.spark import app, replay
from peers.cli.spark import archive as archive_command
from peers.spark.archiving import archive as writing
from peers.spark.archiving.archive import AWAY_S, Archived, Tally
from peers.spark.archiving.folders import STAGED, Selection
from peers.spark.archiving.state import CHECKPOINT, HUB, locked
from tests.spark.archives import offsets_of, rows_of
from tests.spark.hubs import HubWithJournal, lose_commit

Run = Callable[..., Archived]


@pytest.fixture
def run(run_archive: Run) -> Run:
    return run_archive


def seen(path: Path) -> list[int]:
    table = pyarrow.dataset.dataset(path, format="parquet", partitioning="hive").to_table(columns=["offset"])
    return sorted(table["offset"].to_pylist())


def folders(path: Path) -> list[str]:
    return sorted({str(part.parent.relative_to(path)) for part in path.rglob("*.parquet") if "/." not in str(part)})


def test_records_stand_by_date_root_and_batch(hub: HubWithJournal, run: Run, path: Path) -> None:
    records = [("/zeek/dns", {"n": 1}), ("/zeek/conn", 2), ("plain", 3), ("/odd=/%x", 4), ("//", 5)]
    last = hub.fill(records)
    done = run()
    assert (done.tally.messages, done.tally.batches, done.tally.first, done.tally.next) == (last, 1, 0, last)
    assert len({name.split("/")[0] for name in folders(path)}) == 1
    assert [name.split("/", 1)[1] for name in folders(path)] == [
        "root=__HIVE_DEFAULT_PARTITION__/batch=0",
        "root=odd%3D/batch=0",
        "root=plain/batch=0",
        "root=zeek/batch=0",
    ]
    assert seen(path) == list(range(last))
    assert [(row["offset"], row["topic"], row["value"]) for row in rows_of(path)] == [
        (offset, topic, encode_value(value)) for offset, (topic, value) in enumerate(records)
    ]
    assert offsets_of(path, Selection(["/zeek/"])) == [0, 1]


def test_the_next_run_goes_on(hub: HubWithJournal, run: Run, path: Path) -> None:
    """A lost commit replaces its batch; what a batch had before is deleted, and what a killed job has left."""
    hub.fill_numbers(10, topics=1)
    assert run(max_offsets=4).tally.batches == 3
    folder = folders(path)[-1]
    assert folder.endswith("/batch=2")
    shutil.copytree(path / folder, path / folder.replace("root=n", "root=lost"))
    lose_commit(path / HUB / CHECKPOINT, 2)
    left = path / STAGED / "7"
    left.mkdir(parents=True)
    hub.fill_numbers(5, topics=1)
    run(max_offsets=4)
    assert not left.exists()
    assert seen(path) == list(range(15))
    assert [name.split("/", 1)[1] for name in folders(path)] == [f"root=n/batch={number}" for number in range(5)]
    done = run(max_offsets=4).tally
    assert (done.messages, done.batches, done.next, done.head) == (0, 0, 15, 15)


def test_small_files_are_merged(hub: HubWithJournal, run: Run, path: Path) -> None:
    hub.fill_numbers(6, topics=1)
    done = run(max_offsets=2, compact=True)
    assert done.compacted == (3, 1)
    assert [name.rsplit("=", 1)[1] for name in folders(path)] == ["2"]
    lose_commit(path / HUB / CHECKPOINT, 2)
    hub.fill_numbers(2, topics=1)
    run(max_offsets=2, compact=True)
    assert seen(path) == list(range(8))


def test_topics_and_where_it_begins_are_kept(hub: HubWithJournal, run: Run, path: Path) -> None:
    hub.fill_numbers(8)
    run(topics=("/n/1", "/n/2"), starting="4")
    hub.fill_numbers(4)
    run(starting="0")
    assert seen(path) == [5, 6, 9, 10]
    with pytest.raises(UsageError, match="holds the topics /n/1,/n/2"):
        run(topics=("/n/3",))


def test_refusals(hub: HubWithJournal, run: Run, path: Path) -> None:
    hub.fill_numbers(3)
    with locked(path), pytest.raises(BusyError):
        run()
    run()
    with pytest.raises(UsageError, match="is an archive of format parquet, not iceberg"):
        run(format="iceberg")
    with pytest.raises(UsageError, match="an archive is a folder"):
        run(path="hdfs://somewhere/archive")
    shutil.rmtree(path / HUB / CHECKPOINT)
    with pytest.raises(UsageError, match="is missing: its end is unknown"):
        run()
    (path / HUB / "archive.json").unlink()
    with pytest.raises(UsageError, match="is missing"):
        run()


class TestContinuous:
    def test_small_files_are_merged_now_and_then(
        self, hub: HubWithJournal, run: Run, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(writing, "COMPACTED_BATCHES", 3)
        monkeypatch.setattr(writing, "COMPACTED_LEAST", 2)
        hub.fill_numbers(8, topics=1)
        stop = threading.Event()

        def every(tally: Tally) -> None:
            if tally.messages == 8:
                stop.set()

        done = run(every, stop, every_s=0.1, max_offsets=2, compact=True)
        assert done.compacted.merged >= 2
        assert seen(path) == list(range(8))
        assert len(folders(path)) < 4

    def test_it_waits_for_a_hub_that_is_away_until_it_is_stopped(
        self, hub: HubWithJournal, run: Run, path: Path
    ) -> None:
        hub.fill_numbers(3)
        stop = Away(hub)

        def every(tally: Tally) -> None:
            if tally.messages == 3 and not stop.pauses:
                hub.kill()
            elif tally.messages >= 5:
                stop.set()

        done = run(every, stop, every_s=0.1)
        assert (done.stopped, done.tally.messages, stop.pauses) == (True, 5, 1)
        assert seen(path) == list(range(5))


class Away(threading.Event):
    def __init__(self, hub: HubWithJournal) -> None:
        super().__init__()
        self.pauses = 0
        self._hub = hub

    def wait(self, timeout: float | None = None) -> bool:
        if timeout != AWAY_S:
            return super().wait(timeout)
        self.pauses += 1
        self._hub.start()
        self._hub.fill_numbers(2)
        return False


@pytest.mark.usefixtures("spark")
class TestCommands:
    """`hub spark archive` and `hub spark replay`: flags, output and exit codes, in the session of the tests."""

    def run(self, *words: str) -> int:
        return app(words, result_action="return_value") or 0

    def figures(self, told: str) -> dict[str, str]:
        rows = [line.rsplit(maxsplit=2) for line in told.splitlines() if line.strip()]
        return {f"{row[0].strip()} {row[1]}": row[2] for row in rows if len(row) == 3}

    def test_there_and_back(self, hub: HubWithJournal, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """What a hub has recorded goes into an archive, and from there to another hub, the same and in order."""
        hub.fill_numbers(1000)
        path = str(tmp_path / "archive")
        flags = ("--topics", "/n/0,/n/1", "--compact")
        assert self.run("archive", "--url", hub.url, "--to", path, *flags) == 0
        told = self.figures(capsys.readouterr().out)
        assert (told["messages messages"], told["to offset"], told["left in the hub offsets"]) == ("500", "1,000", "0")
        with HubWithJournal(tmp_path / "other") as other:
            assert self.run("replay", path, "--url", other.url, "--full-speed", "--topics", "/n/1") == 0
            told = self.figures(capsys.readouterr().out)
            assert (told["published messages"], told["to offset"]) == ("250", "998")
            assert other.records() == hub.records("/n/1")

    def test_a_replay_that_is_broken_off(
        self, hub: HubWithJournal, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        hub.fill_numbers(10)
        path = str(tmp_path / "archive")
        archive_command(url=hub.url, to=path)
        monkeypatch.setattr("peers.spark.replay._REPORTED_MESSAGES", 1)
        monkeypatch.setattr("peers.cli.spark._advance", lambda *_: hub.stop())
        assert replay(path, url=hub.url, full_speed=True) == 2
        assert "continue with --from-offset" in capsys.readouterr().err

    def test_flags_that_make_no_sense(self) -> None:
        for words, said in (
            (["archive", "--to", "x", "--every", "0s"], "--every: 0.1 s or more expected"),
            (["replay", "x", "--speed", "2", "--rate", "3"], "exclude each other"),
            (["replay", "x", "--speed", "0"], "--speed 0: give more than 0; 1 is as recorded"),
            (["replay", "x", "--start", "2026-11-21", "--end", "2026-11-20"], "is not before"),
        ):
            with pytest.raises(UsageError) as caught:
                self.run(*words)
            assert said in str(caught.value)
        with pytest.raises(InvalidTopicError):
            self.run("archive", "--to", "x", "--topics", "/a\x00")
