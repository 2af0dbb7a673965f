"""A hub or an archive that is not there is told before Java is started."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from hub.errors import ConnectionLostError, PeerError, RejectedError, UsageError
from peers.cli.spark import app
from peers.spark.connector.options import Access
from peers.spark.presence import AGAIN_S, check_connection, check_journal, wait_journal
from tests.spark.hubs import HubWithJournal

NOBODY = "tcp://127.0.0.1:1"


@pytest.fixture(autouse=True)
def no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """No session is started here."""

    def started(*_: Any, **__: Any) -> NoReturn:
        pytest.fail("a session was to be started")

    monkeypatch.setattr("peers.cli.spark.running_job", started)


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[HubWithJournal]:
    """A hub that records."""
    with HubWithJournal(tmp_path / "journal") as hub:
        yield hub


def test_a_hub_that_is_not_there(tmp_path: Path) -> None:
    """One line says what to do, and nothing is made in the place of the archive."""
    path = tmp_path / "archive"
    with pytest.raises(ConnectionLostError, match="is the hub running"):
        app(["archive", "--url", NOBODY, "--to", str(path)], result_action="return_value")
    assert not path.exists()
    with pytest.raises(ConnectionLostError, match="is the hub running"):
        app(["replay", str(tmp_path), "--url", NOBODY], result_action="return_value")


def test_a_hub_without_a_journal() -> None:
    """Can be published to, and has nothing to archive."""
    with HubWithJournal(None) as hub:
        check_connection(Access(hub.url))
        with pytest.raises(RejectedError, match="journal"):
            check_journal(Access(hub.url))
        with pytest.raises(RejectedError, match="journal"):
            wait_journal(Access(hub.url), print)


def test_a_job_that_begins_before_its_hub(hub: HubWithJournal) -> None:
    """Waits, and says so once."""
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


@pytest.mark.parametrize("words", [["report"], ["route"], ["replay"]])
def test_an_archive_that_is_not_there(words: list[str], tmp_path: Path) -> None:
    """Likewise."""
    subscriptions = tmp_path / "subscriptions.csv"
    subscriptions.write_text("name,prefix\na,/a\n")
    more = [str(subscriptions)] if words == ["route"] else []
    with pytest.raises(UsageError, match="nothing: there is no such archive"):
        app([*words, str(tmp_path / "nothing"), *more], result_action="return_value")
