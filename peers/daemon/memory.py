"""Memory of the process: malloc keeps what one read frees, and the garbage collector does not stop the hub.

A read allocates up to 256 KiB and frees it a moment later. glibc gives such a block back to the kernel at once, and the
next read pays for it again: half of all CPU time at full speed.

Python's collector walks over all live objects: with 9,000 idle clients 20 to 120 ms. So once a second what has survived
is frozen, and a collection walks over what one second has brought. Frozen objects are still freed by their reference
count; everything is walked over once after `CLOSED_LEAST` closed connections, and where memory is short.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
from collections.abc import Iterator

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3

_KEPT_BYTES = 16 * 1024 * 1024  # One frame of the largest usual size, and a turn's worth of reads


def keep_freed_memory() -> bool:
    """Tell malloc to keep up to 16 MiB that are free; False where this is not glibc."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES) and mallopt(_M_MMAP_THRESHOLD, _KEPT_BYTES))


# Fewer closed connections are not worth a walk: thousands may leave in a second, and no cycles are found
CLOSED_LEAST = 50_000

_YOUNG = 1  # The younger two of the collector's three generations


class GarbageWatch:
    """Decides each second whether to freeze what has survived, and whether to walk over everything."""

    def __init__(self) -> None:
        self._closed_before = 0  # How many connections had been closed when everything was walked over last
        gc.collect()
        gc.freeze()

    def tick(self, open_connections: int, closed_connections: int, *, is_memory_short: bool = False) -> None:
        """Freeze what has survived; once a second."""
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


_entered = [0]  # How many blocks are under way


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Collect nothing while the block makes something large, in whichever thread; freeze what is there then.

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
