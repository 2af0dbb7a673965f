"""`Usage`: what the operating system has charged to a process.

* CPU time comes from /proc/PID/task/*/schedstat, in ns, of all threads that live. Where the kernel does not keep it, it
  comes from /proc/PID/stat, in ticks of 10 ms.
* Write calls come from /proc/PID/io, which counts `write` and `writev` (of uvloop), but not `send` (of asyncio's loop).
* Memory comes from /proc/PID/status. The peak can be set back (`forget_peak`).

There is no state. This works on Linux only; psutil would give ticks where nanoseconds are needed.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from peers.bench.errors import BenchError

__all__ = ["Usage", "forget_peak", "read_usage"]

_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


class Usage(NamedTuple):
    """One process at one moment."""

    cpu_ns: int = 0
    """User and system time."""
    memory_bytes: int = 0
    """Resident memory."""
    peak_bytes: int = 0
    writes: int = 0
    """Calls of `write`; 0 where that is not told."""


def read_usage(pid: int) -> Usage:
    """Return what `pid` has used.

    Raises:
        BenchError: There is no such process, or this is not Linux.
    """
    process = Path(f"/proc/{pid}")
    try:
        # The name of a process, in parentheses, may contain anything.
        fields = (process / "stat").read_text().rpartition(")")[2].split()
        status = _fields(process / "status")
        threads = [thread / "schedstat" for thread in (process / "task").iterdir()]
    except OSError as error:
        hint = "" if Path("/proc/self").exists() else "; benchmarks need Linux, with /proc"
        raise BenchError(f"CPU time of process {pid} cannot be read: {error}{hint}") from error
    cpu_ns, writes = (int(fields[11]) + int(fields[12])) * _TICK_NS, 0
    with suppress(OSError):
        cpu_ns = sum(int(thread.read_text().split()[0]) for thread in threads) or cpu_ns
    with suppress(OSError):
        writes = _fields(process / "io")["syscw"]
    memory_bytes, peak_bytes = (status.get(name, 0) * 1024 for name in ("VmRSS", "VmHWM"))
    return Usage(cpu_ns, memory_bytes, peak_bytes, writes)


def forget_peak(pid: int) -> None:
    """Let the peak of a process's memory begin anew, where that is allowed."""
    with suppress(OSError):
        Path(f"/proc/{pid}/clear_refs").write_text("5")


def _fields(file: Path) -> dict[str, int]:
    """Return the numbers of a file of names and values, without their units."""
    return {name: int(number) for name, number in re.findall(r"^(\w+):\s+(\d+)", file.read_text(), re.MULTILINE)}
