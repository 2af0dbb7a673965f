"""Keep the memory that one read frees for the next one.

A read allocates up to 256 KiB and frees it a moment later. glibc's malloc gives such a block at the top of its heap
back to the kernel at once, and the next read pays for it again: four `brk` calls and about 60 page faults, half of all
CPU time of the hub at full speed (measured: 0.24 µs a message with it, 0.12 without). Two thresholds stop that.
They cost at most their size in resident memory.
"""

from __future__ import annotations

import ctypes

__all__ = ["keep_freed_memory"]

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3

_KEPT_BYTES = 16 * 1024 * 1024
"""One frame of the largest usual size, and a turn's worth of reads."""


def keep_freed_memory() -> bool:
    """Tell malloc to keep up to 16 MiB that are free; False where this is not glibc."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES) and mallopt(_M_MMAP_THRESHOLD, _KEPT_BYTES))
