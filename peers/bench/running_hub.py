"""`RunningHub`: the measured hub, started for the benchmark on free ports of loopback, or one that runs already."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

import peers
from peers.bench.worker import BenchError, PlanError, Usage, forget_peak, read_usage

_START_S = 30.0
_STOP_S = 15.0
_QUIET_CPU_NS = 3_000_000
_QUIET_STEP_S = 0.1
_QUIET_LIMIT_S = 20.0


class HubPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The hub of a plan: a running one (`urls`, `hub_pid`, 0 for unknown), or one to start, with `hub_flags`."""

    urls: tuple[str, ...] = ()
    hub_pid: int = 0
    hub_flags: tuple[str, ...] = ()

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
    def start(
        cls,
        schemes: tuple[str, ...],
        flags: tuple[str, ...] = (),
        cpu: int | None = None,
        program: tuple[str, ...] = ("-m", "peers.cli"),
    ) -> RunningHub:
        """Start a hub; raise `BenchError` if it does not start.

        Args:
            schemes: One listener each: "tcp", "unix", "ws".
            flags: Further flags of `hub run`.
            cpu: The CPU that it is bound to; None for any.
            program: Arguments of Python that run the command line.
        """
        home = tempfile.TemporaryDirectory(prefix="hub-bench-")  # a folder without a hub.toml
        places = {"unix": f"unix://{home.name}/hub.sock"}
        listen = [flag for scheme in schemes for flag in ("--listen", places.get(scheme, f"{scheme}://127.0.0.1:0"))]
        command = [sys.executable, *program, "run", *listen, "--log-level", "error", *flags]
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
        """Reset its peak of memory."""
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
