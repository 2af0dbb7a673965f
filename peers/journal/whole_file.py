"""A file that stands under its name once it is whole: what a crash leaves behind has another name.

```
path.new ─ written, on the disk ─▶ path
```

No state. Not here: that the name itself is on the disk, for which whoever writes waits by the folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

__all__ = ["FILE_MODE", "MAKING", "making", "sync_data"]

FILE_MODE = 0o600


def sync_data(descriptor: int) -> None:
    """Wait until what a descriptor's file holds is on the disk; macOS has no `fdatasync`."""
    (os.fdatasync if hasattr(os, "fdatasync") else os.fsync)(descriptor)


MAKING = ".new"
"""Behind the name of a file that is being made."""


@contextmanager
def making(path: str) -> Iterator[int]:
    """Give a descriptor, to write the file by; the file gets its name behind the block, or vanishes if anything fails.

    From then on the descriptor is the caller's, who closes it; after a failure it is closed.

    Raises:
        OSError: It cannot be made, brought to the disk, or named.
    """
    descriptor = os.open(path + MAKING, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
    try:
        yield descriptor
        os.fsync(descriptor)
        os.rename(path + MAKING, path)  # noqa: PTH104
    except BaseException:
        os.close(descriptor)
        with suppress(OSError):
            os.unlink(path + MAKING)  # noqa: PTH108
        raise
