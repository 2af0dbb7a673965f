"""`Usage`: what the operating system has charged to a process.

* CPU time: /proc/PID/task/*/schedstat, in ns, of all threads that live. Where the kernel does not keep it,
  /proc/PID/stat, in ticks of 10 ms.
* The part of it that was spent in the kernel: from the ticks of /proc/PID/stat, so a share of a short run is rough
  while the sum is exact.
* Write calls: /proc/PID/io, which counts `write` and `writev` (uvloop's) but not `send` (asyncio's own loop's).
* Memory: /proc/PID/status. The peak can be set back (`forget_peak`).
* CPU time of the whole machine: /proc/stat, in ticks of 10 ms.

Linux only.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from peers.bench.errors import BenchError

__all__ = ["Usage", "forget_peak", "machine_cpu_ns", "read_usage"]

_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


class Usage(NamedTuple):
    """One process at one moment."""

    cpu_ns: int
    user_ns: int
    """In steps of a tick; so is `system_ns`, and their sum is not `cpu_ns`."""
    system_ns: int
    memory_bytes: int
    """Resident."""
    peak_bytes: int
    writes: int
    """Calls of `write`; 0 where that is not told."""


def read_usage(pid: int) -> Usage:
    """Return what `pid` has used.

    Raises:
        BenchError: There is no such process, or this is not Linux.
    """
    process = Path("/proc") / str(pid)
    try:
        # The name of a process, in parentheses, may contain anything.
        fields = process.joinpath("stat").read_text().rpartition(")")[2].split()
        status = dict(_fields(process / "status"))
        threads = [thread / "schedstat" for thread in process.joinpath("task").iterdir()]
    except OSError as error:
        raise BenchError(f"CPU time of process {pid} cannot be read: {error}") from error
    user_ns, system_ns = int(fields[11]) * _TICK_NS, int(fields[12]) * _TICK_NS
    cpu_ns = 0
    with suppress(OSError):
        cpu_ns = sum(int(thread.read_text().split()[0]) for thread in threads)
    writes = 0
    with suppress(OSError):
        writes = int(dict(_fields(process / "io"))["syscw"])
    return Usage(
        cpu_ns=cpu_ns or user_ns + system_ns,
        user_ns=user_ns,
        system_ns=system_ns,
        memory_bytes=_kibibytes(status, "VmRSS"),
        peak_bytes=_kibibytes(status, "VmHWM"),
        writes=writes,
    )


def machine_cpu_ns() -> int:
    """Return for how long the CPUs of this machine were busy or taken from it, all together; 0 if that is not told."""
    try:
        first = Path("/proc/stat").read_text().partition("\n")[0]
    except OSError:
        return 0
    user, nice, system, _, _, *taken = map(int, first.split()[1:9])
    return (user + nice + system + sum(taken)) * _TICK_NS


def forget_peak(pid: int) -> None:
    """Let the peak of a process's memory begin anew, where that is allowed."""
    with suppress(OSError):
        Path(f"/proc/{pid}/clear_refs").write_text("5")


def _fields(file: Path) -> Iterator[tuple[str, str]]:
    for line in file.read_text().splitlines():
        name, _, value = line.partition(":")
        yield name, value


def _kibibytes(status: dict[str, str], name: str) -> int:
    return int(status.get(name, "0 kB").split()[0]) * 1024
