"""A run of the tests ends, whatever becomes of its workers, and leaves no process behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from tests.suite.small_run import PYTEST, environment, run

pytestmark = pytest.mark.slow

SEVERAL = "def test_1(): pass\ndef test_2(): pass\ndef test_3(): pass\n"
LOST = "import os\ndef test_ends_its_worker(): os._exit(1)\n"
HANGS = "import threading\ndef test_hangs(): threading.Event().wait()\n"
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
    files = {f"test_{number}.py": SEVERAL for number in range(6)}
    files["test_3.py"] = SEVERAL + LOST + "def test_behind(): pass\n"
    done = run(tmp_path, files)
    assert (done.code, done.count("passed"), done.count("failed")) == (1, 19, 1), done.said
    assert "FAILED test_3.py::test_ends_its_worker: worker 'gw" in done.said


def test_a_worker_that_is_lost_behind_its_last_file(tmp_path: Path) -> None:
    """A file of a single test, and one that is done, are no trap for the worker that comes next."""
    files = {"test_0.py": SEVERAL, "test_1.py": LOST, "test_2.py": "def test_1(): pass\n", "test_3.py": LOST}
    done = run(tmp_path, files)
    assert (done.code, done.count("passed"), done.count("failed")) == (1, 4, 2), done.said


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
    done = run(tmp_path, {f"test_{number}.py": LOST for number in range(8)}, "--max-worker-restart=2")
    assert done.code != 0
    assert "maximum crashed workers reached: 2" in done.said


def test_a_test_that_hangs(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        {"test_0.py": HANGS, "test_1.py": SEVERAL, "test_2.py": SEVERAL},
        "-otimeout=2",
        "-otimeout_method=thread",
    )
    assert (done.code, done.count("passed"), done.count("failed")) == (1, 6, 1), done.said
    assert "FAILED test_0.py::test_hangs" in done.said


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
    assert "test_0.py::test_hangs hangs; 3 tasks wait" in done.said
    assert re.search(r"task the-first: waits \(.*test_0.py:3\) > Event.wait \(.*locks.py:\d+\)", done.said), done.said
    assert re.search(r'File ".*test_0.py", line 5 in test_hangs', done.said), done.said


def test_a_process_that_is_left_behind(tmp_path: Path) -> None:
    """It is named with its test, it is killed, and the run has failed though all tests have passed."""
    done = run(tmp_path, {"test_0.py": LEAVES, "test_1.py": SEVERAL})
    assert (done.code, done.count("passed"), done.count("failed")) == (1, 4, 0), done.said
    found = re.search(r"process (\d+), started by test_0.py::test_leaves.*time.sleep", done.said)
    assert found, done.said
    assert not is_there(int(found[1]))


def test_a_forked_program_that_is_left_behind(tmp_path: Path) -> None:
    """It is named as one that was started for itself, though the process that forks was there before its test."""
    leaves = """
from tests.forked.program import Program
def test_leaves_nothing(): Program("--version").wait()
def test_leaves(): Program("run", "--listen", "tcp://127.0.0.1:0")
"""
    done = run(tmp_path, {"test_0.py": leaves})
    assert (done.code, done.count("passed"), done.count("failed")) == (1, 2, 0), done.said
    found = re.findall(r"process (\d+), started by (\S+).*: (.*)", done.said)
    assert [(test, command) for _, test, command in found] == [
        ("test_0.py::test_leaves", "hub run --listen tcp://127.0.0.1:0")
    ], done.said
    assert not is_there(int(found[0][0]))


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
