"""A run of the tests ends, whatever becomes of its workers, and leaves no process behind: a small run shows it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]

PYTEST = [
    *(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-n4"),
    *("-p", "xdist.plugin", "-p", "pytest_timeout", "-p", "tests.suite.plugin"),
]
"""Only the plugins that are needed: each one is loaded anew by each worker."""

FILES = {
    "pytest.ini": "[pytest]\n",
    "test_done.py": "def test_1(): pass\ndef test_2(): pass\ndef test_3(): pass\n",
    "test_lost.py": """
import os, subprocess, sys
def test_ends_its_worker():
    left = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    print(left.pid, file=open("pid", "w"), flush=True)
    os._exit(1)
def test_sees_that_it_is_gone(): assert not os.path.exists("/proc/" + open("pid").read().strip())
""",
    "test_hangs.py": """
import asyncio, pytest
async def waits(): await asyncio.Event().wait()
async def main(): await asyncio.gather(asyncio.create_task(waits(), name="the-first"), asyncio.sleep(600))
@pytest.mark.timeout(2, method="thread")
def test_hangs(): asyncio.run(main())
""",
    "test_left.py": """
from tests.forked.program import Program
def test_leaves_nothing(): Program("--version").wait()
def test_leaves(): Program("run", "--listen", "tcp://127.0.0.1:0")
""",
}


@pytest.mark.slow
def test_a_run_in_which_all_goes_wrong(tmp_path: Path) -> None:
    """A lost worker takes one test with it, and what it has started; hanging tests are shown, processes named."""
    for name, source in FILES.items():
        (tmp_path / name).write_text(source)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV_"))}
    ours = {"PYTHONPATH": str(PROJECT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "LEFTOVERS_GRACE_S": "0.5"}
    pipe, both = subprocess.PIPE, subprocess.STDOUT
    done = subprocess.run(
        [*PYTEST, str(tmp_path)], cwd=tmp_path, env=kept | ours, stdout=pipe, stderr=both, check=False
    )
    said = done.stdout.decode()
    assert done.returncode == 1, said
    assert re.search(r"2 failed, 6 passed", said.splitlines()[-1]), said
    assert "FAILED test_lost.py::test_ends_its_worker: worker 'gw" in said
    assert "test_hangs.py::test_hangs hangs; 3 tasks wait" in said
    assert re.search(r"task the-first: waits \(.*test_hangs.py:3\) > Event.wait \(.*locks.py:\d+\)", said), said
    ((pid, told),) = re.findall(r"process (\d+), started by test_left.py::test_leaves.*: (.*)", said)
    assert told == "hub run --listen tcp://127.0.0.1:0"
    assert not Path(f"/proc/{pid}").exists()
