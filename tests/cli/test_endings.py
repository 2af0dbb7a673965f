"""How commands end when nobody reads them any more, and by Ctrl-C: quietly, and never with a traceback."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from pathlib import Path

import pytest

from peers.cli.commands import app
from tests.cli.programs import (
    HUB,
    PATIENCE_S,
    PROJECT,
    RunningHub,
    environment,
    hub,
    interpreted,
    start,
    wait_subscribed,
)

COMMANDS = {
    "help": ["--help"],
    "version": ["--version"],
    "pub": ["pub", "/endings/a", "-"],
    "sub": ["sub", "/endings/", "$hub/statistics"],
    "sub pretty": ["sub", "$hub/statistics", "--format", "pretty"],
    "serve": ["serve", "/endings/serve", "--exec", "cat"],
    "names": ["names", "--json"],
    "top": ["top"],
}


@pytest.mark.parametrize("name", ["help", "pub", "sub pretty", "serve"])
def test_a_reader_that_has_gone_ends_a_command_quietly(running_hub: RunningHub, name: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    process = interpreted(*COMMANDS[name], url=running_hub.tcp, stdin=subprocess.PIPE, stdout=writer)
    os.close(writer)
    _, said = process.communicate(b"1\n2\n", timeout=PATIENCE_S)
    assert b"Traceback" not in said
    assert b"rror" not in said
    assert process.returncode in {0, 1}


def test_history_into_a_pipe_that_closes_after_a_line(running_hub: RunningHub) -> None:
    with start("sub", "/endings/many", "--name", "endings many", url=running_hub.unix) as process:
        wait_subscribed(running_hub.tcp, "endings many")
        assert hub("pub", "/endings/many", url=running_hub.tcp, stdin=b"1234567890\n" * 200_000).returncode == 0
        assert process.stdout is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.wait(PATIENCE_S) == 1
        assert process.stderr is not None
        assert process.stderr.read() == b""


@pytest.mark.parametrize("name", ["pub", "serve", "top"])
def test_ctrl_c_ends_a_command_quietly(running_hub: RunningHub, name: str) -> None:
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


def one_line(said: bytes) -> str:
    """Return what a command has said on standard error, which must be one line of its own."""
    text, end = said.decode()[:-1], said.decode()[-1:]
    assert end == "\n"
    assert "\n" not in text
    assert text.startswith("hub: ")
    return text.removeprefix("hub: ")


MISREAD: list[tuple[list[str], str]] = [
    (["sub", "--timeout", "10m"], "--timeout 10m: give a number, such as 1.5"),
    (["sub", "--limit", "x"], "--limit x: give a whole number"),
    (["sub", "--full=maybe"], "--full maybe: give yes or no"),
    (["sub", "--format", "xml"], "--format xml: give one of pretty, json"),
    (["top", "--sort", "x"], "--sort x: give one of rate, queue, dropped, name"),
    (["sub", "--from-time", "yesterday"], "--from-time yesterday: give a time, such as 2026-11-21T12:00:00Z"),
    (["sub", "--timout", "3"], "--timout: there is no such flag; did you mean --timeout?"),
    (["sub", "--timeout"], "--timeout: a value must follow it"),
    (["sub", "--name", "a", "--name", "b"], "Parameter --name specified multiple times"),
    (["request"], "TOPIC is missing"),
    (["pub", "/a", "1", "2"], "2: unexpected argument"),
    (["--nonsense"], "--nonsense: there is no such flag"),
    (["journl"], "journl: there is no such command; did you mean journal?"),
    (
        ["journal", "x"],
        "x: there is no such command; there are ls, stat, export, consumers, backup, restore, tier, verify",
    ),
]
SENSELESS: list[tuple[list[str], str]] = [
    (["pub", "/a", "1", "--name", "n" * 65], "--name: 65 bytes given, at most 64 are taken"),
    (["names", "--name", "\udcff"], "--name: not UTF-8 at character 0"),
    (["sub", "--timeout", "nan"], "--timeout nan: give more than 0 seconds"),
    (["sub", "--queue-messages", "9" * 20], f"--queue-messages {'9' * 20}: give {2**63 - 1} or less"),
    (["sub", "--from-time", "0001-01-01"], "--from-time 0001-01-01 00:00:00: give a time of 1970 or later"),
    (["sub", "--rule", ","], "--rule ',': give one label or several, as a,b"),
    (["pub", "/a", "-", "--rate", "nan"], "--rate nan: give more than 0 messages a second"),
    (["request", "/a", "1", "--timeout", "4000"], "--timeout 4000: give more than 0 and at most 3600 seconds"),
    (["check", "--timeout", "-5"], "--timeout -5: give more than 0 seconds"),
    (["check", "--warn-ms", "nan"], "--warn-ms nan: give 0 or more milliseconds"),
    (["top", "--interval", "nan"], "--interval nan: hubs announce their handlers once a second, give 1 or more"),
    (
        ["pub", "/a", "[]", "--zeek-event", ""],
        "--zeek-event: the name of the event is empty; give one such as Demo::block",
    ),
    (
        ["pub", "/a", "[18446744073709551616]", "--zeek-event", "X"],
        f"argument 1: {2**64} is not a count: expected 0 to 2^64 - 1",
    ),
    (
        ["run", "--queue-messages", "many"],
        "flag --queue-messages: queue.messages: 'many' given, expected a whole number from 1 to 1000000000 (messages)",
    ),
]


@pytest.mark.parametrize(("arguments", "told"), MISREAD + SENSELESS)
def test_one_line_says_what_is_wrong_where_and_what_is_right(arguments: list[str], told: str) -> None:
    done = hub(*arguments, HUB_URL="tcp://127.0.0.1:1", COLUMNS="40")
    if (arguments, told) in MISREAD:
        told += f"; see `hub {f'{arguments[0]} ' if arguments[0] in app else ''}--help`"
    assert (done.returncode, done.stdout, one_line(done.stderr)) == (2, b"", told)


def test_settings_of_a_file_are_not_flags(tmp_path: Path) -> None:
    file = tmp_path / "hub.toml"
    file.write_text("[queue]\nmesages = 3\n")
    done = hub("check-config", "--config", str(file))
    assert (done.returncode, done.stdout) == (1, b"")
    assert one_line(done.stderr) == f"{file}: queue.mesages: unknown key in [queue]; did you mean queue.messages?"


def test_a_token_that_cannot_be_said(running_hub: RunningHub) -> None:
    variables = {"HUB_TOKEN": "\udcff"}
    done = hub("names", url=running_hub.tcp, **variables)
    assert (done.returncode, done.stdout) == (1, b"")
    assert one_line(done.stderr) == "the client's token is not UTF-8 at character 0"


@pytest.mark.parametrize("name", ["help", "pub", "sub"])
def test_a_full_disk_is_told_in_one_line(running_hub: RunningHub, name: str) -> None:
    with (
        Path("/dev/full").open("wb") as full,
        interpreted(*COMMANDS[name], url=running_hub.tcp, stdin=subprocess.PIPE, stdout=full) as process,
    ):
        _, said = process.communicate(b"1\n2\n", timeout=PATIENCE_S)
    assert one_line(said) == "standard output cannot be written: No space left on device"
    assert process.returncode == 1


@pytest.mark.parametrize("name", ["version", "sub", "names"])
def test_output_that_nobody_wants_is_no_error(running_hub: RunningHub, name: str) -> None:
    limit = ["--limit", "1"] if name == "sub" else []
    command = shlex.join([*HUB, *COMMANDS[name], *limit])
    done = subprocess.run(
        ["sh", "-c", f"exec {command} >&-"],
        cwd=PROJECT,
        env=environment(HUB_URL=running_hub.tcp),
        input=b"1\n",
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
