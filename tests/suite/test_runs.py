"""A run of the tests ends, whatever becomes of its workers, and leaves no process behind: small runs show it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]

PATIENCE_S = 100  # How long a run may take; only one that hangs takes so long


PYTEST = [
    *(sys.executable, "-m", "pytest", "-p", "no:cacheprovider"),
    *("-p", "xdist.plugin", "-p", "pytest_timeout", "-p", "tests.suite.plugin"),
]
"""Only the plugins that are needed: each one is loaded anew by each worker."""


def environment() -> dict[str, str]:
    """This environment, without what a worker of the run around the small one has in it."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV_"))}
    ours = {"PYTHONPATH": str(PROJECT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return kept | ours | {"LEFTOVERS_GRACE_S": "0.5"}  # what is left behind there is left behind for good


@dataclass(frozen=True)
class SmallRun:
    code: int
    said: str

    def count(self, outcome: str) -> int:
        found = re.search(rf"(\d+) {outcome}", self.said.splitlines()[-1])
        return int(found[1]) if found else 0


def run(folder: Path, files: dict[str, str], *arguments: str) -> SmallRun:
    tests = folder / "project"
    tests.mkdir()
    (tests / "pytest.ini").write_text("[pytest]\n")
    for name, source in files.items():
        (tests / name).write_text(source)
    done = subprocess.run(
        [*PYTEST, "--numprocesses=2", *arguments, str(tests)],
        cwd=tests,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=PATIENCE_S,
        check=False,
        text=True,
    )
    return SmallRun(done.returncode, done.stdout)


pytestmark = pytest.mark.slow

SEVERAL = "def test_1(): pass\ndef test_2(): pass\ndef test_3(): pass\n"
LOST = "import os\ndef test_ends_its_worker(): os._exit(1)\n"
LEAVES = """
import subprocess, sys
def test_leaves(): subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
"""


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_lost_worker_takes_one_test_with_it(tmp_path: Path) -> None:
    """A file of a single test, and one that is done, are no trap for the worker that comes next."""
    files = {"test_0.py": SEVERAL, "test_1.py": LOST, "test_2.py": "def test_1(): pass\n", "test_4.py": LOST}
    files["test_3.py"] = SEVERAL + LOST + "def test_behind(): pass\n"
    done = run(tmp_path, files)
    assert (done.code, done.count("passed"), done.count("failed")) == (1, 8, 3), done.said
    assert "FAILED test_3.py::test_ends_its_worker: worker 'gw" in done.said


def test_a_worker_that_is_lost_before_it_gets_its_tests(tmp_path: Path) -> None:
    loses = """
import os, signal
from xdist.workermanage import WorkerController
send = WorkerController.send_runtest_some
def send_to_living(self, indices):
    if self.gateway.id == "gw0":
        os.kill(self.gateway._rinfo().pid, signal.SIGKILL)
        raise OSError("cannot send (already closed?)")
    send(self, indices)
WorkerController.send_runtest_some = send_to_living
"""
    done = run(tmp_path, {"conftest.py": loses, **{f"test_{number}.py": SEVERAL for number in range(6)}})
    assert (done.code, done.count("passed"), done.count("failed")) == (0, 18, 0), done.said


def test_too_many_lost_workers_end_the_run(tmp_path: Path) -> None:
    done = run(tmp_path, {f"test_{number}.py": LOST for number in range(4)}, "--max-worker-restart=1")
    assert done.code != 0
    assert "maximum crashed workers reached: 1" in done.said


def test_fixtures_of_a_test_that_has_failed_hang(tmp_path: Path) -> None:
    """Their time is limited as well, which ends with the failure otherwise."""
    hangs = """
import threading, pytest
@pytest.fixture
def waits():
    yield
    threading.Event().wait()
def test_fails(waits): raise AssertionError
"""
    done = run(tmp_path, {"test_0.py": hangs, "test_1.py": SEVERAL}, "-otimeout=2", "-otimeout_method=thread")
    assert (done.code, done.count("passed")) == (1, 3), done.said
    assert "test_0.py::test_fails hangs" in done.said


def test_where_a_test_hangs(tmp_path: Path) -> None:
    """What its tasks wait for is said, and where its threads stand, though a worker has no terminal."""
    hangs = """
import asyncio
async def waits(): await asyncio.Event().wait()
async def main(): await asyncio.gather(asyncio.create_task(waits(), name="the-first"), asyncio.sleep(600))
def test_hangs(): asyncio.run(main())
"""
    done = run(tmp_path, {"test_0.py": hangs, "test_1.py": SEVERAL}, "-otimeout=2", "-otimeout_method=thread")
    assert (done.code, done.count("passed"), done.count("failed")) == (1, 3, 1), done.said
    assert "FAILED test_0.py::test_hangs" in done.said
    assert "test_0.py::test_hangs hangs; 3 tasks wait" in done.said
    assert re.search(r"task the-first: waits \(.*test_0.py:3\) > Event.wait \(.*locks.py:\d+\)", done.said), done.said
    assert re.search(r'File ".*test_0.py", line 5 in test_hangs', done.said), done.said


def test_processes_that_are_left_behind(tmp_path: Path) -> None:
    """They are named with their tests and killed, forked ones, too; the run has failed though all tests passed."""
    leaves = """
from tests.forked.program import Program
def test_leaves_nothing(): Program("--version").wait()
def test_leaves(): Program("run", "--listen", "tcp://127.0.0.1:0")
"""
    done = run(tmp_path, {"test_0.py": leaves, "test_1.py": LEAVES})
    assert (done.code, done.count("passed"), done.count("failed")) == (1, 3, 0), done.said
    found = {
        test: (int(pid), told) for pid, test, told in re.findall(r"process (\d+), started by (\S+).*: (.*)", done.said)
    }
    assert found.keys() == {"test_0.py::test_leaves", "test_1.py::test_leaves"}, done.said
    assert found["test_0.py::test_leaves"][1] == "hub run --listen tcp://127.0.0.1:0"
    assert "time.sleep" in found["test_1.py::test_leaves"][1]
    assert not any(is_there(pid) for pid, _ in found.values())


def test_a_process_that_is_left_without_workers(tmp_path: Path) -> None:
    done = run(tmp_path, {"test_0.py": LEAVES}, "--numprocesses=0")
    assert done.code == 1
    assert "started by test_0.py::test_leaves" in done.said


def test_processes_of_a_lost_worker(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    leaves = f"""
import os, pathlib, subprocess, sys
def test_leaves():
    left = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    pathlib.Path({str(pids)!r}).write_text(str(left.pid))
    os._exit(1)
def test_sees_that_it_is_gone():
    try:
        os.kill(int(pathlib.Path({str(pids)!r}).read_text()), 0)
    except ProcessLookupError:
        return
    raise AssertionError("still there")
"""
    done = run(tmp_path, {"test_0.py": leaves, "test_1.py": SEVERAL})
    assert (done.code, done.count("passed"), done.count("failed")) == (1, 4, 1), done.said


def test_a_run_that_is_terminated(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    os.mkfifo(pids)
    waits = f"""
import pathlib, subprocess, sys, threading
def test_waits():
    left = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    pathlib.Path({str(pids)!r}).write_text(str(left.pid))
    threading.Event().wait()
"""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_0.py").write_text(waits)
    with subprocess.Popen([*PYTEST, "-n1", str(tmp_path)], cwd=tmp_path, env=environment()) as process:
        left = int(pids.read_text())
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 128 + signal.SIGTERM
    assert not is_there(left)
