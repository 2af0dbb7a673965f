"""The process that copies a journal to its tier, so that the hub need not wait for what is far.

    python -m peers.journal.tier.process ORDER DESCRIPTOR

ORDER is JSON (`Order`); what it tells is `Told`. It ends with the socket, behind the file that it is copying. How it is
started, tells and tries again: `peers.journal.side_work`.

Owner: its own process; of the journal it has a lock, so that there is one. Cost: `peers.journal.tier.copier`, with the
lowest priority; while nothing is sealed, a look at the folder once a second.
"""

from __future__ import annotations

import socket
import time
import traceback

import msgspec

from hub.errors import StorageError
from peers.journal.side_work import Wait, later, tell, wait_for_end, work_beside
from peers.journal.tier.copier import Copier, TierRetention
from peers.journal.tier.place import place_at
from peers.journal.tier.progress import Told

__all__ = ["Order", "copy", "main"]

_NICENESS = 10
"""By how much it gives way to hub and readers where there are too few processors, as `nice` has it."""

_POLL_S = 1.0
"""How often it looks whether a segment was sealed, seconds."""


class Order(msgspec.Struct, frozen=True):
    """What is to be copied."""

    path: str
    tier: str
    keep_bytes: int = 0
    """What the tier keeps; 0: without end."""
    keep_us: int = 0
    """The same by age; 0: for ever."""


def copy(order: Order, connection: socket.socket, wait: Wait | None = None) -> None:
    """Copy until the other side has closed.

    Args:
        order: What.
        connection: Where it is told.
        wait: Waits so many seconds; whether the other side has closed.
    """
    wait = wait or wait_for_end
    copier: Copier | None = None
    told = Told()
    retry_s = pause_s = 0.0
    while not wait(connection, pause_s):
        try:
            copier = copier or _copier(order)
            pause_s = 0.0 if copier.step(time.time_ns() // 1000) else _POLL_S
            retry_s = 0.0
            now = _told_of(copier, told)
        except Exception as error:  # noqa: BLE001 -- what nobody foresaw would end process after process
            pause_s = retry_s = later(retry_s)
            now = msgspec.structs.replace(told, error=_text_of(error), failures=told.failures + 1)
        if now != told:
            told = now
            tell(connection, told)
    if copier is not None:
        copier.close()


def _text_of(error: Exception) -> str:
    """Return what is wrong, in one line; of what nobody foresaw, where it was raised, too."""
    text = " ".join(str(error).split())
    if isinstance(error, StorageError):
        return text
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} at {place.filename}:{place.lineno}: {text}"


def _copier(order: Order) -> Copier:
    return Copier(order.path, place_at(order.tier), TierRetention(order.keep_bytes, order.keep_us))


def _told_of(copier: Copier, before: Told) -> Told:
    progress = copier.progress()
    if progress is None:
        return before
    return Told(progress, before.failures)


def main() -> None:
    """Copy what the arguments name."""
    work_beside(Order, copy, _NICENESS)


if __name__ == "__main__":
    main()
