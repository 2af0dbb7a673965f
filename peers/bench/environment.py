"""Where a benchmark was run: without that, its figures mean little."""

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
    """A machine and what runs on it."""

    at: str
    """When, UTC."""
    topichub: str
    python: str
    uvloop: str
    """Empty if it is not installed; the hub then runs on asyncio's own loop."""
    compiled: bool
    """Whether the hub's hot loop is the compiled one."""
    kernel: str
    cpu: str
    cpus: int
    """That this process may use."""
    load: float
    """Processes that wanted a CPU over the last minute, before the benchmark: above 0 it was not alone."""

    @classmethod
    def here(cls) -> Environment:
        """Look around."""
        uvloop = ""
        with suppress(importlib.metadata.PackageNotFoundError):
            uvloop = importlib.metadata.version("uvloop")
        return cls(
            at=datetime.now(UTC).isoformat(timespec="seconds"),
            topichub=__version__,
            python=f"{platform.python_implementation()} {platform.python_version()}",
            uvloop=uvloop,
            compiled=importlib.util.find_spec("hub._runs") is not None,
            kernel=f"{platform.system()} {platform.release()}",
            cpu=_cpu(),
            cpus=len(os.sched_getaffinity(0)),
            load=round(os.getloadavg()[0], 2),
        )

    def __str__(self) -> str:
        loop = f"uvloop {self.uvloop}" if self.uvloop else "asyncio's own loop"
        hot_loop = "compiled hot loop" if self.compiled else "hot loop in Python"
        return (
            f"topichub {self.topichub}, {hot_loop}, {self.python}, {loop}, {self.kernel}, {self.cpu}, "
            f"{self.cpus} CPUs, "
            f"load before {self.load:.2f}, {self.at}"
        )


def _cpu() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.machine()
