"""What a command shows for who runs it: from a file, from the terminal, or from the environment; never from a flag."""

from __future__ import annotations

import getpass
import os
from pathlib import Path

import pytest

from peers.cli import url as module
from peers.cli.commands import app
from peers.cli.flag_values import FlagError
from peers.cli.notices import Notices
from peers.cli.url import HubFlags, first_token, shown_token, text_or_path
from tests.cli.programs import hub

SECRET = "hub_c2VjcmV0"


def test_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HUB_TOKEN", raising=False)
    assert shown_token("") == ""
    monkeypatch.setenv("HUB_TOKEN", SECRET)
    assert shown_token("") == SECRET
    assert text_or_path("") == (SECRET, "")


async def test_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUB_TOKEN", "another")
    file = tmp_path / "token"
    file.write_text(SECRET)
    shown = shown_token(str(file))
    assert callable(shown)
    assert shown() == first_token(str(file)) == SECRET
    file.write_text("fresh")
    assert shown() == "fresh"
    assert text_or_path(str(file)) == ("", str(file))
    assert callable(Notices("sub").options(HubFlags(token_file=str(file)))["token"])


def test_a_file_that_is_none() -> None:
    with pytest.raises(FlagError, match="--token-file: the file of the token '/nowhere' cannot be read"):
        shown_token("/nowhere")


def test_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def ask(prompt: str) -> str:
        asked.append(prompt)
        return f" {SECRET} "

    monkeypatch.setattr(module, "_TERMINAL", Path(os.devnull))
    monkeypatch.setattr(getpass, "getpass", ask)
    assert shown_token("-") == SECRET
    assert asked == ["token: "]
    monkeypatch.setattr(getpass, "getpass", lambda _: "")
    with pytest.raises(FlagError, match="no token was given"):
        shown_token("-")


def test_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_TERMINAL", Path("/nowhere"))
    with pytest.raises(FlagError, match="there is no terminal to ask"):
        shown_token("-")


def test_there_is_no_flag_for_the_token() -> None:
    refused = hub("pub", "/a", "1", "--token", SECRET)
    assert refused.returncode == 2
    assert SECRET.encode() not in refused.stderr


@pytest.mark.parametrize("command", ["pub", "names", "who", "check"])
def test_the_hyphen_that_asks_is_taken(command: str) -> None:
    _, bound, _ = app.parse_args([command, "--token-file", "-"], print_error=False, exit_on_error=False)
    assert repr("-") in repr(bound)
