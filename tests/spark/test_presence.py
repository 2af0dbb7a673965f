"""A hub or an archive that is not there is told before Java is started."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

import pytest

from hub.errors import ConnectionLostError, PeerError, RejectedError, UsageError
from peers.cli.spark import app
from peers.spark.connector.connection import AGAIN_S, ask_journal, wait_journal
from peers.spark.connector.options import Access
from tests.spark.hubs import HubWithJournal

NOBODY = "tcp://127.0.0.1:1"


@pytest.fixture(autouse=True)
def no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    def started(*_: Any, **__: Any) -> NoReturn:
        pytest.fail("a session was to be started")

    monkeypatch.setattr("peers.cli.spark.running_job", started)


def test_a_hub_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "archive"
    with pytest.raises(ConnectionLostError, match="is the hub running"):
        app(["archive", "--url", NOBODY, "--to", str(path)], result_action="return_value")
    assert not path.exists()


def test_a_hub_without_a_journal() -> None:
    with HubWithJournal(None) as hub:
        with pytest.raises(RejectedError, match="journal"):
            ask_journal(Access(hub.url))
        with pytest.raises(RejectedError, match="journal"):
            wait_journal(Access(hub.url), print)


def test_a_job_that_begins_before_its_hub(hub: HubWithJournal) -> None:
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
    subscriptions = tmp_path / "subscriptions.csv"
    subscriptions.write_text("name,prefix\na,/a\n")
    more = [str(subscriptions)] if words == ["route"] else []
    with pytest.raises(UsageError, match="nothing: there is no such archive"):
        app([*words, str(tmp_path / "nothing"), *more], result_action="return_value")
