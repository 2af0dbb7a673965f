"""`BatchWriter` and `StreamWriter` as Spark calls them, and what a task stages, with a real hub and without Spark."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructType

from hub.errors import ConnectionLostError, HubError, RejectedError
from peers.spark.connector.connection import Connection
from peers.spark.connector.options import Access, OptionError, WriteRefusedError
from peers.spark.connector.sink import IN_FLIGHT, PIECE_BYTES, BatchWriter, Staged, StagedPart, StreamWriter
from tests.spark.hubs import HubWithJournal, message

SCHEMA = StructType().add("topic", StringType()).add("value", StringType())

W = TypeVar("W", BatchWriter, StreamWriter)


class TestStagedPart:
    @pytest.fixture
    def pauses(self) -> list[float]:
        return []

    @pytest.fixture
    def connection(self, hub: HubWithJournal, pauses: list[float]) -> Connection:
        return Connection(Access(hub.url, num_retries=2, timeout_s=10), pauses.append)

    def numbered(self, numbers: range) -> Iterator[tuple[bytes, int]]:
        for number in numbers:
            yield message("/n", [number, "x" * (PIECE_BYTES // 4)]), 1

    def committed(self, hub: HubWithJournal, connection: Connection, part: StagedPart) -> list[int]:
        connection.client().commit("t", part.numbers)
        return [value[0] for _, value in hub.records()]

    def test_pieces_come_in_order_and_attempts_do_not_mix(self, hub: HubWithJournal, connection: Connection) -> None:
        first, second = StagedPart(connection, "t", 7), StagedPart(connection, "t", 8)
        first.add(self.numbered(range(10)))
        second.add(self.numbered(range(30)))
        first.finish()
        second.finish()
        assert not set(first.numbers) & set(second.numbers)
        assert len(second.numbers) > IN_FLIGHT
        assert sorted(set(second.numbers)) == second.numbers
        assert second.messages == 30
        assert self.committed(hub, connection, second) == list(range(30))
        nothing = StagedPart(connection, "t", 9)
        nothing.finish()
        assert nothing.numbers == []

    def test_a_lost_connection_loses_and_doubles_nothing(
        self, hub: HubWithJournal, connection: Connection, pauses: list[float]
    ) -> None:
        part = StagedPart(connection, "t", 7)
        part.add(self.numbered(range(20)))
        client = connection.client()
        assert client._client._exchange.connection is not None
        client._thread.loop.call_soon_threadsafe(client._client._exchange.connection.abort)
        part.add(self.numbered(range(20, 40)))
        part.finish()
        assert pauses
        assert self.committed(hub, connection, part) == list(range(40))

    def test_what_the_hub_refuses_is_raised(self, hub: HubWithJournal, connection: Connection) -> None:
        hub.arguments = ("--journal-topics", "/n", "--journal-staged-bytes", "1MiB")
        hub.restart()
        part = StagedPart(connection, "t", 7)
        part.add([(message("/other", 1), 1)])
        with pytest.raises(RejectedError, match="not recorded here"):
            part.finish()
        part = StagedPart(connection, "t", 8)
        with pytest.raises(Exception, match=r"raise journal\.staged_bytes"):  # noqa: PT012 -- whichever piece it is
            part.add(self.numbered(range(40)))
            part.finish()


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

    def test_what_is_written_once(self, hub: HubWithJournal) -> None:
        """A commit whose answer was lost is repeated; what is aborted, or staged in an earlier life, is not there."""
        named = writer(BatchWriter, hub, txnAppId="a", txnVersion="1")
        staged = named.write(rows(1))
        named.commit([staged])
        named.commit([staged])
        assert numbers(hub) == [1]
        made = writer(BatchWriter, hub, numRetries="2")
        staged = made.write(rows(2))
        made.abort([staged, None])
        with pytest.raises(ConnectionLostError, match="the hub no longer has the staged batch"):
            made.commit([staged])
        staged = made.write(rows(3))
        hub.restart()
        with pytest.raises(ConnectionLostError, match="write the DataFrame again"):
            made.commit([staged])
        assert numbers(hub) == [1]
        hub.stop()
        made.abort([staged])
        with pytest.raises(ConnectionLostError):
            writer(BatchWriter, hub).write(rows(1))

    @pytest.mark.parametrize(
        ("columns", "options", "said"),
        [
            ("topic STRING", {}, "there is no column value"),
            ("value STRING", {}, "there is no column topic; add one, or say option topic"),
            ("topic INT, value STRING", {}, "column topic is STRING, not INT"),
            ("topic STRING, value DOUBLE", {}, "column value is BINARY or STRING, not DOUBLE"),
            ("topic STRING, value STRING, host INT", {}, "column host has no place in a message"),
            ("topic STRING, value STRING", {"encode": "raw"}, "encode=raw takes BINARY"),
            ("topic STRING, value BINARY", {"encode": "text"}, "encode=text takes a STRING"),
        ],
    )
    @pytest.mark.usefixtures("spark")  # types are read by Java
    def test_columns(self, columns: str, options: dict[str, str], said: str) -> None:
        schema = StructType.fromDDL(columns)
        with pytest.raises(HubError) as caught:
            BatchWriter.of(schema, {"url": "tcp://127.0.0.1:1", **options}, overwrite=False)  # type: ignore[arg-type]
        assert said in str(caught.value)

    def test_websockets_have_no_word_for_it(self, hub: HubWithJournal) -> None:
        hub.arguments = ("--listen", "ws://127.0.0.1:0")
        hub.restart()
        made = BatchWriter.of(SCHEMA, {"url": hub.second_url, "numRetries": "0"}, overwrite=False)
        with pytest.raises(WriteRefusedError, match="over tcp:// or unix:// only"):
            made.commit([made.write(rows(1))])

    def test_what_can_never_be_written_fails_once(self, hub: HubWithJournal) -> None:
        """Not in each attempt of each task: the tasks end well, and the write fails before anything is committed."""
        hub.arguments = ("--limits-frame-bytes", "65536")
        hub.restart()
        made = writer(BatchWriter, hub)
        bad = {
            "is no JSON text": ("/n", "{"),
            "a row has no topic": (None, "1"),
            r"\$hub/": ("$hub/x", "1"),
            r"the hub accepts \d+ at most": ("/n", f'"{"x" * 100_000}"'),
        }
        for said, (topic, value) in bad.items():
            row = pa.RecordBatch.from_pydict({"topic": pa.array([topic], pa.string()), "value": [value]})
            staged, refused = made.write(rows(1)), made.write(iter([row]))
            with pytest.raises(WriteRefusedError, match=f"nothing was written: .*{said}"):
                made.commit([staged, refused])
            made.abort([staged, refused])
        assert numbers(hub) == []


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

    def test_refusals(self, hub: HubWithJournal) -> None:
        made = writer(StreamWriter, hub)
        with pytest.raises(OptionError, match="Spark does not say which query this is"):
            made.commit([made.write(rows(1))], 0)
        made.commit([made.write(rows())], 0)
        with pytest.raises(OptionError, match="txnAppId and txnVersion are for batches"):
            writer(StreamWriter, hub, txnAppId="a", txnVersion="1")
        with pytest.raises(HubError, match="messages cannot be overwritten"):
            StreamWriter.of(SCHEMA, {"url": hub.url}, overwrite=True)
