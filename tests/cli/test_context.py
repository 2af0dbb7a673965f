"""Contexts, and tokens: from a file, the terminal or the environment, never from a flag."""

from __future__ import annotations

import getpass
import json
import os
import re
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from peers.cli import contexts as module
from peers.cli.commands import app
from peers.cli.contexts import HubFlags, first_token, text_or_path
from peers.cli.notices import Notices, shown_token
from peers.cli.texts import FlagError
from tests.cli.programs import PROJECT, RunningHub, hub, run_hub

NOWHERE = "unix:///nonexistent/hub.sock"


Run = Callable[..., subprocess.CompletedProcess[bytes]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[bytes]:
        return hub(*arguments, XDG_CONFIG_HOME=str(tmp_path / "config"), **variables)

    return run


@pytest.fixture(scope="module")
def guarded_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningHub, Path]]:
    folder = tmp_path_factory.mktemp("guarded")
    token = folder / "admin-token"
    with run_hub(folder, "--access-admin-token", str(token)) as running:
        yield running, token


def file_of(tmp_path: Path) -> Path:
    return tmp_path / "config" / "topichub" / "contexts.json"


def test_the_life_of_a_context(run: Run, tmp_path: Path, running_hub: RunningHub) -> None:
    none = run("context", "ls")
    assert (none.returncode, none.stdout) == (0, b"")
    assert none.stderr == b"hub context: there are no contexts; hub context add NAME --url URL makes one\n"
    assert run("context", "add", "far", "--url", NOWHERE).returncode == 0
    assert run("context", "add", "near", "--url", running_hub.tcp, "--use").returncode == 0
    assert run("context", "ls").stdout.decode().splitlines() == [
        "name  in use  url" + " " * (len(NOWHERE) - 3) + "  token file",
        f"far   -       {NOWHERE}  -",
        f"near  yes     {running_hub.tcp.ljust(len(NOWHERE))}  -",
    ]
    listed = [json.loads(line) for line in run("context", "ls", "--json").stdout.splitlines()]
    assert [(one["name"], one["in_use"], one["url"]) for one in listed] == [
        ("far", False, NOWHERE),
        ("near", True, running_hub.tcp),
    ]
    assert run("pub", "/context", "1").returncode == 0
    assert run("pub", "/context", "1", "--context", "far").returncode == 1
    assert run("context", "use", "far").returncode == 0
    assert b"/nonexistent/hub.sock" in run("check").stdout
    assert run("context", "rm", "far").returncode == 0
    assert json.loads(file_of(tmp_path).read_text()) == {"use": "", "contexts": {"near": {"url": running_hub.tcp}}}
    assert b"tcp://127.0.0.1:7400" in run("check").stdout


def test_its_file_holds_no_token(run: Run, tmp_path: Path, guarded_hub: tuple[RunningHub, Path]) -> None:
    guarded, token = guarded_hub
    assert run("pub", "/a", "1", HUB_URL=guarded.tcp).returncode == 1
    added = run("context", "add", "work", "--url", guarded.tcp, "--token-file", str(token))
    assert (added.returncode, added.stdout, added.stderr) == (0, b"", b"")
    file = file_of(tmp_path)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert token.read_text().strip() not in file.read_text()
    assert json.loads(file.read_text())["contexts"]["work"]["token_file"] == str(token)
    assert run("pub", "/a", "1", "--context", "work").returncode == 0
    assert run("who", HUB_CONTEXT="work").returncode == 0
    assert run("check", "--context", "work").returncode == 0


def test_what_is_shown_to_one_hub_reaches_no_other(run: Run, guarded_hub: tuple[RunningHub, Path]) -> None:
    guarded, token = guarded_hub
    run("context", "add", "work", "--url", guarded.tcp, "--token-file", str(token), "--use")
    assert run("pub", "/a", "1").returncode == 0
    for arguments, variables in (
        (("--url", guarded.tcp), {}),
        (("--url", guarded.tcp), {"HUB_CONTEXT": "work"}),
        ((), {"HUB_URL": guarded.tcp}),
    ):
        refused = run("pub", "/a", "1", *arguments, **variables)
        assert b"not recognised" in refused.stderr
    run("context", "add", "bare", "--url", guarded.tcp)
    assert b"not recognised" in run("pub", "/a", "1", "--context", "bare", HUB_TOKEN_FILE=str(token)).stderr
    assert run("pub", "/a", "1", "--context", "bare", HUB_TOKEN=token.read_text().strip()).returncode == 0
    assert run("pub", "/a", "1", "--context", "bare", "--token-file", str(token)).returncode == 0
    assert run("pub", "/a", "1", HUB_CONTEXT="work", HUB_URL=NOWHERE).returncode == 0


