"""No process outlives the tests: those that do are named and killed, and the run has failed.

Each worker looks at the processes below it when its last test is over. The process that shares the tests out adopts
orphans: so it finds what a lost worker was running, and kills that at once, and it looks for the rest when everything
is over.

A run without workers sees only processes that are still below it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing import resource_tracker
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from xdist.workermanage import WorkerController

from tests.forked import program, servers
from tests.forked.servers import asked_by

# From <linux/prctl.h>: orphans below this process become its children rather than those of process 1
_PR_SET_CHILD_SUBREAPER = 36

_SHOWN_CHARACTERS = 160  # Of a command line; enough to recognise it

_LOOKS = 100  # How often a process without a command is looked at; one that hides it is then described without

_BETWEEN_LOOKS_S = 0.01


@dataclass(frozen=True)
class Process:
    pid: int
    command: str
    # The test during which it was started, as pytest's variable in its environment says; empty if it says nothing
    test: str
    worker: str  # The worker of pytest-xdist it belongs to; empty if its environment names none

    def __str__(self) -> str:
        return f"process {self.pid}, started by {self.test or 'an unknown test'}: {self.command}"


def adopt_orphans() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def children(pid: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 -- names are all that is needed
            with suppress(OSError):
                found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_bytes().split())
    return found


def below(pid: int) -> list[Process]:
    """Return all living processes below a process, parents before their children."""
    found: list[Process] = []
    for child in children(pid):
        if (process := _look(child)) is not None:
            found.append(process)
        found += below(child)
    return found


def kill(processes: list[Process]) -> None:
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)


def reap(pid: int) -> None:
    """Take the exit code of a child that has ended, so that its id is free again."""
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] == b"Z"
    except OSError:
        return False


def _look(pid: int) -> Process | None:
    """Describe a process by its command and environment; None if it is gone, or a zombie.

    One that is just being started has neither for a moment, after `subprocess.Popen` has returned.
    """
    for _ in range(_LOOKS):
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            variables = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            return None
        if command:
            break
        if is_zombie(pid):
            return None
        time.sleep(_BETWEEN_LOOKS_S)
    environment = dict(part.partition(b"=")[::2] for part in variables.split(b"\0"))
    return Process(
        pid,
        command.replace(b"\0", b" ").decode(errors="replace").strip()[:_SHOWN_CHARACTERS],
        environment.get(b"PYTEST_CURRENT_TEST", b"").decode(errors="replace"),
        environment.get(b"PYTEST_XDIST_WORKER", b"").decode(errors="replace"),
    )


_TERMINATED = 128 + signal.SIGTERM  # What a shell shows of a process that SIGTERM has ended


# Whatever was told to end may take so long; only a run that fails waits
_GRACE_S = float(os.environ.get("LEFTOVERS_GRACE_S", "5"))

_LOOK_S = 0.05


class Leftovers:
    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._workers: set[int] = set()
        # Grows by what each process of the run reports; the run has failed if there is anything.
        self._found: list[str] = []
        self._is_worker = hasattr(config, "workerinput")
        if not self._is_worker and config.getoption("numprocesses", None):
            adopt_orphans()
            signal.signal(signal.SIGCHLD, self._reap_orphans)
            signal.signal(signal.SIGTERM, _end_in_order)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodeready(self, node: WorkerController) -> None:
        self._workers.add(_pid(node))

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: WorkerController, error: object) -> None:
        if error is None:
            self._found += getattr(node, "workeroutput", {}).get("leftovers", [])
        else:
            kill([process for process in below(os.getpid()) if process.worker == node.gateway.id])

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        resource_tracker._resource_tracker._stop()  # type: ignore[attr-defined]  # it would end with this process
        left = self._left()
        until_s = time.monotonic() + _GRACE_S
        while left and time.monotonic() < until_s:
            time.sleep(_LOOK_S)
            left = self._left()
        kill(left)
        self._found += map(str, left)
        servers.end()
        if self._is_worker:
            output: dict[str, Any] = self._config.workeroutput  # type: ignore[attr-defined]
            output["leftovers"] = self._found
        elif self._found and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._found:
            terminalreporter.section("processes left behind, and killed", red=True)
            for line in self._found:
                terminalreporter.write_line(line)

    def _left(self) -> list[Process]:
        ours = self._workers | servers.server_pids()
        return [_told(process) for process in below(os.getpid()) if process.pid not in ours]

    def _reap_orphans(self, _number: int, _frame: FrameType | None) -> None:
        for pid in children(os.getpid()):
            if pid not in self._workers and is_zombie(pid):
                reap(pid)


def _told(process: Process) -> Process:
    """Say of a program that was forked, or whose hub was, what `/proc` says of others."""
    origin = program.origins.get(process.pid) or program.origins.get(asked_by(process.pid))
    return process if origin is None else replace(process, test=origin.test, command=origin.command)


def _pid(node: WorkerController) -> int:
    pid: int = node.gateway._rinfo().pid
    return pid


def _end_in_order(_number: int, _frame: FrameType | None) -> None:
    pytest.exit("SIGTERM came", _TERMINATED)
