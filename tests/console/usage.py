"""What a Chromium uses, by kind of process, as the kernel counts it: time of processors, and memory.

The renderer runs the page. Without a graphics card (`--disable-gpu`) the process called `gpu-process` puts the picture
together in software, as the compositor does on a card elsewhere, and the renderer's raster threads paint the tiles. No
state.
"""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import NamedTuple

__all__ = ["Memory", "cpu_by_kind", "cpu_s", "memory_of", "renderers"]

_KIND = re.compile(rb"--type=([\w-]+)")

_KIB = 1024
"""KiB in a MiB."""


class Memory(NamedTuple):
    """What a process holds, MiB."""

    rss: float
    """All pages that are in memory, those that it shares with others, too."""
    pss: float
    """The same, shared pages in equal parts among those who share them."""
    own: float
    """Pages that are nobody else's."""


def cpu_by_kind(pid: int) -> dict[str, float]:
    """Return how much time of processors each kind of process has used so far, seconds: `browser`, `renderer` ..."""
    used: dict[str, float] = {}
    for process, kind in _family(pid):
        used[kind] = used.get(kind, 0.0) + cpu_s(process)
    return used


def renderers(pid: int) -> list[int]:
    """Return the processes of a Chromium that run pages."""
    return [process for process, kind in _family(pid) if kind == "renderer"]


def cpu_s(pid: int) -> float:
    """Return how much time of processors the threads that a process has now have used so far, seconds."""
    used_ns = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):  # it has ended meanwhile
            used_ns += int((task / "schedstat").read_text().split()[0])
    return used_ns / 1e9


def memory_of(pid: int) -> Memory:
    """Return what a process holds."""
    sizes: dict[str, float] = {}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
        name, size, _ = line.split()
        sizes[name] = int(size) / _KIB
    return Memory(sizes["Rss:"], sizes["Pss:"], sizes["Private_Dirty:"] + sizes["Private_Clean:"])


def _family(pid: int) -> list[tuple[int, str]]:
    """Return a process and all that it has started, each with its kind."""
    found, waiting = [], [pid]
    while waiting:
        process = Path(f"/proc/{waiting.pop()}")
        with contextlib.suppress(OSError):  # it has ended meanwhile
            command = (process / "cmdline").read_bytes()
            for task in (process / "task").iterdir():
                waiting += [int(child) for child in (task / "children").read_text().split()]
            kind = _KIND.search(command)
            found.append((int(process.name), kind[1].decode() if kind else "browser"))
    return found
