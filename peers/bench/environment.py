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
        uvloop: Its version; empty if it is not installed, and the hub runs on asyncio's own loop.
        compiled: Whether the hub's hot loop is the compiled one.
        cpus: How many CPUs this process may use.
        load: How many processes wanted a CPU over the last minute before the benchmark; above 0 it was not alone.
    """

    at: str
    topichub: str
    python: str
    uvloop: str
    compiled: bool
    kernel: str
    cpu: str
    cpus: int
    load: float

    @classmethod
    def here(cls) -> Environment:
        """Look around, and return what is here."""
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
            f"{self.cpus} CPUs, load before {self.load:.2f}, {self.at}"
        )


def _cpu() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.machine()
