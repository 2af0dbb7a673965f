"""`BatchReader` and `StreamReader` as Spark calls them, and what is below, with a real hub and without Spark."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import LongType, StructField, StructType

from hub.errors import CloseCode, ClosedError, ConnectionLostError, HubError, PeerError, RejectedError
from peers.cli.spark import app
from peers.client.blocking.faces import BlockingHistory
from peers.spark.connector.connection import (
    AGAIN_S,
    Connection,
    Retries,
    ask_journal,
    beyond_loss,
    check_journal,
    close_all,
    wait_journal,
)
from peers.spark.connector.fields import RECORD_COLUMNS, default_schema
from peers.spark.connector.options import (
    Access,
    DataLostError,
    Decode,
    JournalReplacedError,
    OptionError,
    read_source_options,
)
from peers.spark.connector.shares import OffsetRange
from peers.spark.connector.source import BatchReader, RefusedStream, StreamReader
from peers.wire.records import Records
from pyspark_hub import DefaultSource
from tests.hubs.authority import Authority
from tests.journal.files import lose_power, segments
from tests.spark.hubs import HubWithJournal

EVERYTHING = ReadAllAvailable()
NOWHERE = "tcp://127.0.0.1:1"


class TestRetries:
    def test_pauses_double_and_progress_begins_anew(self) -> None:
        pauses: list[float] = []
        retries = Retries(Access(NOWHERE), pauses.append)
        for _ in range(3):
            retries.pause(ConnectionLostError(1006, "nothing listens"))
        with pytest.raises(ConnectionLostError, match=r"after 4 attempts, see the options numRetries .* nothing"):
            retries.pause(ConnectionLostError(1006, "nothing listens"))
        assert pauses == [0.5, 1.0, 2.0]
        retries = Retries(Access(NOWHERE, num_retries=1), pauses.append)
        retries.pause(TimeoutError())
        retries.reset()
        retries.pause(ClosedError("closed"))
        with pytest.raises(ConnectionLostError, match="does not answer within timeoutMs"):
            retries.pause(TimeoutError())
        assert pauses[3:] == [0.5, 0.5]

    @pytest.mark.parametrize(
        ("code", "again"),
        [
            (CloseCode.TRY_AGAIN_LATER, True),
            (CloseCode.GOING_AWAY, True),
            (CloseCode.NOT_ALLOWED, False),
            (CloseCode.JOURNAL_FAILED, False),
        ],
    )
    def test_only_what_may_pass(self, code: CloseCode, again: bool) -> None:  # noqa: FBT001
        pauses: list[float] = []
        retries = Retries(Access(NOWHERE), pauses.append)
        if again:
            retries.pause(RejectedError(code, "busy"))
        else:
            with pytest.raises(RejectedError):
                retries.pause(RejectedError(code, "no journal"))
        assert bool(pauses) is again


class TestConnection:
    @pytest.fixture
    def pauses(self) -> list[float]:
        return []

    @pytest.fixture
    def connection(self, hub: HubWithJournal, pauses: list[float]) -> Connection:
        def sleep(pause_s: float) -> None:
            pauses.append(pause_s)
            hub.restart()

        return Connection(Access(hub.url, num_retries=2, timeout_s=10), sleep)

    def test_clients(
        self, hub: HubWithJournal, connection: Connection, pauses: list[float], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """There is one for each hub; a lost one is replaced, as is one that does not answer, or a parent process's."""
        hub.fill_numbers(3)
        first = connection.client()
        assert Connection(connection.access).client() is first
        hub.stop()
        assert connection.state().head == 3
        second = connection.client()
        assert second is not first
        assert pauses == [0.5]
        connection.failed(TimeoutError())
        assert second.ended
        third = connection.client()
        assert third is not second
        parent = os.getpid()
        monkeypatch.setattr(os, "getpid", lambda: parent + 1)
        assert connection.client() is not third
        close_all()

    def test_it_goes_on_where_it_was(self, hub: HubWithJournal, connection: Connection, pauses: list[float]) -> None:
        hub.fill((f"/{number}", "x" * 1000) for number in range(5000))
        journal = connection.state().id
        offsets: list[int] = []
        for block in connection.blocks(("",), 0, 5000, journal=journal):
            if not offsets:
                hub.kill()
            offsets += [record.offset for record in block.records()]
        assert offsets == list(range(5000))
        assert pauses
        assert list(connection.blocks(("",), 10, 10, journal=journal)) == []
        with pytest.raises(DataLostError, match="the journal ends at offset 5000 by now"):
            list(connection.blocks(("",), 4_999, 5_010, journal=journal))
        with pytest.raises(DataLostError, match="offset 5010 is behind the end of the journal"):
            list(connection.blocks(("",), 5_010, 5_020, journal=journal))

    def test_another_hub(self, tmp_path: Path) -> None:
        """Its journal is read as that of a hub that names it, or by its name; its id is the one that is compared."""
        with (
            HubWithJournal(tmp_path / "journal", "--name", "recording") as hub,
            HubWithJournal(None, "--peer", hub.url, "--name", "near", "--journal-of", "recording") as near,
        ):
            hub.fill_numbers(50)
            for of in ("", "recording"):  # the link may be on its way: that is tried again
                connection = Connection(Access(near.url, hub=of))
                state = connection.state()
                assert state == Connection(Access(hub.url)).state()
                assert connection.offset_at(0) == 0
                blocks = list(connection.blocks(("",), 10, 50, journal=state.id))
                assert [record.offset for block in blocks for record in block.records()] == list(range(10, 50))
                for start in (10, 60):
                    with pytest.raises(JournalReplacedError):
                        list(connection.blocks(("",), start, start + 10, journal=b"x" * 16))
            with pytest.raises(RejectedError, match="no hub of the mesh has the name or the id 'nobody'"):
                Connection(Access(near.url, hub="nobody")).state()
        close_all()

    def test_offsets_of_no_journal_in_particular(self) -> None:
        check_journal(b"x", b"")
        with pytest.raises(JournalReplacedError, match="the hub has no journal"):
            check_journal(b"", b"x")
        assert beyond_loss(3, 10, lossy=True) == 10

    def test_over_tls(self, tmp_path: Path) -> None:
        """The files among the options are those of the client; what is wrong with a hub's certificate is said."""
        (tmp_path / "other").mkdir()
        authority, other = Authority(tmp_path), Authority(tmp_path / "other")
        files = authority.issue("127.0.0.1")
        flags = ["--listen", "tls://127.0.0.1:0", "--tls-certificate", files.certificate, "--tls-key", files.key]
        with HubWithJournal(tmp_path / "journal", *flags) as hub:
            hub.fill_numbers(3)
            options = {"url": hub.second_url, "ca": authority.ca, "numRetries": "0"}
            access = read_source_options(options, streaming=False).access
            assert Connection(access).ask(lambda client: client.journal()).head == 3
            access = read_source_options(options | {"ca": other.ca}, streaming=False).access
            with pytest.raises(ConnectionLostError, match="no known authority vouches for its certificate"):
                Connection(access).ask(lambda client: client.journal())
        close_all()


