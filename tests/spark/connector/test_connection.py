"""Calls of a hub that are tried again, with a real hub and without waiting."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hub.errors import CloseCode, ClosedError, ConnectionLostError, RejectedError
from peers.spark.connector.connection import Connection, Retries, beyond_loss, check_journal, close_all
from peers.spark.connector.options import Access, DataLostError, JournalReplacedError, read_source_options
from tests.hubs.authority import Authority
from tests.spark.hubs import HubWithJournal


@pytest.fixture
def pauses() -> list[float]:
    return []


@pytest.fixture
def connection(hub: HubWithJournal, pauses: list[float]) -> Connection:
    def sleep(pause_s: float) -> None:
        pauses.append(pause_s)
        hub.restart()

    return Connection(Access(hub.url, num_retries=2, timeout_s=10), sleep)


class TestRetries:
    def test_pauses_double(self, pauses: list[float]) -> None:
        retries = Retries(Access("tcp://127.0.0.1:1"), pauses.append)
        for _ in range(3):
            retries.pause(ConnectionLostError(1006, "nothing listens"))
        with pytest.raises(
            ConnectionLostError, match=r"after 4 attempts, see the options numRetries .* nothing listens"
        ):
            retries.pause(ConnectionLostError(1006, "nothing listens"))
        assert pauses == [0.5, 1.0, 2.0]

    def test_progress_begins_anew(self, pauses: list[float]) -> None:
        retries = Retries(Access("tcp://127.0.0.1:1", num_retries=1), pauses.append)
        retries.pause(TimeoutError())
        retries.reset()
        retries.pause(ClosedError("closed"))
        with pytest.raises(ConnectionLostError, match="does not answer within timeoutMs"):
            retries.pause(TimeoutError())
        assert pauses == [0.5, 0.5]

    @pytest.mark.parametrize(
        ("error", "again"),
        [
            (RejectedError(CloseCode.TRY_AGAIN_LATER, "busy"), True),
            (RejectedError(CloseCode.GOING_AWAY, "the hub stops"), True),
            (RejectedError(CloseCode.NOT_ALLOWED, "no journal"), False),
            (RejectedError(CloseCode.JOURNAL_FAILED, "damaged"), False),
        ],
    )
    def test_only_what_may_pass(self, error: RejectedError, again: bool, pauses: list[float]) -> None:  # noqa: FBT001
        retries = Retries(Access("tcp://127.0.0.1:1"), pauses.append)
        if again:
            retries.pause(error)
        else:
            with pytest.raises(RejectedError):
                retries.pause(error)
        assert bool(pauses) is again


class TestClients:
    def test_one_for_each_hub(self, connection: Connection) -> None:
        assert Connection(connection.access).client() is connection.client()

    def test_a_lost_one_is_replaced(self, hub: HubWithJournal, connection: Connection, pauses: list[float]) -> None:
        hub.fill_numbers(3)
        first = connection.client()
        hub.stop()
        assert connection.state().head == 3
        assert connection.client() is not first
        assert pauses == [0.5]

    def test_one_that_does_not_answer_is_closed(self, connection: Connection) -> None:
        first = connection.client()
        connection.failed(TimeoutError())
        assert first.ended
        assert connection.client() is not first

    def test_a_child_does_not_use_its_parents(self, connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
        first = connection.client()
        parent = os.getpid()
        monkeypatch.setattr(os, "getpid", lambda: parent + 1)
        assert connection.client() is not first
        close_all()


class TestReading:
    def read(self, connection: Connection, start: int, end: int, journal: bytes = b"", **options: bool) -> list[int]:
        blocks = connection.blocks(("",), start, end, journal=journal or connection.state().id, **options)
        return [record.offset for block in blocks for record in block.records()]

    def test_ranges(self, hub: HubWithJournal, connection: Connection) -> None:
        hub.fill_numbers(100)
        assert self.read(connection, 10, 90) == list(range(10, 90))
        assert self.read(connection, 10, 10) == []

    def test_it_goes_on_where_it_was(self, hub: HubWithJournal, connection: Connection, pauses: list[float]) -> None:
        hub.fill((f"/{number}", "x" * 1000) for number in range(5000))
        offsets: list[int] = []
        for block in connection.blocks(("",), 0, 5000, journal=connection.state().id):
            if not offsets:
                hub.kill()
            offsets += [record.offset for record in block.records()]
        assert offsets == list(range(5000))
        assert pauses

    def test_a_journal_that_has_shrunk(self, hub: HubWithJournal, connection: Connection) -> None:
        hub.fill_numbers(10)
        with pytest.raises(DataLostError, match="the journal ends at offset 10 by now"):
            self.read(connection, 0, 20)
        with pytest.raises(DataLostError, match="offset 20 is behind the end of the journal"):
            self.read(connection, 20, 30)


def test_another_hub(tmp_path: Path) -> None:
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
            with pytest.raises(JournalReplacedError):
                list(connection.blocks(("",), 10, 50, journal=b"x" * 16))
            with pytest.raises(JournalReplacedError):
                list(connection.blocks(("",), 60, 70, journal=b"x" * 16))
        with pytest.raises(RejectedError, match="no hub of the mesh has the name or the id 'nobody'"):
            Connection(Access(near.url, hub="nobody")).state()
    close_all()


def test_times_are_resolved_by_the_hub(hub: HubWithJournal, connection: Connection) -> None:
    hub.fill([("/a", 1)])
    hub.fill([("/a", 2)])
    with hub.client() as client:
        times = [record.time_us for record in client.read()]
    assert connection.offset_at(0) == 0
    assert connection.offset_at(times[1] // 1000 + 60_000) == 2
    assert connection.offset_at(times[0] // 1000 + 1) in {1, 2}


def test_offsets_of_no_journal_in_particular() -> None:
    check_journal(b"x", b"")
    with pytest.raises(JournalReplacedError, match="the hub has no journal"):
        check_journal(b"", b"x")
    assert beyond_loss(3, 10, lossy=True) == 10


def test_over_tls(tmp_path: Path) -> None:
    """The files among the options are those of the client, and what is wrong with a hub's certificate is said."""
    other_folder = tmp_path / "other"
    other_folder.mkdir()
    authority, other = Authority(tmp_path), Authority(other_folder)
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
