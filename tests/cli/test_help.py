"""What `--help` shows."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import pytest
from cyclopts import App, CycloptsError

from hub.settings.keys import KEYS
from peers.cli.commands import app
from tests.cli.programs import hub


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
        try:
            app.parse_args(words[1:], print_error=False, exit_on_error=False)
        except CycloptsError as error:
            pytest.fail(f"{line}: {error}")


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
