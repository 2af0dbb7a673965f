"""What is seen of the processes below this one."""

from __future__ import annotations

import os
import subprocess

from tests.suite.processes import below


def test_a_process_is_seen_from_its_start_to_its_end() -> None:
    for number in range(50):
        test = f"number {number}"
        with subprocess.Popen(["sleep", "60"], env=os.environ | {"PYTEST_CURRENT_TEST": test}) as process:
            seen = {one.pid: one for one in below(os.getpid())}
            process.kill()
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            assert process.pid not in {one.pid for one in below(os.getpid())}
        assert (seen[process.pid].command, seen[process.pid].test) == ("sleep 60", test)
