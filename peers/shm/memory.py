"""Sealed memory (memfds): make it, check it, account for its descriptors.

```
 0 ............ 59 ...................... 59 + size
 (head)         values                     a block of a segment, and a memfd of one message, alike
 0  u64 generation, 8  u64 size (blocks only). Behind the five bytes of a msgpack `bin` head, bytes are aligned to 64.
```

A reader need not trust the writer: memory that is not sealed is rejected, and so is memory with holes, which would be
filled at the reader's cost, or on huge pages, where a fault can end a process. Filling costs 0.5 ms a MiB.
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
from typing import TYPE_CHECKING

from hub.errors import CloseCode, RejectedError

if TYPE_CHECKING:  # clients have no quotas
    from hub.quotas import Usage

# Whether this system has memfds. Without them plain bytes travel.
AVAILABLE = sys.platform == "linux" and hasattr(os, "memfd_create")
BLOCK_ALIGNMENT = 64  # Blocks begin at multiples of a cache line, bytes
VALUES_AT = 59  # Offset of the values in a block or memfd, bytes: 64 - 5
BLOCK_HEAD = Struct("=QQ")  # Generation and size in front of a block, in the byte order of the machine
_NAME = "topichub"
_IOV_LIMIT = 1024
_BLOCK_BYTES = 512  # The unit of `st_blocks`, bytes
_SEAL_FUTURE_WRITE = 0x10  # `F_SEAL_FUTURE_WRITE` (Linux 5.1); Python 3.11 does not name it
_SEALED = 0x8 | 0x4 | 0x2  # F_SEAL_WRITE, F_SEAL_GROW, F_SEAL_SHRINK; `fcntl` does not name them on other systems
_SEAL_SEAL = 0x1
_SEGMENT_SEALED = _SEAL_FUTURE_WRITE | 0x4 | 0x2
_fence = threading.Lock()


def fence() -> None:
    """Memory barrier, also for processors that reorder loads and stores."""
    with _fence:
        pass


def make_sealed(parts: Iterable[bytes | memoryview], size_bytes: int) -> int:
    """Return a descriptor of new, sealed memory with values of `size_bytes` in all, 1 or more."""
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
    """Make memory for blocks, with all pages allocated; may raise an `OSError`. Map it, then call `seal_segment`."""
    descriptor = os.memfd_create(_NAME, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.posix_fallocate(descriptor, 0, size_bytes)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def seal_segment(descriptor: int) -> None:
    """Allow writes through the existing mapping only; an `OSError` where Linux is older than 5.1."""
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEGMENT_SEALED | _SEAL_SEAL)


def check_sealed(descriptor: int, size_bytes: int) -> None:
    """Raise a `RejectedError` if a descriptor is not sealed memory with values of that size."""
    _check(descriptor, VALUES_AT + size_bytes, _SEALED, "against writing, shrinking and growing")


def check_segment(descriptor: int, size_bytes: int) -> None:
    """Raise a `RejectedError` if a descriptor cannot be a segment of that size."""
    _check(descriptor, size_bytes, _SEGMENT_SEALED, "against future writing, shrinking and growing")


def _check(descriptor: int, size_bytes: int, needed: int, meaning: str) -> None:
    try:
        seals = fcntl.fcntl(descriptor, fcntl.F_GET_SEALS)
    except OSError:
        raise _refusal("the descriptor is not a memfd") from None
    found = os.fstat(descriptor)
    try:
        device = _device()
    except OSError as error:  # no descriptor is left
        raise RejectedError(CloseCode.TRY_AGAIN_LATER, f"SHARED: {error.strerror}") from error
    if found.st_dev != device:
        raise _refusal("the descriptor is not a memfd of ordinary pages")
    if seals & needed != needed:
        raise _refusal(f"the memfd is not sealed {meaning} (seals 0x{seals:x})")
    if found.st_size < size_bytes:
        raise _refusal(f"the memfd has {found.st_size} bytes, {size_bytes} are claimed")
    if found.st_blocks * _BLOCK_BYTES < size_bytes:
        raise _refusal("the memfd has holes")


def _refusal(text: str) -> RejectedError:
    return RejectedError(CloseCode.BAD_DATA, f"SHARED: {text}")


def _device() -> int:
    """Return the device of all memfds of ordinary pages."""
    global _found_device  # noqa: PLW0603 -- found once
    if _found_device < 0:
        descriptor = os.memfd_create(_NAME, os.MFD_CLOEXEC)
        _found_device = os.fstat(descriptor).st_dev
        os.close(descriptor)
    return _found_device


_found_device = -1


def read(descriptor: int, size_bytes: int, offset: int) -> bytes:
    """Read without mapping, which cannot fault."""
    return os.pread(descriptor, size_bytes, offset)


class Account:
    """Open descriptors that a client has brought; callers check `has_room` before they open one."""

    def __init__(self, limit: int, parent: Account | None = None) -> None:
        self.limit = limit
        self.open = 0
        self.refused = 0
        self.parent = parent
        # Descriptors of the user of a client; None if no user is charged. Set before anything is open.
        self.usage: Usage | None = None

    @property
    def has_room(self) -> bool:
        """Whether one more may be open: here, in the wider account, and for the user."""
        if self.usage is not None and not self.usage.room:
            return False
        return self.open < self.limit and (self.parent is None or self.parent.has_room)

    def refuse(self) -> None:
        self.refused += 1
        if self.usage is not None and not self.usage.room:
            self.usage.refuse()
        if self.parent is not None:
            self.parent.refuse()

    def add(self, number: int) -> None:
        self.open += number
        if self.usage is not None:
            if number > 0:
                self.usage.add(number)
            else:
                self.usage.give_back(-number)
        if self.parent is not None:
            self.parent.add(number)


class Descriptor:
    """An owned descriptor, closed at the latest with the last reference to this object."""

    __slots__ = ("_account", "_rights", "number")

    def __init__(self, number: int) -> None:
        self.number = number  # The descriptor; -1 once it is closed
        self._account: Account | None = None
        self._rights: list[tuple[int, int, array[int]]] | None = None

    def __del__(self) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Descriptor {self.number}>"

    def charge(self, account: Account) -> None:
        self._account = account
        account.add(1)

    @property
    def is_charged(self) -> bool:
        return self._account is not None

    def close(self) -> None:
        if self.number < 0:
            return
        os.close(self.number)
        self.number = -1
        if self._account is not None:
            self._account.add(-1)

    @property
    def rights(self) -> list[tuple[int, int, array[int]]]:
        """Ancillary data for `sendmsg`."""
        if self._rights is None:
            self._rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", [self.number]))]
        return self._rights
