"""Memory without a name: making it, sealing it, and finding out whether what came is such memory.

```
 0 ............ 59 ...................... 59 + size
 (head)         values                     a block of a segment, and memory of its own, alike
 0  u64 generation, 8  u64 size: of blocks; the rest is empty, so that behind msgpack's five bytes of a `bin` of 32 bit
    what the values hold is aligned to 64 bytes
```

A reader need not trust the writer: what is not sealed is not taken. Sealed against writing, shrinking and growing
(memory of its own), or against shrinking, growing and everybody but the one who had mapped it before (segments). Nor
may it have holes, which would be filled at the reader's cost, or stand on huge pages, where that can end a process.

Owner: nobody, these are functions. Cost: a fill is a copy and the pages for it, 0.5 ms a MiB; a check 1.3 µs.

Not here: blocks (`peers.shm.ring`).
"""

from __future__ import annotations

import fcntl
import os
import socket
import sys
import threading
from array import array
from collections.abc import Iterable
from struct import Struct

from hub.errors import CloseCode, RejectedError
from hub.quotas.usage import Usage

__all__ = [
    "AVAILABLE",
    "BLOCK_HEAD",
    "VALUES_AT",
    "Account",
    "Descriptor",
    "check_sealed",
    "check_segment",
    "fence",
    "make_sealed",
    "make_segment",
    "read",
    "seal_segment",
]

AVAILABLE = sys.platform == "linux" and hasattr(os, "memfd_create")
"""Whether this system has such memory. Without it plain bytes travel."""

VALUES_AT = 59
"""Where values begin, bytes behind the start of a block or a memfd: 64 - 5."""

BLOCK_HEAD = Struct("=QQ")
"""Generation and size in front of a block, in the byte order of the machine, which is one for all who map it."""

_NAME = "topichub"
_IOV_LIMIT = 1024
_BLOCK_BYTES = 512
"""The unit of `st_blocks`, bytes, whatever the file system's own block is."""

_SEAL_FUTURE_WRITE = 0x10
"""`F_SEAL_FUTURE_WRITE` of Linux 5.1, which Python 3.11 does not name."""

_SEALED = 0x8 | 0x4 | 0x2  # F_SEAL_WRITE, F_SEAL_GROW, F_SEAL_SHRINK; `fcntl` does not name them on other systems
_SEAL_SEAL = 0x1
_SEGMENT_SEALED = _SEAL_FUTURE_WRITE | 0x4 | 0x2

_fence = threading.Lock()


def fence() -> None:
    """Keep loads and stores on both sides of this call apart, also on processors that reorder them."""
    with _fence:
        pass


def make_sealed(parts: Iterable[bytes | memoryview], size_bytes: int) -> int:
    """Fill new memory with values and seal it.

    Args:
        parts: The values.
        size_bytes: Length of all of them, 1 or more.

    Returns:
        Its descriptor.

    Raises:
        OSError: No descriptor, or no memory, is left.
    """
    descriptor = os.memfd_create(_NAME, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        _fill(descriptor, list(parts), size_bytes)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALED | _SEAL_SEAL)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _fill(descriptor: int, parts: list[bytes | memoryview], size_bytes: int) -> None:
    waiting = [memoryview(bytes(VALUES_AT)), *(memoryview(part).cast("B") for part in parts)]
    left = size_bytes + VALUES_AT
    while left:
        written = os.writev(descriptor, waiting[:_IOV_LIMIT])
        left -= written
        while written:
            if written < len(waiting[0]):
                waiting[0] = waiting[0][written:]
                break
            written -= len(waiting.pop(0))


def make_segment(size_bytes: int) -> int:
    """Make memory for blocks; its pages are there from the beginning. Map it, then call `seal_segment`.

    Raises:
        OSError: No descriptor, or no memory, is left.
    """
    descriptor = os.memfd_create(_NAME, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.posix_fallocate(descriptor, 0, size_bytes)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def seal_segment(descriptor: int) -> None:
    """Let nobody write to it any more but through what is mapped.

    Raises:
        OSError: Linux is older than 5.1.
    """
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEGMENT_SEALED | _SEAL_SEAL)


def check_sealed(descriptor: int, size_bytes: int) -> None:
    """See to it that what came is sealed memory with values of that size.

    Raises:
        RejectedError: It is not; the text says what is wrong.
    """
    _check(descriptor, VALUES_AT + size_bytes, _SEALED, "against writing, shrinking and growing")


def check_segment(descriptor: int, size_bytes: int) -> None:
    """See to it that what came can be a segment of that size; raises as `check_sealed`."""
    _check(descriptor, size_bytes, _SEGMENT_SEALED, "against future writing, shrinking and growing")