class TestPresence:
    """A hub or an archive that is not there is told before Java is started."""

    @pytest.fixture(autouse=True)
    def no_java(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("peers.cli.spark.running_job", lambda *_, **__: pytest.fail("a session was to be started"))

    def test_a_hub_that_is_not_there(self, tmp_path: Path) -> None:
        path = tmp_path / "archive"
        with pytest.raises(ConnectionLostError, match="is the hub running"):
            app(["archive", "--url", NOWHERE, "--to", str(path)], result_action="return_value")
        assert not path.exists()

    def test_a_hub_without_a_journal(self) -> None:
        with HubWithJournal(None) as hub:
            with pytest.raises(RejectedError, match="journal"):
                ask_journal(Access(hub.url))
            with pytest.raises(RejectedError, match="journal"):
                wait_journal(Access(hub.url), print)

    def test_a_job_that_begins_before_its_hub(self, hub: HubWithJournal) -> None:
        hub.fill_numbers(1)
        hub.stop()
        told: list[PeerError] = []
        slept: list[float] = []

        def sleep(seconds: float) -> None:
            slept.append(seconds)
            if len(slept) == 2:
                hub.start()

        wait_journal(Access(hub.url), told.append, sleep)
        assert slept == [AGAIN_S, AGAIN_S]
        assert len(told) == 1


def batch_reader(hub: HubWithJournal, **options: str) -> BatchReader:
    reader = BatchReader(default_schema("raw"), read_source_options({"url": hub.url, **options}, streaming=False))
    copy: BatchReader = pickle.loads(pickle.dumps(reader))  # noqa: S301 -- our own
    return copy


def stream_reader(hub: HubWithJournal, **options: str) -> StreamReader:
    given = {"url": hub.url, "numRetries": "0", **options}
    return StreamReader(default_schema("raw"), read_source_options(given, streaming=True))


def offsets(reader: BatchReader | StreamReader, *shares: InputPartition) -> list[int]:
    return [offset for share in shares for batch in reader.read(share) for offset in batch["offset"].to_pylist()]


def bounds(shares: Any) -> list[tuple[int, int]]:
    return [(share.start, share.end) for share in shares]


def test_values_that_nobody_wants_are_not_sent(hub: HubWithJournal, monkeypatch: pytest.MonkeyPatch) -> None:
    received: list[int] = []
    original = BlockingHistory.pieces

    def pieces(self: BlockingHistory) -> Iterator[Records]:
        for piece in original(self):
            received.extend(map(len, piece.blocks))
            yield piece

    monkeypatch.setattr(BlockingHistory, "pieces", pieces)
    count = 1000
    hub.fill((f"/n/{number % 4}", {"number": number, "rest": "x" * 500}) for number in range(count))

    def read(decode: Decode, wanted: StructType, *, streaming: bool) -> list[dict[str, Any]]:
        received.clear()
        options = read_source_options({"url": hub.url, "decode": decode}, streaming=streaming)
        if not streaming:
            batches = BatchReader(wanted, options)
            return [row for share in batches.partitions() for part in batches.read(share) for row in part.to_pylist()]
        reader = StreamReader(wanted, options)
        at = {"offset": 0, "journal": ""}
        shares = reader.partitions(at, reader.latestOffset(at, EVERYTHING))
        return [row for share in shares for part in reader.read(share) for row in part.to_pylist()]

    looks: list[tuple[list[str], Decode, int]] = [
        (["offset"], "raw", 0),
        (["topic"], "raw", 4),
        (["timestamp", "topic"], "raw", 12),
        (["offset", "topic"], "json", 4),
    ]
    for names, decode, record_bytes in looks:
        for streaming in (False, True):
            wanted = StructType([StructField(name, RECORD_COLUMNS[name]) for name in names])
            assert len(read(decode, wanted, streaming=streaming)) == count
            assert record_bytes * count < sum(received) <= record_bytes * count + 200 * len(received)
    found = read("schema", StructType([StructField("number", LongType())]), streaming=False)
    assert [row["number"] for row in found] == list(range(count))
    assert sum(received) > 10 * count


def test_a_batch(hub: HubWithJournal) -> None:
    reader = batch_reader(hub)
    assert reader.partitions() == []
    assert offsets(reader, InputPartition(None)) == []
    hub.fill_numbers(30)
    reader = batch_reader(hub)
    (share,) = shares = reader.partitions()
    assert isinstance(share, OffsetRange)
    with hub.client() as client:
        assert share.journal == client.journal().id.hex()
    hub.fill_numbers(5)
    assert offsets(reader, *shares) == list(range(30))


def test_bounds(hub: HubWithJournal) -> None:
    hub.fill([("/a", 0)])
    hub.fill([("/a", 1)])
    with hub.client() as client:
        _, second = [record.time_us // 1000 for record in client.read()]
    reader = batch_reader(hub, startingTimestamp=str(second), endingTimestamp=str(second + 3_600_000))
    assert offsets(reader, *reader.partitions())[-1:] == [1]
    assert batch_reader(hub, endingTimestamp="0").partitions() == []
    for options, said in (
        ({"startingOffsets": "99"}, "99 is behind the end of the journal, which is 2"),
        ({"startingOffsets": "2", "endingOffsets": "1"}, "startingOffsets 2 are behind endingOffsets 1"),
    ):
        with pytest.raises(HubError, match=said):
            batch_reader(hub, **options).partitions()
    with pytest.raises(HubError, match="has fields: name them"):
        DefaultSource({"url": hub.url, "decode": "schema", "topics": "/nobody"}).schema()


class TestStream:
    def test_how_far_a_batch_goes(self, hub: HubWithJournal) -> None:
        hub.fill_numbers(100)
        first = stream_reader(hub).initialOffset()
        assert (first["offset"], len(bytes.fromhex(first["journal"]))) == (100, 16)
        assert stream_reader(hub, startingOffsets="earliest").initialOffset()["offset"] == 0
        reader = stream_reader(hub, startingOffsets="10", maxOffsetsPerTrigger="30", topics="/n/1")
        assert reader.reportLatestOffset() is None
        start = reader.initialOffset()
        limit = reader.getDefaultReadLimit()
        assert (start["offset"], limit) == (10, ReadMaxRows(30))
        end = reader.latestOffset(start, limit)
        assert end["offset"] == 40
        assert reader.latestOffset(start, EVERYTHING)["offset"] == 100
        assert reader.latestOffset(start | {"offset": 100}, limit)["offset"] == 100
        latest = reader.reportLatestOffset()
        assert latest is not None
        assert latest["offset"] == 100
        shares = reader.partitions(start, end)
        assert bounds(shares) == [(10, 40)]
        assert offsets(reader, *shares) == list(range(13, 40, 4))
        assert reader.partitions(start, start) == []
        assert offsets(reader, InputPartition(None)) == []
        reader.prepareForTriggerAvailableNow()
        hub.fill_numbers(10)
        assert reader.latestOffset(start, EVERYTHING)["offset"] == 100
        past = start | {"offset": 119}
        with pytest.raises(DataLostError, match="the query has read up to offset 119, the journal ends at 110"):
            stream_reader(hub).latestOffset(past, EVERYTHING)
        with pytest.raises(DataLostError, match="the journal ends at 110"):
            reader.partitions(start, past)

    def test_another_journal(self, hub: HubWithJournal, tmp_path: Path) -> None:
        hub.fill_numbers(3)
        reader = stream_reader(hub, startingOffsets="earliest", numRetries="2")
        start = reader.initialOffset()
        end = start | {"offset": 3}
        (share,) = reader.partitions(start, end)
        hub.stop()
        hub.path = tmp_path / "another"
        hub.start()
        hub.fill_numbers(9)
        asked: list[Callable[[], object]] = [
            lambda: reader.latestOffset(start, EVERYTHING),
            lambda: reader.partitions(start, end),
            lambda: offsets(reader, share),
        ]
        for ask in asked:
            with pytest.raises(JournalReplacedError):
                ask()

    def test_a_restart_is_no_new_batch(self, hub: HubWithJournal) -> None:
        hub.fill_numbers(10)
        reader = stream_reader(hub, startingOffsets="earliest")
        at = reader.latestOffset(reader.initialOffset(), EVERYTHING)
        hub.kill()
        hub.start()
        reader = stream_reader(hub)
        assert reader.latestOffset(at, EVERYTHING) == at
        hub.fill_numbers(1)
        following = reader.latestOffset(at, EVERYTHING)
        assert following["epoch"] > at["epoch"]
        assert bounds(reader.partitions(at, following)) == [(10, 11)]

    def test_records_that_a_power_loss_has_taken(self, hub: HubWithJournal) -> None:
        """The query goes on where others have their offsets; what was planned of them is an error, or passed over."""
        hub.fill_numbers(10)
        assert hub.path is not None
        written_bytes = segments(hub.path)[-1].stat().st_size
        before = stream_reader(hub, startingOffsets="earliest")
        start = before.latestOffset(before.initialOffset(), EVERYTHING)
        hub.fill_numbers(10)
        end = before.latestOffset(start, EVERYTHING)
        (share,) = before.partitions(start, end)
        hub.kill()
        lose_power(hub.path, written_bytes)
        hub.start()
        hub.fill_numbers(15)
        strict, lossy = stream_reader(hub), stream_reader(hub, failOnDataLoss="false")
        following = strict.latestOffset(end, EVERYTHING)
        assert bounds(strict.partitions(end, following)) == [(10, 25)]
        assert bounds(strict.partitions(start, following)) == [(10, 25)]
        with pytest.raises(DataLostError, match="lost power"):
            strict.partitions(start, end)
        with pytest.raises(DataLostError, match="lost power"):
            offsets(strict, share)
        assert lossy.partitions(start, end) == []
        assert offsets(lossy, share) == []

    def test_deleted_records(self, hub: HubWithJournal) -> None:
        hub.arguments = ("--journal-keep-bytes", "64KiB", "--journal-compression", "none")
        hub.restart()
        with hub.client() as client:
            for _ in range(20):
                client.publish_confirmed("/large", "x" * 10_000)
            _, first, head, _ = client.journal()
        assert first > 0
        strict, lossy = stream_reader(hub), stream_reader(hub, failOnDataLoss="false")
        start = strict.initialOffset() | {"offset": 0}
        with pytest.raises(DataLostError, match="were deleted"):
            strict.partitions(start, start | {"offset": head})
        assert lossy.latestOffset(start, ReadMaxRows(1))["offset"] == first + 1
        assert bounds(lossy.partitions(start, start | {"offset": head})) == [(first, head)]

    def test_a_stream_that_cannot_be_read_so(self) -> None:
        source = DefaultSource({"url": NOWHERE, "endingOffsets": "1"})
        reader = source.streamReader(default_schema("raw"))
        assert isinstance(reader, RefusedStream)
        offset = {"offset": 0, "journal": ""}
        asked: list[Callable[[], object]] = [
            reader.initialOffset,
            reader.prepareForTriggerAvailableNow,
            lambda: reader.latestOffset(offset, EVERYTHING),
            lambda: reader.partitions(offset, offset),
            lambda: reader.read(InputPartition(None)),
        ]
        for ask in asked:
            with pytest.raises(OptionError, match="a stream has no end"):
                ask()
