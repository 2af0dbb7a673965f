"""`archive`: a hub's journal as an archive, with a real hub and Spark."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow.dataset
import pytest

from hub.batch import encode_value
from hub.errors import BusyError, UsageError
from peers.spark.archive_files import Selection
from peers.spark.archiving import writing
from peers.spark.archiving.archive import AWAY_S, Archived, Tally
from peers.spark.archiving.folders import STAGED
from peers.spark.archiving.state import CHECKPOINT, HUB, locked
from tests.spark.archives import offsets_of, rows_of
from tests.spark.hubs import HubWithJournal
from tests.spark.queries import lose_commit

Run = Callable[..., Archived]


@pytest.fixture
def run(run_archive: Run) -> Run:
    return run_archive


def seen(path: Path) -> list[int]:
    table = pyarrow.dataset.dataset(path, format="parquet", partitioning="hive").to_table(columns=["offset"])
    return sorted(table["offset"].to_pylist())


def folders(path: Path) -> list[str]:
    return sorted({str(part.parent.relative_to(path)) for part in path.rglob("*.parquet") if "/." not in str(part)})


class TestParquet:
    def test_records_stand_by_date_root_and_batch(self, hub: HubWithJournal, run: Run, path: Path) -> None:
        last = hub.fill([("/zeek/dns", {"n": 1}), ("/zeek/conn", 2), ("plain", 3), ("/odd=/%x", 4), ("//", 5)])
        done = run()
        assert (done.tally.messages, done.tally.batches, done.tally.first, done.tally.next) == (last, 1, 0, last)
        dates = {name.split("/")[0] for name in folders(path)}
        assert [name.split("/", 1)[1] for name in folders(path)] == [
            "root=__HIVE_DEFAULT_PARTITION__/batch=0",
            "root=odd%3D/batch=0",
            "root=plain/batch=0",
            "root=zeek/batch=0",
        ]
        assert len(dates) == 1
        assert seen(path) == list(range(last))

    def test_the_archive_reads_back_as_it_was(self, hub: HubWithJournal, run: Run, path: Path) -> None:
        hub.fill([("/zeek/dns", {"n": 1}), ("/zeek/conn", 2), ("plain", 3)])
        run()
        assert [(row["offset"], row["topic"], row["value"]) for row in rows_of(path)] == [
            (0, "/zeek/dns", encode_value({"n": 1})),
            (1, "/zeek/conn", encode_value(2)),
            (2, "plain", encode_value(3)),
        ]
        assert offsets_of(path, Selection(["/zeek/"])) == [0, 1]

    def test_the_next_run_goes_on(self, hub: HubWithJournal, run: Run, path: Path) -> None:
        hub.fill_numbers(10, topics=1)
        assert run(max_offsets=4).tally.batches == 3
        hub.fill_numbers(5, topics=1)
        assert run(max_offsets=4).tally.messages == 5
        done = run().tally
        assert (done.messages, done.batches, done.next, done.head) == (0, 0, 15, 15)
        assert seen(path) == list(range(15))
        assert [name.rsplit("=", 1)[1] for name in folders(path)] == ["0", "1", "2", "3", "4"]

    def test_a_lost_commit_replaces_its_batch(self, hub: HubWithJournal, run: Run, path: Path) -> None:
        hub.fill_numbers(10)
        run(max_offsets=5)
        before = folders(path)
        lose_commit(path / HUB / CHECKPOINT, 1)
        run(max_offsets=5)
        assert seen(path) == list(range(10))
        assert folders(path) == before

    def test_small_files_are_merged(self, hub: HubWithJournal, run: Run, path: Path) -> None:
        hub.fill_numbers(10, topics=1)
        done = run(max_offsets=2, compact=True)
        assert done.compacted == (5, 1)
        assert [name.rsplit("=", 1)[1] for name in folders(path)] == ["4"]
        lose_commit(path / HUB / CHECKPOINT, 4)
        hub.fill_numbers(2, topics=1)
        run(max_offsets=2, compact=True)
        assert seen(path) == list(range(12))

    def test_topics_are_kept(self, hub: HubWithJournal, run: Run, path: Path) -> None:
        hub.fill_numbers(8)
        run(topics=("/n/1", "/n/2"))
        hub.fill_numbers(8)
        run()
        assert len(seen(path)) == 8
        with pytest.raises(UsageError, match="holds the topics /n/1,/n/2"):
            run(topics=("/n/3",))

    def test_where_it_begins(self, hub: HubWithJournal, run: Run, path: Path) -> None:
        hub.fill_numbers(10)
        run(starting="7")
        run(starting="0")
        assert seen(path) == [7, 8, 9]

    def test_what_a_killed_job_has_left_is_deleted(self, hub: HubWithJournal, run: Run, path: Path) -> None:
        left = path / STAGED / "7"
        left.mkdir(parents=True)
        hub.fill_numbers(3)
        run()
        assert not left.exists()

    def test_what_a_batch_had_before_is_deleted(self, hub: HubWithJournal, run: Run, path: Path) -> None:
        hub.fill_numbers(3, topics=1)
        run()
        (folder,) = folders(path)
        shutil.copytree(path / folder, path / folder.replace("root=n", "root=lost"))
        lose_commit(path / HUB / CHECKPOINT, 0)
        run()
        assert folders(path) == [folder]

    def test_refusals(self, hub: HubWithJournal, run: Run, path: Path) -> None:
        hub.fill_numbers(3)
        with locked(path), pytest.raises(BusyError):
            run()
        run()
        with pytest.raises(UsageError, match="is an archive of format parquet, not iceberg"):
            run(format="iceberg")
        with pytest.raises(UsageError, match="an archive is a folder"):
            run(path="hdfs://somewhere/archive")
        shutil.rmtree(path / HUB / CHECKPOINT)
        with pytest.raises(UsageError, match="is missing: nobody knows how far it reaches"):
            run()
        (path / HUB / "archive.json").unlink()
        with pytest.raises(UsageError, match="is missing"):
            run()


class TestContinuous:
    def test_it_goes_on_until_it_is_stopped(self, hub: HubWithJournal, run: Run, path: Path) -> None:
        hub.fill_numbers(3, topics=1)
        stop = threading.Event()
        more = iter([hub.fill_numbers])

        def every(tally: Tally) -> None:
            if tally.messages == 3:
                next(more, lambda _: None)(2)
            elif tally.messages >= 5:
                stop.set()

        done = run(every, stop, every_s=0.1)
        assert done.stopped
        assert done.tally.messages == 5
        assert seen(path) == list(range(5))

    def test_small_files_are_merged_now_and_then(
        self, hub: HubWithJournal, run: Run, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(writing, "COMPACTED_BATCHES", 3)
        monkeypatch.setattr(writing, "COMPACTED_LEAST", 2)
        hub.fill_numbers(12, topics=1)
        stop = threading.Event()

        def every(tally: Tally) -> None:
            if tally.messages == 12:
                stop.set()

        done = run(every, stop, every_s=0.1, max_offsets=2, compact=True)
        assert done.compacted.merged >= 4
        assert seen(path) == list(range(12))
        assert len(folders(path)) < 6

    def test_a_hub_that_is_away_is_waited_for(self, hub: HubWithJournal, run: Run, path: Path) -> None:
        hub.fill_numbers(3)
        stop = Away(hub)

        def every(tally: Tally) -> None:
            if tally.messages == 3 and not stop.pauses:
                hub.kill()
            elif tally.messages >= 5:
                stop.set()

        run(every, stop, every_s=0.1)
        assert stop.pauses == 1
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
