"""How much memory there is for this process, how much it takes, and how it gives back what it no longer needs.

The memory is limited by the machine, by the tightest of the process's control groups (version 1 and 2), and by the
process's own limits of address space and data. The hub keeps to a part of that, because the kernel's buffers of sockets
count as well, and because the hub must notice before the kernel does.

Where there is no `/proc`, as on macOS and in some chroots, the machine's memory comes from `sysconf`, and what is
resident is what was at the start, with what is charged since: `getrusage` knows only the peak, which never falls.

`MemoryWatch` is called once a second. It has `hub.memory` look, and when much is held that no account knows of, such as
after many clients have left, it has malloc give memory back. That takes long, so a thread does it.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import resource
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache, partial
from pathlib import Path

from hub.memory import Memory

MEMORY_PART = 0.6
"""Part of the available memory that the hub uses by default. The rest is for the kernel's buffers (the kernel may hold
some MiB for each reader that stalls), for reader processes, and for what is taken between two looks."""

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

_KEPT_BYTES = 16 * 1024 * 1024
"""How much malloc may keep at the end of its heap, so that reads need not ask the kernel for memory again and again."""

_WORTH_BYTES = 32 * 1024 * 1024
"""By how much what is held must have grown before malloc is asked again, as it walks over all free memory."""

_AGAIN_TICKS = 10
"""Where malloc could not give back what is held beyond the least, it is asked again after so many seconds: what it was
asked for may have been in use. In vain, the time doubles, as asking stops whatever allocates for 50 ms."""

_ROOT = Path("/")


def memory_limit_bytes(set_bytes: int, workers: int = 1) -> int:
    """Return the budget of a process: what was set, or a part of the available memory if that is 0.

    Args:
        set_bytes: For the hub.
        workers: If there are several, they and their core divide it.
    """
    processes = workers + 1 if workers > 1 else 1
    return (set_bytes or int(available_bytes() * MEMORY_PART)) // processes


def available_bytes(root: Path = _ROOT) -> int:
    """Return how much memory this process may have at most.

    Args:
        root: The directory that holds `proc` and `sys`; tests give another one.
    """
    return min([_machine_bytes(root), *_group_limits(root), *_own_limits()])


def _machine_bytes(root: Path) -> int:
    with suppress(OSError):
        for line in (root / "proc/meminfo").read_text().splitlines():
            if line.startswith("MemTotal:"):
                return int(line.split()[1]) * 1024
    with suppress(OSError, ValueError):  # a name that this system does not know
        pages = os.sysconf("SC_PHYS_PAGES")
        if pages > 0:
            return pages * _PAGE_BYTES
    return 1 << 62  # the kernel does not say, so only the other limits count


def _group_limits(root: Path) -> Iterator[int]:
    """Yield the limits of the process's control groups and of all groups around them."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    groups = root / "sys/fs/cgroup"
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            yield from _limits_upwards(groups, path, "memory.max")
        elif "memory" in controllers.split(","):
            yield from _limits_upwards(groups / "memory", path, "memory.limit_in_bytes")


def _limits_upwards(mount: Path, path: str, file: str) -> Iterator[int]:
    """Yield the limits of a group and of all groups around it.

    In a container the group itself may be mounted as the root, so that its path does not exist.
    """
    parts = [part for part in path.split("/") if part]
    for depth in range(len(parts), -1, -1):
        try:
            text = mount.joinpath(*parts[:depth], file).read_text().strip()
        except OSError:
            continue
        if text.isdecimal():  # "max" means no limit
            yield int(text)


def _own_limits() -> Iterator[int]:
    for number in (getattr(resource, "RLIMIT_AS", resource.RLIMIT_DATA), resource.RLIMIT_DATA):  # OpenBSD has no AS
        soft, _ = resource.getrlimit(number)
        if soft != resource.RLIM_INFINITY:
            yield soft


def budget(limit_bytes: int) -> Memory:
    """Return the budget of this process."""
    try:
        resident_bytes()
    except OSError:  # there is no /proc
        memory = Memory(limit_bytes)
        memory.count_only_charged(_peak_bytes())
        return memory
    return Memory(limit_bytes, resident_bytes)


def _peak_bytes() -> int:
    """Return how much memory of this process was resident at most."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def resident_bytes() -> int:
    """Return how much memory of this process is resident.

    Raises:
        OSError: There is no /proc.
    """
    return int(os.pread(_statm(os.getpid()), 100, 0).split()[1]) * _PAGE_BYTES


@cache
def _statm(_: int) -> int:
    """Open what the kernel tells of this process, once: when no descriptor is left, memory is looked at all the same.

    Args:
        _: The number of the process. A process that was forked has another one, and a file of its own.
    """
    return os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)


class MemoryWatch:
    """What is done about memory once a second.

    Args:
        memory: The budget.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._held_bytes = 0
        """The least resident memory beyond what is charged that was seen since malloc was last asked; 0 before the
        first look. Growth above it is what malloc may be able to give back."""
        self._least_bytes = 0
        """The same since the start."""
        self._again_ticks = self._wait_ticks = _AGAIN_TICKS
        """How many ticks are left until malloc may be asked again for what it could not give back, and how many there
        were after the last time."""
        self._giving_back: asyncio.Future[None] | None = None
        """Set while the thread gives memory back, None otherwise."""

    def tick(self) -> None:
        """Look, and have malloc give back what it holds if that has grown by much since the last time."""
        self._memory.look()
        held = self._uncharged_bytes(self._memory.charged_bytes)
        if not self._held_bytes:
            self._held_bytes = self._least_bytes = held
        self._least_bytes = min(self._least_bytes, held)
        if self._giving_back is not None:
            return
        self._again_ticks -= 1
        has_grown = held > self._held_bytes + _WORTH_BYTES
        if has_grown or (self._again_ticks <= 0 and held > self._least_bytes + _WORTH_BYTES):
            self._wait_ticks = _AGAIN_TICKS if has_grown else 2 * self._wait_ticks
            self._again_ticks = self._wait_ticks
            self._giving_back = asyncio.get_running_loop().run_in_executor(None, give_back)
            self._giving_back.add_done_callback(partial(self._gave_back, self._memory.charged_bytes))
        else:
            self._held_bytes = min(self._held_bytes, held)

    def _gave_back(self, charged_bytes: int, _: asyncio.Future[None]) -> None:
        """Malloc was asked while so much was charged: what was freed since then, it may not have given back."""
        self._giving_back = None
        self._memory.gave_back()
        self._memory.look()
        self._held_bytes = self._uncharged_bytes(charged_bytes)

    def _uncharged_bytes(self, charged_bytes: int) -> int:
        return self._memory.statistics().resident_bytes - charged_bytes


def give_back() -> None:
    """Have malloc return free memory to the kernel, except for what reads need; without glibc nothing happens."""
    try:
        ctypes.CDLL(None).malloc_trim(_KEPT_BYTES)
    except (OSError, AttributeError):
        return
