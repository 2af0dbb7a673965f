"""Memory of the process: its limit, what it takes, and how malloc and the garbage collector are kept from harm.

The limit is that of the machine, of the tightest control group (version 1 and 2), and of the process's own limits; the
hub keeps to a part of it, because the kernel's buffers of sockets count as well. Without `/proc`, as on macOS, the
resident memory is taken to be that at the start with what is charged since: `getrusage` knows only the peak.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import os
import resource
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache, partial
from pathlib import Path

from hub.scheduling.memory import Memory

# Part of the available memory. The rest is for the kernel's buffers (some MiB for each stalled reader), for reader
# processes, and for growth between two looks.
MEMORY_PART = 0.6
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_KEPT_BYTES = 16 * 1024 * 1024  # Free memory that malloc keeps: one large frame, and a turn's worth of reads
# Growth of uncharged memory after which malloc is asked to give back, as it walks over all free memory
_WORTH_BYTES = 32 * 1024 * 1024
# Seconds until malloc is asked again for what it could not give back. In vain, the time doubles, as asking stops
# whatever allocates for 50 ms.
_AGAIN_TICKS = 10
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # Of glibc
# Fewer closed connections are not worth a walk over all objects: thousands may leave in a second, without any cycles
CLOSED_LEAST = 50_000
_YOUNG = 1  # The younger two of the collector's three generations
_ROOT = Path("/")


def memory_limit_bytes(set_bytes: int, workers: int = 1) -> int:
    """Return the budget of a process: the setting, or a part of the available memory if that is 0."""
    processes = workers + 1 if workers > 1 else 1
    return (set_bytes or int(available_bytes() * MEMORY_PART)) // processes


def available_bytes(root: Path = _ROOT) -> int:
    """Return how much memory this process may have at most; `root` holds `proc` and `sys`."""
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
    try:
        resident_bytes()
    except OSError:  # there is no /proc
        memory = Memory(limit_bytes)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        memory.count_only_charged(peak if sys.platform == "darwin" else peak * 1024)
        return memory
    return Memory(limit_bytes, resident_bytes)


def resident_bytes() -> int:
    """Return how much memory of this process is resident; raises an `OSError` without /proc."""
    return int(os.pread(_statm(os.getpid()), 100, 0).split()[1]) * _PAGE_BYTES


@cache
def _statm(_: int) -> int:
    """Open once, for when no descriptor is left; the argument is the process, as a forked one has its own file."""
    return os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)


class MemoryWatch:
    """Looks at memory once a second, and has malloc give back what the accounts do not explain.

    That happens in a thread, as it takes long; for example after many clients have left.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._held_bytes = 0  # Least uncharged resident memory since malloc was last asked
        self._least_bytes = 0  # The same since the start
        self._again_ticks = self._wait_ticks = _AGAIN_TICKS
        self._giving_back: asyncio.Future[None] | None = None  # Set while the thread gives memory back

    def tick(self) -> None:
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
        # Memory that was freed since malloc was asked may not have been given back: so the charge of then counts.
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


def keep_freed_memory() -> bool:
    """Have malloc keep up to 16 MiB that are free; return False where this is not glibc.

    A read allocates up to 256 KiB and frees it a moment later. glibc gives such a block back to the kernel at once, and
    the next read pays for it again: half of all CPU time at full speed.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES) and mallopt(_M_MMAP_THRESHOLD, _KEPT_BYTES))


class GarbageWatch:
    """Freezes what has survived each second, so that a collection walks over the objects of one second only.

    With 9,000 idle clients, a walk over all objects takes 20 to 120 ms. Frozen objects are still freed by their
    reference count; everything is walked over once after many closed connections, and where memory is short.
    """

    def __init__(self) -> None:
        self._closed_before = 0  # Closed connections at the last walk over everything
        gc.collect()
        gc.freeze()

    def tick(self, open_connections: int, closed_connections: int, *, is_memory_short: bool = False) -> None:
        if not gc.isenabled():
            return
        closed = closed_connections - self._closed_before
        if closed > max(CLOSED_LEAST, open_connections // 2) or (closed and is_memory_short):
            self._closed_before = closed_connections
            gc.unfreeze()
            gc.collect()
        else:
            gc.collect(_YOUNG)
        gc.freeze()


_entered = [0]  # Blocks of `undisturbed` that are under way


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Collect no garbage while the block makes something large, in any thread; freeze it then.

    A policy of 100,000 rules is 300,000 objects, over which the collector would walk again and again: half a second in
    all, up to 120 ms at once, in which nothing else runs. Blocks may overlap; they are entered and left in the loop.
    """
    _entered[0] += 1
    gc.disable()
    try:
        yield
    finally:
        _entered[0] -= 1
        if not _entered[0]:
            gc.freeze()
            gc.enable()
