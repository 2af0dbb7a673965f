"""Processes that make load (`Worker`), the counters they share (`Board`), and the CPU and memory of one (`Usage`).

A worker runs one function, which answers once when it is ready, then takes orders from its end of a pipe until the
command is gone. If it fails, its last answer is the error, which ends the benchmark.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import re
import resource
import signal
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.sharedctypes import RawArray
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from hub.errors import HubError


class BenchError(HubError):
    """The benchmark cannot be run as asked, or the hub or a worker failed."""


class PlanError(BenchError):
    """The plan cannot be carried out; the text names the option."""


_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


class Usage(NamedTuple):
    """CPU time (user and system) and resident memory of a process."""

    cpu_ns: int = 0
    memory_bytes: int = 0
    peak_bytes: int = 0
    writes: int = 0
    """Calls of `write`; 0 where the system does not say."""


def read_usage(pid: int) -> Usage:
    """Return the usage of `pid`; raise `BenchError` if there is no such process, or no /proc."""
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
    """Reset the peak of a process's memory, where that is allowed."""
    with suppress(OSError):
        Path(f"/proc/{pid}/clear_refs").write_text("5")


def _fields(file: Path) -> dict[str, int]:
    return {name: int(number) for name, number in re.findall(r"^(\w+):\s+(\d+)", file.read_text(), re.MULTILINE)}


class Board:
    """Counters in shared memory.

    Attributes:
        sent: For each publisher, how many messages it has handed to the kernel.
        first_ns: For each publisher, the time of its first message.
        next: For each publisher, the sequence number that each subscriber expects next.
        accounted: For each subscriber, how many messages it has received, or knows to be lost.
        last_ns: For each subscriber, when its last read ended.
    """

    def __init__(self, publishers: int, subscribers: int) -> None:
        self.sent, self.first_ns = RawArray("Q", publishers), RawArray("Q", publishers)
        self.next = [RawArray("Q", subscribers) for _ in range(publishers)]
        self.accounted, self.last_ns = RawArray("Q", subscribers), RawArray("Q", subscribers)


_ANSWER_S = 60.0
_STOP_S = 5.0

_spawning = multiprocessing.get_context("spawn")

A = TypeVar("A")
Work = Callable[[Connection, Any], None]
"""A function of a module; it gets its end of the pipe and a set-up."""


class Worker:
    """One process, on one of `cpus`, or any if there are none."""

    def __init__(self, name: str, work: Work, setup: object, cpus: Iterable[int] = ()) -> None:
        self.name = name
        self._answers: deque[Any] = deque()
        self._pipe, far = _spawning.Pipe()
        self._process = _spawning.Process(target=_serve, args=(name, far, list(cpus), work, setup), daemon=True)
        self._process.start()
        far.close()

    @property
    def pid(self) -> int:
        """Process id."""
        assert self._process.pid is not None  # noqa: S101 -- it was started
        return self._process.pid

    def order(self, order: object) -> None:
        """Send an order; `take` its answer later."""
        try:
            self._pipe.send(order)
        except OSError:
            self.wait(0)  # raises the worker's own error, if there is one
            raise BenchError(f"a {self.name} has ended") from None

    def take(self, kind: type[A], timeout_s: float | None = _ANSWER_S) -> A:
        """Wait for the answer to the oldest open order; raise `BenchError` if the worker failed, ended or is late."""
        if not self.wait(timeout_s):
            raise BenchError(f"a {self.name} did not answer within {timeout_s:g} s")
        answer = self._answers.popleft()
        if not isinstance(answer, kind):
            raise BenchError(f"a {self.name} answered {answer}")
        return answer

    def wait(self, timeout_s: float | None) -> bool:
        """Wait for an answer; return whether there is one. Raises `BenchError` if the worker failed or has ended."""
        if not self._answers and self._pipe.poll(timeout_s):
            try:
                answer = self._pipe.recv()
            except (EOFError, OSError):
                self._process.join(_STOP_S)
                raise BenchError(f"a {self.name} has ended with exit code {self._process.exitcode}") from None
            if isinstance(answer, BenchError):
                raise answer
            self._answers.append(answer)
        return bool(self._answers)

    def stop(self) -> None:
        """End the process."""
        self._pipe.close()
        self._process.join(_STOP_S)
        self._process.kill()
        self._process.join()
        self._process.close()


def _serve(name: str, pipe: Connection, cpus: list[int], work: Work, setup: object) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the command, which ends its workers in order
    if cpus:
        os.sched_setaffinity(0, cpus)
    raise_descriptor_limit()
    gc.disable()  # nothing here is cyclic, and a collection would be measured as latency
    try:
        work(pipe, setup)
    except EOFError:
        return
    except (HubError, OSError) as error:
        with suppress(OSError):
            pipe.send(BenchError(f"{name}: {error}"))


def raise_descriptor_limit() -> None:
    """Raise this process's limit of open files to the most that is allowed."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
