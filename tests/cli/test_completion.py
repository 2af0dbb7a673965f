"""`hub completion`: what shells offer."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

import pytest

from peers.cli.commands import app
from tests.cli.programs import environment_of_shell, hub


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
