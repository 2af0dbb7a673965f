"""Documents, help and completion: every example is understood, and those that end by themselves run."""

from __future__ import annotations

import gzip
import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from cyclopts import App, CycloptsError

from hub.policy.policy import Action
from hub.settings.keys import KEYS
from peers.cli.commands import app
from tests.cli.journals import commit, opened
from tests.cli.programs import PROJECT, RunningHub, environment_of_shell, hub, run_in, run_shell

TEXT = (PROJECT / "docs" / "command-line.md").read_text()

OBSERVABILITY = (PROJECT / "docs" / "observability.md").read_text()

BLOCKS = re.findall(r"^(<!-- runs -->\n)?```sh\n(.*?)^```$", TEXT + OBSERVABILITY, re.MULTILINE | re.DOTALL)

RUNNING = [block for runs, block in BLOCKS if runs]


PAGES = sorted(page for folder in ("docs", "docs/how-to") for page in (PROJECT / folder).glob("*.md"))
ENDS = {"|", ">", "<", "&", "&&", ";", "2>"}
"""Words that end a command in a shell."""


def commands_of(page: Path) -> list[str]:
    kinds = "sh" if page.stem == "command-line" else "(?:sh|console)"  # its dialogue runs in test_context
    blocks = re.findall(rf"^```{kinds}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    return [line for line in lines if re.match(r"(\$ )?(\w+=\S+ )*([^#]*\| )?hub [a-z]", line)]


def words(line: str) -> list[str]:
    found = shlex.split(line, comments=True)
    found = found[found.index("hub") + 1 :]
    return found[: next((index for index, word in enumerate(found) if word in ENDS), None)]


def check_understood(line: str, words: list[str]) -> None:
    try:
        app.parse_args(words, print_error=False, exit_on_error=False)
    except CycloptsError as error:
        pytest.fail(f"{line}: {error}")


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(PROJECT)) for page in PAGES])
def test_every_example_is_understood(page: Path) -> None:
    for line in commands_of(page):
        check_understood(line, words(line))


@pytest.mark.parametrize("block", RUNNING)
def test_examples_that_end_by_themselves_run(running_hub: RunningHub, tmp_path: Path, block: str) -> None:
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\r\n")
    records = [
        json.dumps({"_path": path, "ts": 1521911720.5 + number / 10, "id.orig_h": "10.0.0.7"})
        for number in range(10)
        for path in ("dns", "ssl", "conn")
    ]
    (tmp_path / "zeek.ndjson.gz").write_bytes(gzip.compress("\n".join(records).encode()))
    run_shell(block, tmp_path, HUB_URL=running_hub.tcp)


def test_every_command_is_described() -> None:
    commands = [name for name in app if not name.startswith("-")]
    assert sorted(re.findall(r"^### hub (\S+)$", TEXT, re.MULTILINE)) == sorted(commands)


def commands(of: App) -> Iterator[tuple[str, App]]:
    for name in of:
        if not name.startswith("-"):
            yield name, of[name]


@pytest.mark.parametrize(("name", "command"), list(commands(app)))
def test_each_command_has_two_examples_that_it_understands(name: str, command: App) -> None:
    lines = re.findall(r"`(hub .*?)`", command.help_epilogue or "")
    assert len(lines) >= 2
    for line in lines:
        words = shlex.split(line.partition(" > ")[0])
        assert words[1] == name
        check_understood(line, words[1:])


def test_run_shows_the_flags_of_the_first_day() -> None:
    shown = hub("run", "--help").stdout.decode()
    flags = re.findall(r"(--[a-z][a-z-]*)(?= STR)", shown)
    assert set(flags) == {
        *("--config", "--listen", "--peer", "--name", "--queue-overflow", "--journal", "--journal-topics", "--store"),
        *("--access-policy", "--tls-certificate"),
    }
    assert f"{len(KEYS) - 9} more flags" in shown
    assert "hub check-config --explain" in shown
    assert len(shown.splitlines()) < 50


