"""`RunningHub`: the hub that is measured: started for it, or one that runs already.

A hub that is started listens on ports of loopback that the system picks, or on a Unix socket in a directory of its own.
It has no configuration but the given flags, and may be bound to a CPU. Owner of the state: the command.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import tempfile
import time

from peers.bench.errors import BenchError
from peers.bench.usage import Usage, forget_peak, read_usage
from peers.bench.worker import child_environment

__all__ = ["RunningHub"]

_START_S = 30.0
_STOP_S = 15.0
_QUIET_CPU_NS = 3_000_000
_QUIET_STEP_S = 0.1
_QUIET_LIMIT_S = 20.0


class RunningHub:
    """A hub.

    Attributes:
        urls: Where it listens, by scheme.
        pid: Of its process, 0 if unknown; then its CPU time is unknown, too.
    """

    def __init__(self, urls: dict[str, str], pid: int) -> None:
        self.urls = urls
        self.pid = pid
        self._process: subprocess.Popen[bytes] | None = None
        self._home: tempfile.TemporaryDirectory[str] | None = None

    @classmethod
    def adopt(cls, urls: list[str], pid: int) -> RunningHub:
        """Use a hub that runs."""
        if pid:
            read_usage(pid)
        return cls({url.partition("://")[0]: url for url in urls}, pid)

    @classmethod
    def start(cls, schemes: tuple[str, ...], flags: tuple[str, ...] = (), cpu: int | None = None) -> RunningHub:
        """Start one.

        Args:
            schemes: "tcp", "unix", "ws": one listener each.
            flags: Further flags of `hub run`.
            cpu: To bind it to, None for any.

        Raises:
            BenchError: It does not start; what it says goes to stderr.
        """
        home = tempfile.TemporaryDirectory(prefix="hub-bench-")  # so that no hub.toml is found
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
            hub._wait_up(schemes)
        except BaseException:
            hub.stop()
            raise
        return hub

    def url(self, scheme: str) -> str:
        """Return where it listens for that scheme; a Unix socket will do for tcp.

        Raises:
            BenchError: Nowhere.
        """
        found = self.urls.get(scheme) or (self.urls.get("unix") if scheme == "tcp" else None)
        if found is None:
            raise BenchError(f"no {scheme}:// url of the hub is known: give one with --url")
        return found

    def usage(self) -> Usage:
        """What it has used; all 0 if its process is not known.

        Raises:
            BenchError: It has ended.
        """
        if self._process is not None and self._process.poll() is not None:
            raise BenchError(f"the hub has ended with exit code {self._process.returncode}")
        return read_usage(self.pid) if self.pid else Usage(0, 0, 0, 0, 0, 0)

    def forget_peak(self) -> None:
        """Measure its peak of memory from now on."""
        if self.pid:
            forget_peak(self.pid)

    def wait_quiet(self) -> None:
        """Wait until it does (almost) nothing, so that what came before is not charged to what comes next."""
        if not self.pid:
            time.sleep(_QUIET_STEP_S)
            return
        deadline_s = time.monotonic() + _QUIET_LIMIT_S
        before = self.usage().cpu_ns
        while time.monotonic() < deadline_s:
            time.sleep(_QUIET_STEP_S)
            now = self.usage().cpu_ns
            if now - before < _QUIET_CPU_NS:
                return
            before = now

    def stop(self) -> None:
        """End it, if it was started here."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        if self._home is not None:
            self._home.cleanup()
        self._process = None

    def _wait_up(self, schemes: tuple[str, ...]) -> None:
        """Read from its output where it listens."""
        assert self._process is not None  # noqa: S101 -- called by `start`
        assert self._process.stdout is not None  # noqa: S101
        output = self._process.stdout
        said = b""
        deadline_s = time.monotonic() + _START_S
        while len(self.urls) < len(schemes):
            if not select.select([output], [], [], max(0.0, deadline_s - time.monotonic()))[0]:
                raise BenchError(f"the hub was not up within {_START_S:g} s; it said: {said.decode(errors='replace')}")
            data = os.read(output.fileno(), 4096)
            if not data:
                raise BenchError(f"the hub did not start (exit code {self._process.wait()})")
            said += data
            for line in said[: said.rfind(b"\n") + 1].decode().splitlines():
                _, found, url = line.partition("listens on ")
                if found:
                    self.urls[url.partition("://")[0]] = url
