"""What was measured on what: machine, kernel, Python, and the brokers' versions. Figures without it mean nothing."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from brokers.broker import Broker

__all__ = ["surroundings"]


def surroundings(brokers: Sequence[Broker], network: str) -> dict[str, str]:
    """Return names and texts, for people.

    Args:
        brokers: Those that took part.
        network: What `network.enter_own_network` said.
    """
    about = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": f"{_processor()}, {os.cpu_count()} CPUs, {_memory_gib():.0f} GiB",
        "system": f"{_distribution()}, Linux {platform.release()}",
        "network": network,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
    }
    return about | {broker.name: broker.version() for broker in brokers}


def _processor() -> str:
    return _value(Path("/proc/cpuinfo"), "model name", ":") or platform.machine()


def _distribution() -> str:
    return _value(Path("/etc/os-release"), "PRETTY_NAME", "=").strip('"') or platform.system()


def _memory_gib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30


def _value(file: Path, name: str, separator: str) -> str:
    """Return what stands behind a name in a file of names and values, empty if nothing does."""
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return ""
    for line in lines:
        key, _, value = line.partition(separator)
        if key.strip() == name:
            return value.strip()
    return ""
