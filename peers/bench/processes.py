"""Processes of a benchmark: the hub (`RunningHub`), workers that make load, the counters they share, CPU and memory.

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
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.sharedctypes import RawArray
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

from cyclopts import Group, Parameter

import peers
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
    """Calls of `write`; 0 where the system does not count them."""


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
        # Nanoseconds instead of ticks of 10 ms, where the kernel keeps them.
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
_WORKER_STOP_S = 5.0

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
                self._process.join(_WORKER_STOP_S)
                raise BenchError(f"a {self.name} has ended with exit code {self._process.exitcode}") from None
            if isinstance(answer, BenchError):
                raise answer
            self._answers.append(answer)
        return bool(self._answers)

    def stop(self) -> None:
        self._pipe.close()
        self._process.join(_WORKER_STOP_S)
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


_START_S = 30.0
_STOP_S = 15.0
_QUIET_CPU_NS = 3_000_000
_QUIET_STEP_S = 0.1
_QUIET_LIMIT_S = 20.0

TRAFFIC = Group("Traffic", sort_key=1)
HUB = Group("The hub", sort_key=4)


def option(text: str, group: Group = TRAFFIC, name: str | None = None, **more: Any) -> Parameter:
    return Parameter(name=name, help=text, group=group, **more)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class HubPlan:
    """The hub of a plan: a running one, or one to start."""

    urls: Annotated[
        tuple[str, ...],
        option(
            "A running hub, tcp:// or unix://; for --transport ws also its ws://. Default: start one.", HUB, "--url"
        ),
    ] = ()
    hub_pid: Annotated[int, option("With --url: its process, for CPU time and memory.", HUB)] = 0
    hub_flags: Annotated[
        tuple[str, ...],
        option("More flags of the started `hub run`, as --hub-flag=--limits-routes=1000.", HUB, "--hub-flag"),
    ] = ()

    def check_hub(self, ranges: Iterable[tuple[str, float, float, float]]) -> None:
        """Check the hub's options and `ranges` (option, number, least, most); raise `PlanError`."""
        for name, value, least, most in (*ranges, ("hub-pid", self.hub_pid, 0, 1 << 32)):
            if not least <= value <= most:
                raise PlanError(f"--{name}: {value:,} given, expected a number from {least:,} to {most:,}")
        if self.urls and self.hub_flags:
            raise PlanError("--hub-flag: only for a hub that is started for the benchmark, without --url")
        if self.hub_pid and not self.urls:
            raise PlanError("--hub-pid: only with --url; a hub that is started for the benchmark is known")

    def find_hub(self, schemes: tuple[str, ...], cpu: int | None = None) -> RunningHub:
        """Return the running hub, or start one that listens for these schemes."""
        if not self.urls:
            return RunningHub.start(schemes, self.hub_flags, cpu)
        if self.hub_pid:
            read_usage(self.hub_pid)  # raises at once if there is none
        return RunningHub({url.partition("://")[0]: url for url in self.urls}, self.hub_pid)


class RunningHub:
    """A hub: its URLs by scheme, and its process id, 0 if that (and so its CPU time) is not known."""

    def __init__(self, urls: dict[str, str], pid: int) -> None:
        self.urls = urls
        self.pid = pid
        self._process: subprocess.Popen[bytes] | None = None
        self._home: tempfile.TemporaryDirectory[str] | None = None

    @classmethod
    def start(cls, schemes: tuple[str, ...], flags: tuple[str, ...] = (), cpu: int | None = None) -> RunningHub:
        """Start a hub on free ports of loopback, bound to `cpu`, if not None.

        It has a listener for each scheme: "tcp", "unix", "ws".
        """
        home = tempfile.TemporaryDirectory(prefix="hub-bench-")  # a folder without a hub.toml
        places = {"unix": f"unix://{home.name}/hub.sock"}
        listen = [flag for scheme in schemes for flag in ("--listen", places.get(scheme, f"{scheme}://127.0.0.1:0"))]
        command = [sys.executable, "-m", "peers.cli", "run", *listen, "--log-level", "error", *flags]
        process = subprocess.Popen(  # noqa: S603 -- our own hub
            command, stdout=subprocess.PIPE, cwd=home.name, env=child_environment()
        )
        if cpu is not None:
            os.sched_setaffinity(process.pid, {cpu})
        hub = cls({}, process.pid)
        hub._process, hub._home = process, home
        try:
            hub._wait_up(process, len(schemes))
        except BaseException:
            hub.stop()
            raise
        return hub

    def url(self, scheme: str) -> str:
        """Return the URL for a scheme; a Unix socket will do for tcp. Raises `BenchError` if there is none."""
        found = self.urls.get(scheme) or (self.urls.get("unix") if scheme == "tcp" else None)
        if found is None:
            raise BenchError(f"no {scheme}:// url of the hub is known: give one with --url")
        return found

    def usage(self) -> Usage:
        """Return its usage, zeros if its process is not known. Raises `BenchError` if it has ended."""
        if self._process is not None and self._process.poll() is not None:
            raise BenchError(f"the hub has ended with exit code {self._process.returncode}")
        return read_usage(self.pid) if self.pid else Usage()

    def forget_peak(self) -> None:
        if self.pid:
            forget_peak(self.pid)

    def wait_quiet(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Wait until the hub is idle, and call `meanwhile` ten times a second."""
        deadline_s = time.monotonic() + _QUIET_LIMIT_S
        before, quiet = self.usage().cpu_ns, False
        while not quiet and time.monotonic() < deadline_s:
            time.sleep(_QUIET_STEP_S)
            meanwhile()
            now = self.usage().cpu_ns
            before, quiet = now, now - before < _QUIET_CPU_NS

    def stop(self) -> None:
        """End the hub, if it was started here."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.communicate(timeout=_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
        if self._home is not None:
            self._home.cleanup()

    def _wait_up(self, process: subprocess.Popen[bytes], listeners: int) -> None:
        assert process.stdout is not None  # noqa: S101 -- a pipe was asked for
        limit = threading.Timer(_START_S, process.kill)
        limit.start()
        try:
            while len(self.urls) < listeners:
                line = process.stdout.readline().decode()
                if not line:
                    raise BenchError(f"the hub did not start (exit code {process.wait()})")
                url = line.partition("listens on ")[2].strip()
                self.urls |= {url.partition("://")[0]: url} if url else {}
        finally:
            limit.cancel()


def child_environment() -> dict[str, str]:
    """Return an environment for child processes: these packages, and no settings of a hub."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HUB_")}
    root = str(Path(next(iter(peers.__path__))).parent)
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    return environment
