"""How commands end when nobody reads them any more, and by Ctrl-C: quietly, and never with a traceback."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cli.programs import HUB, PATIENCE_S, PROJECT, RunningHub, environment, hub, start, wait_subscribed

COMMANDS = {
    "help": ["--help"],
    "help of a command": ["sub", "--help"],
    "version": ["--version"],
    "pub": ["pub", "/endings/a", "-"],
    "sub": ["sub", "/endings/", "$hub/statistics"],
    "sub pretty": ["sub", "$hub/statistics", "--format", "pretty"],
    "sub count": ["sub", "$hub/statistics", "--format", "count"],
    "serve": ["serve", "/endings/serve", "--echo"],
    "names": ["names", "--json"],
    "top": ["top"],
    "top once": ["top", "--once"],
    "check": ["check"],
    "check-config": ["check-config"],
    "bench": ["bench", "--messages", "1000"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_reader_that_has_gone_ends_a_command_quietly(running_hub: RunningHub, name: str) -> None:
    """As `| head` does after its lines: nothing on standard error, whatever the command was about to write."""
    reader, writer = os.pipe()
    os.close(reader)
    process = subprocess.Popen(
        [*HUB, *COMMANDS[name]],
        cwd=PROJECT,
        env=environment(HUB_URL=running_hub.tcp),
        stdin=subprocess.PIPE,
        stdout=writer,
        stderr=subprocess.PIPE,
    )
    os.close(writer)
    _, said = process.communicate(b"1\n2\n", timeout=PATIENCE_S)
    assert b"Traceback" not in said
    assert b"rror" not in said
    assert process.returncode in {0, 1}


def test_history_into_a_pipe_that_closes_after_a_line(running_hub: RunningHub) -> None:
    """Many lines are written when the reader goes: the write that waits is the one that fails."""
    with start("sub", "/endings/many", "--name", "endings many", url=running_hub.unix) as process:
        wait_subscribed(running_hub.tcp, "endings many")
        assert hub("pub", "/endings/many", url=running_hub.tcp, stdin=b"1234567890\n" * 200_000).returncode == 0
        assert process.stdout is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.wait(PATIENCE_S) == 1
        assert process.stderr is not None
        assert process.stderr.read() == b""


@pytest.mark.parametrize("name", ["pub", "sub", "sub count", "serve", "top"])
def test_ctrl_c_ends_a_command_quietly(running_hub: RunningHub, name: str) -> None:
    """Exit code 130, and nothing that frightens on standard error."""
    process = start(*COMMANDS[name], "--name", f"interrupted {name}", url=running_hub.tcp)
    if name == "pub":
        assert process.stdin is not None
        process.stdin.write(b"1\n")
        process.stdin.flush()
        received = hub("sub", "$hub/statistics", "--limit", "2", url=running_hub.tcp)  # it is connected by then
        assert received.returncode == 0
    elif name == "serve":
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"serving")
    else:
        wait_subscribed(running_hub.tcp, f"interrupted {name}")
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=PATIENCE_S)
    assert b"Traceback" not in said
    assert process.returncode == 130


@pytest.mark.parametrize(
    "arguments",
    [
        ["pub"],
        ["pub", "/a", "1", "--rate", "5"],
        ["pub", "/a", "-", "--rate", "0"],
        ["pub", "/a", "-", "--limit", "0"],
        ["sub", "--limit", "0"],
        ["sub", "--timeout", "0"],
        ["sub", "--queue-messages", "0"],
        ["sub", "--queue-bytes", "many"],
        ["sub", "--from-offset", "-1"],
        ["sub", "--no-such-flag"],
        ["sub", "--limit", "many"],
        ["request", "/a", "1", "--timeout", "0"],
        ["serve"],
        ["serve", "/a"],
        ["serve", "/a", "--echo", "--limit", "0"],
        ["serve", "/a", "--echo", "--concurrency", "0"],
        ["top", "--interval", "0"],
        ["check", "--timeout", "0"],
        ["check", "http:/x"],
        ["sub", "--url", "nowhere"],
        ["nothing"],
    ],
)
def test_flags_that_make_no_sense_are_told_before_anything_is_done(arguments: list[str], tmp_path: Path) -> None:
    """Exit code 2, without a traceback: scripts can tell their own mistakes from those of the hub."""
    done = hub(*arguments, HUB_URL=f"unix://{tmp_path}/no-hub")
    assert (done.returncode, done.stdout if done.returncode != 2 else b"") == (2, b"")
    assert b"Traceback" not in done.stderr