def test_mistakes(run: Run, tmp_path: Path) -> None:
    run("context", "add", "work", "--url", NOWHERE)
    before = file_of(tmp_path).read_bytes()
    for arguments, told in (
        (("pub", "/a", "1", "--context", "wrok"), "there is no context 'wrok'; `hub context ls` lists them: work"),
        (("pub", "/a", "1", "--context", "work", "--url", NOWHERE), "--context and --url exclude each other"),
        (("context", "add", "work", "--url", NOWHERE), "there is a context work already; --replace replaces it"),
        (("context", "add", "a b", "--url", NOWHERE), "'a b': the name of a context is up to 64 letters"),
        (("context", "add", "a", "--url", "work"), "'work': a URL starts with"),
        (
            ("context", "add", "a", "--url", NOWHERE, "--token-file", "no"),
            "--token-file: the file of the token 'no' cannot be read",
        ),
        (("context", "add", "a", "--url", NOWHERE, "--token-file", "-"), "--token-file: "),
        (("context", "add", "a", "--url", NOWHERE, "--ca", "no.pem"), "--ca: there is no file no.pem"),
        (("context", "use", "a"), "there is no context 'a'"),
        (("context", "use"), "give the name of a context, or --none"),
        (("context", "rm", "a"), "there is no context 'a'"),
        (
            ("pub", "/a", "1", "--token-file", "/nowhere"),
            "--token-file: the file of the token '/nowhere' cannot be read",
        ),
    ):
        done = run(*arguments)
        (line,) = done.stderr.decode().splitlines()
        assert line.startswith(f"hub: {told}"), line
        assert done.returncode == 2
    assert file_of(tmp_path).read_bytes() == before
    assert run("context", "add", "work", "--url", "unix:///other.sock", "--replace").returncode == 0
    assert b"/other.sock" in run("context", "ls").stdout


def test_a_file_that_cannot_be_used(run: Run, tmp_path: Path) -> None:
    """It is never taken for an empty one; commands that are told where the hub is do not look at it."""
    run("context", "add", "work", "--url", NOWHERE, "--use")
    file = file_of(tmp_path)
    file.chmod(0o620)
    for content, told in (
        (None, "others may write this file, so it is not used: chmod 600 "),
        (b"{", "not a file of contexts: "),
        (b'{"contexts": {"a": {"url": "b", "token": "c"}}}', "not a file of contexts: "),
        (b'{"use": "a"}', "the context in use, 'a', is not there: hub context use NAME"),
    ):
        if content is not None:
            file.chmod(0o600)
            file.write_bytes(content)
        done = run("pub", "/a", "1")
        (line,) = done.stderr.decode().splitlines()
        assert line.startswith(f"hub: {file}: {told}"), line
        assert done.returncode == 1
        assert b"/nonexistent/hub.sock" in run("check", NOWHERE).stdout


def test_the_page_is_right(tmp_path: Path) -> None:
    text = (PROJECT / "docs" / "command-line.md").read_text().partition("\n### hub context\n")[2].partition("\n### ")[0]
    (block,) = re.findall(r"^```console\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (tmp_path / "token").write_text("hub_x\n")
    for line in block.splitlines():
        assert line.startswith("$ hub ")
        words = line.partition("#")[0].split()[2:]
        done = hub(
            *(str(tmp_path / "token") if word == "~/token" else word for word in words), XDG_CONFIG_HOME=str(tmp_path)
        )
        assert done.returncode == (0 if words[0] == "context" else 1), (line, done.stderr)
        assert words[0] == "context" or b"hub.example.org" in done.stderr


SECRET = "hub_c2VjcmV0"


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
