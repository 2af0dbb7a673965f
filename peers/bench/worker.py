"""Processes that make load (`Worker`), the counters they share (`Board`), and what the system charges to one (`Usage`).

A worker runs one function, which answers once when it is ready, then takes orders from its end of a pipe until the
command is gone. If it fails, its last answer is the error, which ends the benchmark. It starts in about 0.2 s.
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
    """The benchmark cannot be run as asked, or what it measures broke; the text says which."""


class PlanError(BenchError):
    """What is asked for cannot be measured; the text names the option. Nothing was done."""


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


_WORD = "Q"


class Board:
    """Counters of a benchmark.

    Args:
        publishers: How many there are.
        subscribers: How many are waited for.

    Attributes:
        sent: For each publisher, how many messages it has handed to the kernel.
        first_ns: For each publisher, when the first one was.
        next: For each publisher, the sequence number that each subscriber expects next.
        accounted: For each subscriber, how many messages it has received, or was told that they are lost.
        last_ns: For each subscriber, when its last read ended.
    """

    def __init__(self, publishers: int, subscribers: int) -> None:
        self.subscribers = subscribers
        self.sent = RawArray(_WORD, publishers)
        self.first_ns = RawArray(_WORD, publishers)
        self.next = [RawArray(_WORD, subscribers) for _ in range(publishers)]
        self.accounted = RawArray(_WORD, subscribers)
        self.last_ns = RawArray(_WORD, subscribers)


_ANSWER_S = 60.0
_STOP_S = 5.0

_spawning = multiprocessing.get_context("spawn")
"""A worker begins with a new interpreter, and has nothing of the command's but what it is given."""

A = TypeVar("A")
Work = Callable[[Connection, Any], None]
"""What a worker does, a function of a module. It gets its end of the pipe and a set-up."""


class Worker:
    """One process.

    Args:
        name: What it is, for people.
        work: What it does.
        setup: What `work` must know.
        cpus: Where it may run; empty for anywhere.
    """

    def __init__(self, name: str, work: Work, setup: object, cpus: Iterable[int] = ()) -> None:
        self.name = name
        self._answers: deque[Any] = deque()
        """What was received and not yet taken."""
        self._pipe, far = _spawning.Pipe()
        self._process = _spawning.Process(target=_serve, args=(name, far, list(cpus), work, setup), daemon=True)
        self._process.start()
        far.close()

    @property
    def pid(self) -> int:
        """The number of the process, for what the system charges to it."""
        assert self._process.pid is not None  # noqa: S101 -- it was started
        return self._process.pid

    def order(self, order: object) -> None:
        """Send an order; `take` its answer later."""
        try:
            self._pipe.send(order)
        except OSError:
            self.wait(0)  # it says why, if it can
            raise BenchError(f"a {self.name} has ended") from None

    def take(self, kind: type[A], timeout_s: float | None = _ANSWER_S) -> A:
        """Wait for the answer to the oldest order that has none yet, for any time if there is no `timeout_s`.

        Raises:
            BenchError: The worker failed, has ended, or does not answer in time.
        """
        if not self.wait(timeout_s):
            raise BenchError(f"a {self.name} did not answer within {timeout_s:g} s")
        answer = self._answers.popleft()
        if not isinstance(answer, kind):
            raise BenchError(f"a {self.name} answered {answer}")
        return answer

    def wait(self, timeout_s: float | None) -> bool:
        """Wait until an answer can be taken; return whether there is one.

        Raises:
            BenchError: The worker failed or has ended.
        """
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
        """End the process; this does nothing if it has ended."""
        self._pipe.close()
        self._process.join(_STOP_S)
        self._process.kill()
        self._process.join()
        self._process.close()


def _serve(name: str, pipe: Connection, cpus: list[int], work: Work, setup: object) -> None:
    """Be a worker until the command has gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the command's, which ends its workers in order
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
    """Allow this process as many open connections as it may allow itself."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