def test_every_setting_is_explained() -> None:
    shown = hub("check-config", "--explain", "--limits-memory-bytes", "256MiB").stdout.decode()
    assert [path for path in KEYS if f"\n    {path} = " not in shown] == []
    assert "limits.memory_bytes = 268435456 bytes (flag --limits-memory-bytes)" in shown


@cache
def script() -> str:
    return app.generate_completion(shell="bash")  # noqa: S604 -- no command is run


def offered(tmp_path: Path, *words: str) -> list[str]:
    file = tmp_path / "hub.bash"
    file.write_text(script())
    quoted = " ".join(f"'{word}'" for word in words)
    asked = f'source "$0"; COMP_WORDS=(hub {quoted}); COMP_CWORD={len(words)}; _hub; printf "%s\\n" "${{COMPREPLY[@]}}"'
    done = subprocess.run(
        ["bash", "-c", asked, str(file)],
        env=environment_of_shell(tmp_path, XDG_CONFIG_HOME=str(tmp_path / "config")),
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "some"),
    [
        (("co",), {"consume", "context", "completion"}),
        (("context", ""), {"add", "ls", "use", "rm"}),
        (("pub", "--zeek"), {"--zeek-event"}),
        (("sub", "--overflow", ""), {"drop-oldest", "drop-newest", "disconnect"}),
        (("completion", ""), {"bash", "zsh", "fish", "powershell"}),
    ],
)
def test_commands_flags_and_choices(tmp_path: Path, words: tuple[str, ...], some: set[str]) -> None:
    found = set(offered(tmp_path, *words))
    assert some <= found
    assert all(word.startswith(words[-1]) for word in found)


def test_names_of_contexts(tmp_path: Path) -> None:
    """They are asked for when they are wanted, so that one that was added just now is offered."""
    for name in ("work", "world", "home"):
        hub("context", "add", name, "--url", "tcp://127.0.0.1:1", XDG_CONFIG_HOME=str(tmp_path / "config"))
    assert sorted(offered(tmp_path, "pub", "--context", "wor")) == ["work", "world"]


def test_the_command_writes_the_script() -> None:
    done = hub("completion", "bash")
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode() == script() + "\n"


POLICY_PAGE = (PROJECT / "docs" / "policy.md").read_text()
POLICY = re.findall(r"^```toml\n(.*?)^```$", POLICY_PAGE, re.MULTILINE | re.DOTALL)
DIALOGUES = [
    example
    for block in re.findall(r"^```\n(\$ .*?)^```$", POLICY_PAGE, re.MULTILINE | re.DOTALL)
    for example in re.findall(r"^\$ (hub .*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
]


@pytest.mark.parametrize(("line", "said"), DIALOGUES, ids=[line for line, _ in DIALOGUES])
def test_each_command_says_what_stands_there(line: str, said: str, tmp_path: Path) -> None:
    (policy,) = POLICY
    (tmp_path / "policy.toml").write_text(policy)
    ended = run_in(tmp_path, *shlex.split(line)[1:])
    assert (ended.stdout, ended.stderr) == (said, "")
    assert ended.returncode == said.startswith("refused")


def test_there_are_examples() -> None:
    assert len(DIALOGUES) == 8
    assert {said.partition(":")[0] for _, said in DIALOGUES} >= {"allowed", "refused"}


def test_every_action_is_described() -> None:
    keys = set(re.findall(r"`(\w+)`", POLICY_PAGE.partition("## Permissions")[2].partition("Each is a list")[0]))
    assert {action.value for action in Action} - {"bring", "take"} <= keys
    assert "link = { bring, take }" in POLICY_PAGE


JOURNAL_BLOCKS = re.findall(r"^<!-- runs on a journal -->\n```sh\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("block", JOURNAL_BLOCKS)
def test_examples_on_a_journal_run(tmp_path: Path, block: str) -> None:
    store = opened(tmp_path / "journal")
    commit(store, *((f"/zeek/{('dns', 'ssl')[number % 2]}", {"n": number}) for number in range(300)))
    assert run_shell(block, tmp_path)
    store.close()
