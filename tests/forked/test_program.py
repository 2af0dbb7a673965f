"""A program that was forked from the server is what a new interpreter would be, in all that a test can see."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.forked import program
from tests.forked.program import PROJECT, Program, origins, server_pid

PATIENCE_S = 60

PROBE = "tests.forked.probe"

Start = Callable[..., subprocess.Popen[Any]]


@pytest.fixture
def own_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A server for this test: other tests have programs that run."""
    monkeypatch.setattr(program, "_servers", [])
    yield
    program.end()


def forked(*arguments: str, **given: Any) -> subprocess.Popen[Any]:
    """The probe from the server."""
    return Program(*arguments, module=PROBE, **given)


def new(*arguments: str, **given: Any) -> subprocess.Popen[Any]:
    """The probe in an interpreter of its own."""
    return subprocess.Popen([sys.executable, "-m", PROBE, *arguments], **({"cwd": PROJECT} | given))


def ended(start: Start, *arguments: str, stdin: bytes = b"", **given: Any) -> tuple[int, bytes, bytes]:
    """Run it to its end; traceback lines of what stands around the module are left out."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with start(*arguments, **(pipes | given)) as process:
        stdout, stderr = process.communicate(stdin, PATIENCE_S)
    return process.returncode, stdout or b"", stderr or b""


def found(said: bytes) -> dict[str, Any]:
    """What the probe found."""
    told: dict[str, Any] = json.loads(said.splitlines()[0])
    return told


@pytest.mark.usefixtures("own_server")
@pytest.mark.parametrize("stderr", [subprocess.PIPE, subprocess.STDOUT])
def test_it_finds_what_a_new_interpreter_finds(tmp_path: Path, stderr: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arguments, environment, folder, path, streams, descriptors, handlers, and its own place as the main module."""
    monkeypatch.setenv("PYTHONPATH", str(PROJECT))  # for the folder is another one
    environment = os.environ | {"HUB_TOKEN": "\udcff", "EMPTY": ""}
    given = {"cwd": tmp_path, "env": environment, "stderr": stderr}
    (code, one, _), (code_of_new, other, _) = (ended(start, "0", "é", "\udcfe", "", **given) for start in (forked, new))
    assert found(one) == found(other)
    assert found(one)["folder"] == str(tmp_path)
    assert code == code_of_new == 0
    assert one.splitlines()[1:] == other.splitlines()[1:] == [b"the last word"]


def on_terminal(start: Start) -> dict[str, Any]:
    """What the probe finds on a terminal."""
    ours, theirs = os.openpty()
    environment = {**os.environ}  # what C has of its own in its environment is left out
    with start("0", stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        said = b""
        with suppress(OSError):  # how Linux tells the end
            while chunk := os.read(ours, 1 << 16):
                said += chunk
        assert process.wait(PATIENCE_S) == 0
    os.close(ours)
    return found(said)


def test_on_a_terminal() -> None:
    """Streams are as there."""
    one = on_terminal(forked)
    assert one == on_terminal(new)
    assert [stream["terminal"] for stream in one["streams"]] == [True] * 3


@pytest.mark.parametrize(
    "how", ["0", "3", "returns", "raises", "interrupts itself", "stops at once", "aborts", "reads", "cannot write"]
)
def test_it_ends_as_a_new_interpreter_ends(how: str) -> None:
    """With that code or signal, and the same last words."""
    (code, said, told), (code_of_new, said_by_new, told_by_new) = (
        ended(start, how, stdin=b"a\r\nb\xff") for start in (forked, new)
    )
    assert code == code_of_new
    assert found(said)["arguments"] == found(said_by_new)["arguments"]
    assert said.splitlines()[1:] == said_by_new.splitlines()[1:]
    assert told.splitlines()[-1:] == told_by_new.splitlines()[-1:]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_signals(number: signal.Signals) -> None:
    """Its id is that of the process, taken until it was waited for, and free afterwards."""
    codes = []
    for start in (forked, new):
        with start("waits", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            assert process.stdout is not None
            assert process.stdout.readline()
            assert process.poll() is None
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.01)
            process.send_signal(number)
            process.stdout.read()
            os.kill(process.pid, 0)
            codes.append(process.wait(PATIENCE_S))
            with pytest.raises(ProcessLookupError):
                os.kill(process.pid, 0)
            assert process.poll() == codes[-1]
            process.terminate()
    assert codes[0] == codes[1] < 0


def test_many_at_once() -> None:
    """Each has its own streams and its own end: pipes of one are closed when it ends, whatever others run."""
    running = [forked("waits", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) for _ in range(8)]
    for process in running:
        assert process.stdout is not None
        assert process.stdout.readline()
    for process in running[::-1]:
        assert process.stdout is not None
        process.kill()
        assert process.stdout.read() == b""
        process.stdout.close()
    assert [process.wait(PATIENCE_S) for process in running] == [-signal.SIGKILL] * 8


def test_one_that_nobody_waits_for() -> None:
    """It is named as long as it runs, by its test and its command."""
    process = forked("waits", stdout=subprocess.PIPE)
    assert origins[process.pid].test.startswith("tests/forked/test_program.py::test_one_that_nobody_waits_for")
    assert origins[process.pid].command == "hub waits"
    process.kill()
    process.communicate()


@pytest.mark.parametrize(
    ("variable", "value"), [("PYTHONHASHSEED", "7"), ("PYTHONOPTIMIZE", "1"), ("TZ", "Asia/Tokyo")]
)
def test_what_only_a_new_interpreter_heeds_gets_one(variable: str, value: str) -> None:
    """A variable that is read before the program is."""
    environment = os.environ | {variable: value}
    with forked("0", stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        assert process.pid not in origins
        said, _ = process.communicate(timeout=PATIENCE_S)
    assert found(said)["environment"][variable] == value
    assert found(said)["optimised"] == (variable == "PYTHONOPTIMIZE")


@pytest.mark.usefixtures("own_server")
def test_the_server_ends_with_the_tests() -> None:
    """And another one is started where one is needed."""
    assert ended(forked, "0")[0] == 0
    before = server_pid()
    assert before is not None
    program.end()
    assert server_pid() is None
    with pytest.raises(ProcessLookupError):
        os.kill(before, 0)
    assert ended(forked, "0")[0] == 0
