"""The query behind an archive, and when it is begun again. Without Spark: a query that fails is made here."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.errors import StreamingQueryException

from peers.spark.archiving import archive
from peers.spark.archiving.archive import STARTS, Tally, run_query
from peers.spark.archiving.state import ArchiveOrder
from peers.spark.archiving.writing import Writing
from peers.spark.connector.options import Access
from peers.spark.session import Job

LATE = "[STREAM_FAILED] Query terminated with exception: Python worker failed to connect back. SQLSTATE: XXKST"
AWAY = "[STREAM_FAILED] ... peers.client.errors.ConnectionLostError: the hub is away"


class Query:
    isActive = False  # noqa: N815 -- Spark's name
    recentProgress: tuple[Any, ...] = ()  # noqa: N815 -- the same

    def __init__(self, error: str) -> None:
        self.error = error

    def awaitTermination(self) -> None:  # noqa: N802 -- the same
        if self.error:
            raise StreamingQueryException(self.error)

    def stop(self) -> None:
        pass


class Progress:
    def __init__(self) -> None:
        self.told: list[str] = []

    def step(self, what: str) -> None:
        self.told.append(what)


class Runs:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.progress = Progress()
        self.left: Iterator[str] = iter(())
        monkeypatch.setattr(archive, "AWAY_S", 0.001)
        monkeypatch.setattr(archive, "_start", lambda *_: Query(next(self.left)))

    def run(self, errors: list[str], every_s: float | None = None) -> list[str]:
        self.left = iter(errors)
        job = Job(cast("Any", None), cast("Any", self.progress))
        run_query(
            job,
            ArchiveOrder(access=Access("tcp://h"), path="/x", every_s=every_s),
            cast("Writing", SimpleNamespace(rows={})),
            Tally(),
            lambda _: None,
            threading.Event(),
        )
        assert next(self.left, None) is None
        return self.progress.told


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    return Runs(monkeypatch)


@pytest.mark.parametrize("every_s", [None, 1.0])
def test_a_worker_that_starts_late_is_started_again(runs: Runs, every_s: float | None) -> None:
    assert runs.run([LATE, LATE, ""], every_s) == ["a worker of Spark did not start in time"] * 2


def test_a_worker_that_never_starts_ends_the_job(runs: Runs) -> None:
    with pytest.raises(StreamingQueryException, match="failed to connect back"):
        runs.run([LATE] * STARTS)
    assert len(runs.progress.told) == STARTS - 1


def test_attempts_are_counted_in_a_row(runs: Runs) -> None:
    late = [LATE] * (STARTS - 1)
    assert runs.run([*late, AWAY, *late, AWAY, ""], 1.0).count("the hub is away") == 2


def test_a_hub_that_is_away_ends_a_job_that_is_to_end(runs: Runs) -> None:
    with pytest.raises(StreamingQueryException, match="ConnectionLostError"):
        runs.run([AWAY])


def test_other_errors_end_it(runs: Runs) -> None:
    with pytest.raises(StreamingQueryException, match="no such column"):
        runs.run(["no such column"], 1.0)


def report(
    batch: int, rows: int, start: int | None, end: int, *, head: int | None = None, run: str = "a"
) -> dict[str, Any]:
    def told(offset: int | None) -> str | None:
        return None if offset is None else json.dumps({"offset": offset, "journal": "ab"})

    source = {"startOffset": told(start), "endOffset": told(end), "latestOffset": told(end if head is None else head)}
    return {"runId": run, "batchId": batch, "numInputRows": rows, "sources": [source]}


def test_each_batch_counts_once() -> None:
    tally = Tally()
    first, second = report(0, 5, None, 5, head=12), report(1, 4, 5, 10, head=12)
    for reports in ([first], [first], [first, second]):
        tally.take(reports, {})
    assert (tally.batches, tally.messages, tally.first, tally.next, tally.head) == (2, 9, 0, 10, 12)


def test_idle_reports_tell_how_far_it_is() -> None:
    tally = Tally()
    tally.take([report(3, 0, 10, 10)], {})
    assert (tally.batches, tally.first, tally.next) == (0, None, 10)
    tally.take([report(3, 0, 10, 10), report(3, 2, 10, 12)], {})
    assert (tally.batches, tally.messages, tally.first, tally.next) == (1, 2, 10, 12)


def test_batches_without_rows_and_a_query_that_began_again() -> None:
    tally = Tally()
    tally.take([report(0, 0, 0, 50)], {})
    assert (tally.batches, tally.messages, tally.next) == (0, 0, 50)
    tally.take([report(0, 1, 0, 50, run="b"), report(1, 1, 50, 52, run="b")], {1: 7})
    assert (tally.batches, tally.messages, tally.next) == (2, 8, 52)
