"""`Environment`: where a benchmark was run; without that, its figures mean little. It is a frozen value."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from hub import __version__

__all__ = ["Environment"]


class Environment(msgspec.Struct, frozen=True):
    """A machine and what runs on it.

    Attributes:
        at: When it was, UTC.
        loop: The hub's event loop: uvloop, where it is installed.
        hot_loop: Whether the hub's hot loop is the compiled one.
        cpus: How many CPUs this process may use.
        load: How many processes wanted a CPU over the last minute before the benchmark; above 0 it was not alone.
    """

    at: str
    topichub: str
    python: str
    loop: str
    hot_loop: str
    kernel: str
    cpu: str
    cpus: int
    load: float

    @classmethod
    def here(cls) -> Environment:
        """Look around, and return what is here."""
        loop, cpu = "asyncio's own loop", platform.machine()
        with suppress(importlib.metadata.PackageNotFoundError):
            loop = f"uvloop {importlib.metadata.version('uvloop')}"
        with suppress(OSError, IndexError):
            cpu = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("model name\t: ")[1].partition("\n")[0]
        return cls(
            at=datetime.now(UTC).isoformat(timespec="seconds"),
            topichub=f"topichub {__version__}",
            python=f"{platform.python_implementation()} {platform.python_version()}",
            loop=loop,
            hot_loop="compiled hot loop" if importlib.util.find_spec("hub._runs") else "hot loop in Python",
            kernel=f"{platform.system()} {platform.release()}",
            cpu=cpu,
            cpus=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
            load=round(os.getloadavg()[0], 2),
        )

    def __str__(self) -> str:
        what = (self.topichub, self.hot_loop, self.python, self.loop, self.kernel, self.cpu)
        return f"{', '.join(what)}, {self.cpus} CPUs, load before {self.load:.2f}, {self.at}"
