"""`hub spark archive` and `hub spark replay` as commands: flags, output and exit codes, in the session of the tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from hub.errors import InvalidTopicError, UsageError
from peers.cli.spark import app, archive
from peers.cli.spark_jobs import How, replay
from tests.spark.hubs import HubWithJournal


def run(*words: str) -> int:
    return app(words, result_action="return_value") or 0


def figures(told: str) -> dict[str, str]:
    rows = [line.rsplit(maxsplit=2) for line in told.splitlines() if line.strip()]
    return {f"{row[0].strip()} {row[1]}": row[2] for row in rows if len(row) == 3}


@pytest.mark.usefixtures("spark")
def test_there_and_back(hub: HubWithJournal, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What a hub has recorded goes into an archive, and from there to another hub, the same and in order."""
    hub.fill_numbers(1000)
    path = str(tmp_path / "archive")
    assert (
        run("archive", "--url", hub.url, "--to", path, "--topics", "/n/0,/n/1", "--compact", "--consumer", "files") == 0
    )
    told = figures(capsys.readouterr().out)
    assert (told["messages messages"], told["to offset"], told["left in the hub offsets"]) == ("500", "1,000", "0")
    with hub.client() as client:
        (row,) = client.request("$hub/consumers", None)
        assert (row["name"], row["prefixes"], row["position"], row["lag"]) == ("files", ["/n/0", "/n/1"], 1_000, 0)
    with HubWithJournal(tmp_path / "other") as other:
        assert run("replay", path, "--url", other.url, "--full-speed", "--topics", "/n/1") == 0
        told = figures(capsys.readouterr().out)
        assert (told["published messages"], told["to offset"]) == ("250", "998")
        assert other.records() == hub.records("/n/1")


@pytest.mark.usefixtures("spark")
def test_a_replay_that_is_broken_off(
    hub: HubWithJournal, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.fill_numbers(10)
    path = str(tmp_path / "archive")
    archive(url=hub.url, to=path)
    monkeypatch.setattr("peers.spark.replay._REPORTED_MESSAGES", 1)
    monkeypatch.setattr("peers.cli.spark_jobs._advance", lambda *_: hub.stop())
    assert replay(path, url=hub.url, how=How(full_speed=True)) == 2
    assert "go on with --from-offset" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["archive", "--to", "x", "--every", "0s"], "--every: 0.1 s or more expected"),
        (["archive", "--to", "x", "--consumer", "a/b"], "--consumer a/b: 1 to 128 letters"),
        (["replay", "x", "--speed", "2", "--rate", "3"], "exclude each other"),
        (["replay", "x", "--speed", "0"], "--speed 0: give more than 0; 1 is as recorded"),
        (["replay", "x", "--start", "2026-11-21", "--end", "2026-11-20"], "is not before"),
    ],
)
@pytest.mark.usefixtures("spark")
def test_flags_that_make_no_sense(words: list[str], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        run(*words)
    assert said in str(caught.value)
    with pytest.raises(InvalidTopicError):
        run("archive", "--to", "x", "--topics", "/a\x00")