def _check(descriptor: int, size_bytes: int, needed: int, meaning: str) -> None:
    try:
        seals = fcntl.fcntl(descriptor, fcntl.F_GET_SEALS)
    except OSError:
        raise _refusal("the descriptor is no memfd") from None
    found = os.fstat(descriptor)
    try:
        device = _device()
    except OSError as error:  # no descriptor is left
        raise RejectedError(CloseCode.TRY_AGAIN_LATER, f"SHARED: {error.strerror}") from error
    if found.st_dev != device:
        raise _refusal("the descriptor is no memfd of ordinary pages")
    if seals & needed != needed:
        raise _refusal(f"the memfd is not sealed {meaning} (seals 0x{seals:x})")
    if found.st_size < size_bytes:
        raise _refusal(f"the memfd has {found.st_size} bytes, {size_bytes} are claimed")
    if found.st_blocks * _BLOCK_BYTES < size_bytes:
        raise _refusal("the memfd has holes")


def _refusal(text: str) -> RejectedError:
    return RejectedError(CloseCode.BAD_DATA, f"SHARED: {text}")


def _device() -> int:
    """Return the device that all memfds of ordinary pages stand on."""
    global _found_device  # noqa: PLW0603 -- found once
    if _found_device < 0:
        descriptor = os.memfd_create(_NAME, os.MFD_CLOEXEC)
        _found_device = os.fstat(descriptor).st_dev
        os.close(descriptor)
    return _found_device


_found_device = -1


def read(descriptor: int, size_bytes: int, offset: int) -> bytes:
    """Return bytes, read without mapping: whatever the far side has done to that memory, this cannot fault."""
    return os.pread(descriptor, size_bytes, offset)


class Account:
    """Descriptors that somebody has brought and that are still open.

    Args:
        limit: Most of them; a caller that opens one asks `has_room` before.
        parent: A wider account, which every one of them is added to as well.
    """

    __slots__ = ("limit", "open", "parent", "refused", "usage")

    def __init__(self, limit: int, parent: Account | None = None) -> None:
        self.limit = limit
        # How many descriptors are open now: raised by `charge`, lowered when one of them is closed.
        self.open = 0
        # How many descriptors there was no room for; nothing lowers it.
        self.refused = 0
        self.parent = parent
        # What the user of a client's account has open in all; None where nobody is charged. It is set before anything
        # is open.
        self.usage: Usage | None = None

    @property
    def has_room(self) -> bool:
        """Whether one more may be open: here, in the wider account, and of the user."""
        if self.usage is not None and not self.usage.room:
            return False
        return self.open < self.limit and (self.parent is None or self.parent.has_room)

    def refuse(self) -> None:
        """Take note that there was no room for one."""
        self.refused += 1
        if self.usage is not None and not self.usage.room:
            self.usage.refuse()
        if self.parent is not None:
            self.parent.refuse()

    def add(self, number: int) -> None:
        """Add so many to what is open, here, in the wider account, and of the user; a negative number takes away."""
        self.open += number
        if self.usage is not None:
            if number > 0:
                self.usage.add(number)
            else:
                self.usage.give_back(-number)
        if self.parent is not None:
            self.parent.add(number)


class Descriptor:
    """One descriptor, which is closed at the latest with the last reference to this object.

    Args:
        number: Of an open descriptor, which belongs to this object from now on.
    """

    __slots__ = ("_account", "_rights", "number")

    number: int
    """The descriptor; -1 once it is closed."""

    def __init__(self, number: int) -> None:
        self.number = number
        # The account that is charged for it until it is closed; None before `charge`.
        self._account: Account | None = None
        # What `sendmsg` takes; None until it is handed over for the first time.
        self._rights: list[tuple[int, int, array[int]]] | None = None

    def __del__(self) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Descriptor {self.number}>"

    def charge(self, account: Account) -> None:
        """Charge an account for it until it is closed."""
        self._account = account
        account.add(1)

    @property
    def is_charged(self) -> bool:
        """Whether an account is charged for it."""
        return self._account is not None

    def close(self) -> None:
        """Close it now, whoever has this object. This does no harm if it was closed before."""
        if self.number < 0:
            return
        os.close(self.number)
        self.number = -1
        if self._account is not None:
            self._account.add(-1)

    @property
    def rights(self) -> list[tuple[int, int, array[int]]]:
        """What `sendmsg` takes to hand the descriptor over."""
        if self._rights is None:
            self._rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", [self.number]))]
        return self._rights
