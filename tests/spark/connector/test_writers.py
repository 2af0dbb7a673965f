"""`BatchWriter` and `StreamWriter` as Spark calls them, with a real hub and without Spark."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructType

from hub.errors import ConnectionLostError
from peers.spark.connector.options import OptionError, WriteRefusedError
from peers.spark.connector.sink import BatchWriter, Staged, StreamWriter
from tests.spark.hubs import HubWithJournal

SCHEMA = StructType().add("topic", StringType()).add("value", StringType())

W = TypeVar("W", BatchWriter, StreamWriter)


def writer(kind: type[W], hub: HubWithJournal, **options: str) -> W:
    made = kind.of(SCHEMA, {"url": hub.url, "numRetries": "0", **options}, overwrite=False)
    copy: W = pickle.loads(pickle.dumps(made))  # noqa: S301 -- our own
    return copy


def rows(*numbers: int) -> Any:
    return iter([pa.RecordBatch.from_pydict({"topic": ["/n"], "value": [str(number)]}) for number in numbers])


def numbers(hub: HubWithJournal) -> list[int]:
    return [value for _, value in hub.records()]


class _Task(NamedTuple):
    attempt: int
    partition: int

    def taskAttemptId(self) -> int:  # noqa: N802 -- Spark's name
        return self.attempt

    def partitionId(self) -> int:  # noqa: N802 -- Spark's name
        return self.partition

    def getLocalProperty(self, key: str) -> str | None:  # noqa: N802 -- Spark's name
        assert key
        return None


class TestBatch:
    def test_partitions_are_committed_in_order(self, hub: HubWithJournal, monkeypatch: pytest.MonkeyPatch) -> None:
        made = writer(BatchWriter, hub)
        tasks = iter([_Task(7, 1), _Task(8, 0)])
        monkeypatch.setattr("peers.spark.connector.sink.TaskContext.get", lambda: next(tasks))
        second, first = made.write(rows(2, 3)), made.write(rows(0, 1))
        assert numbers(hub) == []
        made.commit([second, None, first])
        assert numbers(hub) == [0, 1, 2, 3]

    def test_what_is_aborted_is_dropped(self, hub: HubWithJournal) -> None:
        made = writer(BatchWriter, hub)
        staged = made.write(rows(1))
        made.abort([staged, None])
        with pytest.raises(ConnectionLostError, match="the hub no longer has what was staged"):
            made.commit([staged])
        hub.stop()
        made.abort([staged])

    def test_a_hub_that_was_restarted(self, hub: HubWithJournal) -> None:
        made = writer(BatchWriter, hub, numRetries="2")
        staged = made.write(rows(1))
        hub.restart()
        with pytest.raises(ConnectionLostError, match="write the DataFrame again"):
            made.commit([staged])
        assert numbers(hub) == []

    def test_a_commit_whose_answer_is_lost(self, hub: HubWithJournal) -> None:
        made = writer(BatchWriter, hub, txnAppId="a", txnVersion="1")
        staged = made.write(rows(1))
        made.commit([staged])
        made.commit([staged])
        assert numbers(hub) == [1]

    def test_websockets_have_no_word_for_it(self, hub: HubWithJournal) -> None:
        hub.arguments = ("--listen", "ws://127.0.0.1:0")
        hub.restart()
        made = BatchWriter.of(SCHEMA, {"url": hub.second_url, "numRetries": "0"}, overwrite=False)
        with pytest.raises(WriteRefusedError, match="over tcp:// or unix:// only"):
            made.commit([made.write(rows(1))])

    def test_what_can_never_be_written_fails_once(self, hub: HubWithJournal) -> None:
        """Not in each attempt of each task: the tasks end well, and the write fails before anything is committed."""
        made = writer(BatchWriter, hub)
        bad = pa.RecordBatch.from_pydict({"topic": ["/n"], "value": ["{"]})
        staged, refused = made.write(rows(1)), made.write(iter([bad]))
        with pytest.raises(WriteRefusedError, match=r"nothing was written: .*is no JSON text"):
            made.commit([staged, refused])
        made.abort([staged, refused])
        assert numbers(hub) == []

    def test_a_hub_that_is_away_fails_the_task(self, hub: HubWithJournal) -> None:
        made = writer(BatchWriter, hub)
        hub.stop()
        with pytest.raises(ConnectionLostError):
            made.write(rows(1))


class TestStream:
    def written(self, made: StreamWriter, *written: int, query: str = "q") -> Staged:
        staged = made.write(rows(*written))
        assert isinstance(staged, Staged)
        return replace(staged, query=query)

    def test_a_batch_that_is_repeated_adds_nothing(self, hub: HubWithJournal) -> None:
        for attempt in range(2):
            made = writer(StreamWriter, hub)
            made.commit([self.written(made, attempt)], 5)
        made = writer(StreamWriter, hub)
        made.commit([self.written(made, 6)], 6)
        made.commit([self.written(made, 7, query="another")], 5)
        assert numbers(hub) == [0, 6, 7]

    def test_a_hub_that_was_restarted(self, hub: HubWithJournal) -> None:
        made = writer(StreamWriter, hub, numRetries="2")
        staged = self.written(made, 1)
        hub.restart()
        with pytest.raises(ConnectionLostError, match="the batch is written once when the query starts again"):
            made.commit([staged], 0)
        made.abort([staged], 0)
        made.commit([self.written(made, 1)], 0)
        assert numbers(hub) == [1]

    def test_without_a_query_nothing_is_written(self, hub: HubWithJournal) -> None:
        made = writer(StreamWriter, hub)
        with pytest.raises(OptionError, match="Spark does not say which query this is"):
            made.commit([made.write(rows(1))], 0)
        made.commit([made.write(rows())], 0)

    def test_names_of_batch_writes_are_refused(self, hub: HubWithJournal) -> None:
        with pytest.raises(OptionError, match="txnAppId and txnVersion are for batches"):
            writer(StreamWriter, hub, txnAppId="a", txnVersion="1")
