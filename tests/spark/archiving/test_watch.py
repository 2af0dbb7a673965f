"""How far a query is, from what Spark tells of each micro-batch."""

from __future__ import annotations

import json
from typing import Any

from peers.spark.archiving.watch import Tally


def report(
    batch: int, rows: int, start: int | None, end: int, *, head: int | None = None, run: str = "a"
) -> dict[str, Any]:
    """What Spark tells of a batch."""

    def told(offset: int | None) -> str | None:
        return None if offset is None else json.dumps({"offset": offset, "journal": "ab"})

    source = {"startOffset": told(start), "endOffset": told(end), "latestOffset": told(end if head is None else head)}
    return {"runId": run, "batchId": batch, "numInputRows": rows, "sources": [source]}


def test_each_batch_counts_once() -> None:
    """However often it is told of."""
    tally = Tally()
    first, second = report(0, 5, None, 5, head=12), report(1, 4, 5, 10, head=12)
    assert tally.take([first], {})
    assert not tally.take([first], {})
    assert tally.take([first, second], {})
    assert (tally.batches, tally.messages, tally.first, tally.next, tally.head) == (2, 9, 0, 10, 12)


def test_idle_reports_tell_how_far_it_is() -> None:
    """They bear the number of the batch that is to come, which counts when it comes."""
    tally = Tally()
    assert not tally.take([report(3, 0, 10, 10)], {})
    assert (tally.batches, tally.first, tally.next) == (0, None, 10)
    assert tally.take([report(3, 0, 10, 10), report(3, 2, 10, 12)], {})
    assert (tally.batches, tally.messages, tally.first, tally.next) == (1, 2, 10, 12)


def test_batches_without_rows_are_progress() -> None:
    """Where all offsets are of other topics."""
    tally = Tally()
    assert tally.take([report(0, 0, 0, 50)], {})
    assert (tally.batches, tally.messages, tally.next, tally.last_batch) == (0, 0, 50, 0)


def test_a_query_that_began_again() -> None:
    """Numbers go on; a batch that is done again is one more report."""
    tally = Tally()
    tally.take([report(4, 1, 0, 1)], {})
    assert tally.take([report(4, 1, 0, 1, run="b"), report(5, 1, 1, 2, run="b")], {})
    assert tally.last_batch == 5
