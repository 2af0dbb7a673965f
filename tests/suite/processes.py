"""The processes below this one, read from /proc."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
"""From <linux/prctl.h>: orphans below this process become its children rather than those of process 1."""

_SHOWN_CHARACTERS = 160
"""Of a command line; enough to recognise it."""

_LOOKS = 100
"""How often a process without a command is looked at; one that hides it is then described without."""

_BETWEEN_LOOKS_S = 0.01


@dataclass(frozen=True)
class Process:
    pid: int
    command: str
    test: str
    """The test during which it was started, as pytest's variable in its environment says; empty if it says nothing."""
    worker: str
    """The worker of pytest-xdist it belongs to; empty if its environment names none."""

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
