"""The query behind an archive, and when it is begun again. Without Spark: a query that fails is made here."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.errors import StreamingQueryException

from peers.spark.archiving import query
from peers.spark.archiving.query import STARTS, Watching, run_query
from peers.spark.archiving.state import ArchiveOrder
from peers.spark.archiving.watch import Tally
from peers.spark.archiving.writing import Writing
from peers.spark.session import Job

LATE = "[STREAM_FAILED] Query terminated with exception: Python worker failed to connect back. SQLSTATE: XXKST"
AWAY = "[STREAM_FAILED] ... peers.client.errors.ConnectionLostError: the hub is away"


class Query:
    """A streaming query that has ended at once."""

    isActive = False  # noqa: N815 -- Spark's name
    recentProgress: tuple[Any, ...] = ()  # noqa: N815 -- the same

    def __init__(self, error: str) -> None:
        self.error = error

    def awaitTermination(self) -> None:  # noqa: N802 -- the same
        """Raise what has ended it."""
        if self.error:
            raise StreamingQueryException(self.error)

    def stop(self) -> None:
        """It has ended."""


class Progress:
    """Where a job says what it does."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def tell(self, what: str) -> None:
        """Take note."""
        self.told.append(what)


class Runs:
    """One run of `run_query`, whose queries end one after the other as it is said here."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.progress = Progress()
        self.left: Iterator[str] = iter(())
        monkeypatch.setattr(query, "AWAY_S", 0.001)
        monkeypatch.setattr(query, "_start", lambda *_: Query(next(self.left)))

    def run(self, errors: list[str], every_s: float | None = None) -> list[str]:
        """Return what was told; an empty text stands for a query that ends in order."""
        self.left = iter(errors)
        job = Job(cast("Any", None), cast("Any", self.progress))
        watching = Watching(Tally(), lambda _: None, threading.Event())
        run_query(
            job,
            ArchiveOrder(url="tcp://h", path="/x", every_s=every_s),
            cast("Writing", SimpleNamespace(rows={})),
            watching,
        )
        assert next(self.left, None) is None
        return self.progress.told


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    """Queries that fail as they are told to."""
    return Runs(monkeypatch)


@pytest.mark.parametrize("every_s", [None, 1.0])
def test_a_worker_that_starts_late_is_started_again(runs: Runs, every_s: float | None) -> None:
    """A busy machine does not end a job."""
    assert runs.run([LATE, LATE, ""], every_s) == ["a worker of Spark did not start in time"] * 2


def test_a_worker_that_never_starts_ends_the_job(runs: Runs) -> None:
    """After as many attempts as there are."""
    with pytest.raises(StreamingQueryException, match="failed to connect back"):
        runs.run([LATE] * STARTS)
    assert len(runs.progress.told) == STARTS - 1


def test_attempts_are_counted_in_a_row(runs: Runs) -> None:
    """A job that goes on for good does not use them up over the days."""
    late = [LATE] * (STARTS - 1)
    assert runs.run([*late, AWAY, *late, AWAY, ""], 1.0).count("the hub is away") == 2


def test_a_hub_that_is_away_ends_a_job_that_is_to_end(runs: Runs) -> None:
    """Only a job that goes on for good waits for it."""
    with pytest.raises(StreamingQueryException, match="ConnectionLostError"):
        runs.run([AWAY])


def test_other_errors_end_it(runs: Runs) -> None:
    """They would come again."""
    with pytest.raises(StreamingQueryException, match="no such column"):
        runs.run(["no such column"], 1.0)
