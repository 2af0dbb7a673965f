"""`Usage`: what the operating system has charged to a process: CPU time of all its threads, and memory.

CPU time is the sum over /proc/PID/task/*/schedstat, in ns; where the kernel does not keep that, /proc/PID/stat in ticks
of 10 ms. Threads that ended in between are missing from the sum; no broker here ends threads as it works. Linux only.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

__all__ = ["Usage", "forget_peak", "read_machine_ns", "read_usage"]

_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


class Usage(NamedTuple):
    """One process at one moment."""

    cpu_ns: int
    memory_bytes: int
    """Resident."""
    peak_bytes: int


def read_usage(pid: int) -> Usage:
    """Return what `pid` has used."""
    process = Path("/proc") / str(pid)
    cpu_ns = 0
    with suppress(OSError):
        cpu_ns = sum(int((task / "schedstat").read_text().split()[0]) for task in (process / "task").iterdir())
    if not cpu_ns:
        # The name of a process, in parentheses, may contain anything.
        fields = (process / "stat").read_text().rpartition(")")[2].split()
        cpu_ns = (int(fields[11]) + int(fields[12])) * _TICK_NS
    status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines() if ":" in line)
    return Usage(cpu_ns, _bytes(status["VmRSS"]), _bytes(status["VmHWM"]))


def read_machine_ns() -> int:
    """Return how long the machine's CPUs were not idle (user, nice, system, interrupts, stolen), in steps of a tick."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    user, nice, system, _, _, interrupt, soft_interrupt, stolen = fields[:8]
    return (user + nice + system + interrupt + soft_interrupt + stolen) * _TICK_NS


def forget_peak(pid: int) -> None:
    """Let the peak of a process's memory begin anew, where that is allowed."""
    with suppress(OSError):
        Path(f"/proc/{pid}/clear_refs").write_text("5")


def _bytes(kibibytes: str) -> int:
    return int(kibibytes.split(maxsplit=1)[0]) * 1024
