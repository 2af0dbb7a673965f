"""A program that was forked from the server is what a new interpreter would be, in all that a test can see."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.forked import servers
from tests.forked.names import asked_by
from tests.forked.program import Program, origins
from tests.forked.servers import LAUNCHER, PROJECT, server_pids

PATIENCE_S = 60

PROBE = "tests.forked.probe"

Start = Callable[..., subprocess.Popen[Any]]


@pytest.fixture
def own_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(servers, "_running", [])
    monkeypatch.setattr(servers, "_commands", [])
    yield
    servers.end()


def forked(*arguments: str, **given: Any) -> subprocess.Popen[Any]:
    return Program(*arguments, module=PROBE, **given)


def launched(*arguments: str, before: Sequence[str] = (), **given: Any) -> subprocess.Popen[Any]:
    environment = (given.pop("env", None) or os.environ) | servers.of_commands().variables
    command = [*before, sys.executable, "-SEs", str(PROJECT / "tests/forked/launcher.py"), "-m", PROBE, *arguments]
    return subprocess.Popen(command, **({"cwd": PROJECT, "env": environment} | given))


STARTS = pytest.mark.parametrize("start", [forked, launched])


def new(*arguments: str, before: Sequence[str] = (), **given: Any) -> subprocess.Popen[Any]:
    return subprocess.Popen([*before, sys.executable, "-m", PROBE, *arguments], **({"cwd": PROJECT} | given))


def ended(start: Start, *arguments: str, stdin: bytes = b"", **given: Any) -> tuple[int, bytes, bytes]:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with start(*arguments, **(pipes | given)) as process:
        stdout, stderr = process.communicate(stdin, PATIENCE_S)
    return process.returncode, stdout or b"", stderr or b""


def found(said: bytes) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(said.splitlines()[0])
    for name in ("FORKED_PYTHON", "FORKED_SERVER"):
        told["environment"].pop(name, None)
    return told


@pytest.mark.usefixtures("own_server")
@STARTS
@pytest.mark.parametrize("stderr", [subprocess.PIPE, subprocess.STDOUT])
def test_it_finds_what_a_new_interpreter_finds(
    tmp_path: Path, start: Start, stderr: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(PROJECT))  # for the folder is another one
    environment = os.environ | {"HUB_TOKEN": "\udcff", "EMPTY": ""}
    given = {"cwd": tmp_path, "env": environment, "stderr": stderr}
    (code, one, _), (code_of_new, other, _) = (ended(start, "0", "é", "\udcfe", "", **given) for start in (start, new))
    assert found(one) == found(other)
    assert found(one)["folder"] == str(tmp_path)
    assert code == code_of_new == 0
    assert one.splitlines()[1:] == other.splitlines()[1:] == [b"the last word"]


@pytest.mark.parametrize("given", [str(PROJECT), f"{PROJECT}:{PROJECT}"])
def test_it_finds_the_project_where_another_folder_does_not_hold_it(tmp_path: Path, given: str) -> None:
    environment = os.environ | {"PYTHONPATH": given}
    one, other = (ended(start, "0", cwd=tmp_path, env=environment)[1] for start in (forked, new))
    assert found(one)["path"] == found(other)["path"]
    assert found(one)["path"][:2] == [str(tmp_path), str(PROJECT)]


def test_it_tells_who_has_asked_for_it() -> None:
    for start, asker in ((forked, os.getpid()), (new, 0)):
        with start("waits", stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline()
            assert asked_by(process.pid) == asker
            process.kill()
    assert asked_by(process.pid) == 0


def on_terminal(start: Start) -> dict[str, Any]:
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


@STARTS
def test_on_a_terminal(start: Start) -> None:
    one = on_terminal(start)
    assert one == on_terminal(new)
    assert [stream["terminal"] for stream in one["streams"]] == [True] * 3


@pytest.mark.parametrize(
    "how", ["0", "3", "returns", "raises", "interrupts itself", "stops at once", "aborts", "reads", "cannot write"]
)
@STARTS
def test_it_ends_as_a_new_interpreter_ends(start: Start, how: str) -> None:
    (code, said, told), (code_of_new, said_by_new, told_by_new) = (
        ended(start, how, stdin=b"a\r\nb\xff") for start in (start, new)
    )
    assert code == code_of_new
    assert found(said)["arguments"] == found(said_by_new)["arguments"]
    assert said.splitlines()[1:] == said_by_new.splitlines()[1:]
    assert told.splitlines()[-1:] == told_by_new.splitlines()[-1:]


@STARTS
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_signals(start: Start, number: signal.Signals) -> None:
    codes = []
    for start_one in (start, new):
        with start_one("waits", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
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


def test_descriptors_that_are_passed_and_a_session_of_its_own() -> None:
    passed = [os.memfd_create(name) for name in ("one", "other")]
    passed.append(fcntl.fcntl(passed[0], fcntl.F_DUPFD, 60))
    given = {"pass_fds": (passed[2], passed[1]), "start_new_session": True}
    told = []
    for start in (forked, new):
        with start("waits", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, **given) as process:
            assert process.stdout is not None
            told.append(found(process.stdout.readline()))
            assert told[-1]["session"] == told[-1]["group"] == process.pid
            files = [Path(f"/proc/{process.pid}/fd/{number}").readlink().name.split()[0] for number in passed[1:]]
            assert files == ["memfd:other", "memfd:one"]
            assert not Path(f"/proc/{process.pid}/fd/{passed[0]}").exists()
            process.kill()
    for number in passed:
        os.close(number)
    assert told[0]["descriptors"] == told[1]["descriptors"]


def test_many_at_once() -> None:
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
    process = forked("waits", stdout=subprocess.PIPE)
    assert origins[process.pid].test.startswith("tests/forked/test_program.py::test_one_that_nobody_waits_for")
    assert origins[process.pid].command == "hub waits"
    process.kill()
    process.communicate()


@pytest.mark.parametrize(
    ("variable", "value"), [("PYTHONHASHSEED", "7"), ("PYTHONOPTIMIZE", "1"), ("TZ", "Asia/Tokyo")]
)
def test_what_only_a_new_interpreter_heeds_gets_one(variable: str, value: str) -> None:
    environment = os.environ | {variable: value}
    with forked("0", stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        assert process.pid not in origins
        said, _ = process.communicate(timeout=PATIENCE_S)
    assert found(said)["environment"][variable] == value
    assert found(said)["optimised"] == (variable == "PYTHONOPTIMIZE")


@pytest.mark.parametrize(("variable", "is_forked"), [("PYTHONHASHSEED", False), ("PYTHON_WORKER_FACTORY_PORT", True)])
def test_what_the_launcher_is_told_to_leave_to_a_new_interpreter(variable: str, *, is_forked: bool) -> None:
    with launched("waits", stdout=subprocess.PIPE, env=os.environ | {variable: "7"}) as process:
        assert process.stdout is not None
        assert found(process.stdout.readline())["environment"][variable] == "7"
        command = Path(f"/proc/{process.pid}/cmdline").read_bytes().split(b"\0")
        assert (b"-SEs" in command) == is_forked
        process.kill()


def test_signals_that_are_ignored() -> None:
    ignoring = ["sh", "-c", 'trap "" INT; exec "$@"', "sh"]
    said = []
    for start in (launched, new):
        with start("0", stdout=subprocess.PIPE, before=ignoring) as process:
            said.append(found(process.communicate(timeout=PATIENCE_S)[0])["handlers"])
    assert said[0] == said[1]
    assert said[0]["SIGINT"] == repr(signal.SIG_IGN)


def test_what_is_no_module_of_spark_is_left_to_the_interpreter() -> None:
    environment = os.environ | {"FORKED_PYTHON": sys.executable, "FORKED_SERVER": "nobody"}
    command = [LAUNCHER, "-c", "import sys; print(sys.argv)", "a b"]
    assert subprocess.check_output(command, env=environment) == b"['-c', 'a b']\n"


@pytest.mark.usefixtures("own_server")
def test_the_server_ends_with_the_tests() -> None:
    assert ended(forked, "0")[0] == 0
    (before,) = server_pids()
    servers.end()
    assert not server_pids()
    with pytest.raises(ProcessLookupError):
        os.kill(before, 0)
    assert ended(forked, "0")[0] == 0
