"""The examples of docs/command-line.md."""

from __future__ import annotations

import gzip
import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from cyclopts import CycloptsError

from peers.cli.commands import app
from tests.cli.programs import PATIENCE_S, PROJECT, RunningHub, environment_of_shell

TEXT = (PROJECT / "docs" / "command-line.md").read_text()

BLOCKS = re.findall(r"^(<!-- runs -->\n)?```sh\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)

COMMANDS = sorted({line for _, block in BLOCKS for line in block.splitlines() if "hub " in line})

RUNNING = [block for runs, block in BLOCKS if runs]


def arguments(line: str) -> list[str]:
    """The arguments of the `hub` in a line of shell, without what it is piped from and to."""
    shell = shlex.shlex(line, posix=True, punctuation_chars="|>")
    shell.whitespace_split = True
    words = list(shell)
    rest = words[words.index("hub") + 1 :]
    ends = [rest.index(mark) for mark in ("|", ">") if mark in rest]
    return rest[: min(ends, default=None)]


@pytest.mark.parametrize("line", COMMANDS)
def test_every_example_is_understood(line: str) -> None:
    try:
        app.parse_args(arguments(line), print_error=False, exit_on_error=False)
    except CycloptsError as error:
        pytest.fail(f"{line}: {error}")


@pytest.mark.parametrize("block", RUNNING)
def test_examples_that_end_by_themselves_run(running_hub: RunningHub, tmp_path: Path, block: str) -> None:
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\r\n")
    records = [
        {"_path": path, "ts": 1521911720.5 + number / 10, "id.orig_h": "10.0.0.7"}
        for number in range(10)
        for path in ("dns", "ssl", "conn")
    ]
    (tmp_path / "zeek.ndjson.gz").write_bytes(
        gzip.compress("".join(f"{json.dumps(one)}\n" for one in records).encode())
    )
    result = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block],
        cwd=tmp_path,
        env=environment_of_shell(tmp_path, HUB_URL=running_hub.tcp),
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
        text=True,
    )
    assert (result.returncode, result.stderr) == (0, ""), result.stdout


def test_every_command_is_described() -> None:
    commands = [name for name in app if not name.startswith("-")]
    assert sorted(re.findall(r"^## hub (\S+)$", TEXT, re.MULTILINE)) == sorted(commands)
