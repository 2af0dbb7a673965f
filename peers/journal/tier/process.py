"""The process that copies a journal to its tier, so that the hub need not wait for what is far.

    python -m peers.journal.tier.process ORDER DESCRIPTOR

ORDER is JSON (`Order`). On the socket it tells how far it is and what is wrong, a line of JSON each time that changes
(`Told`); nothing comes back. It ends with the socket, behind the file that it is copying. What fails, for whatever
reason, is tried again, later each time, up to a minute.

Owner: its own process; of the journal it has a lock, so that there is one. Cost: `peers.journal.tier.copier`, with the
lowest priority; while nothing is sealed, a look at the folder once a second.
"""

from __future__ import annotations

import os
import select
import socket
import sys
import time
import traceback
from collections.abc import Callable

import msgspec

from hub.errors import StorageError
from peers.journal.tier.copier import Copier, TierRetention
from peers.journal.tier.place import place_at
from peers.journal.tier.progress import Told

__all__ = ["Order", "copy", "main"]

_NICENESS = 10
"""By how much it gives way to hub and readers where there are too few processors, as `nice` has it."""

_POLL_S = 1.0
"""How often it looks whether a segment was sealed, seconds."""

_FIRST_RETRY_S = 1.0

_LAST_RETRY_S = 60.0
"""How long it waits after a failure at most, seconds: a tier that is back is noticed so late."""


class Order(msgspec.Struct, frozen=True):
    """What is to be copied."""

    path: str
    tier: str
    keep_bytes: int = 0
    """What the tier keeps; 0: without end."""
    keep_us: int = 0
    """The same by age; 0: for ever."""


def copy(order: Order, connection: socket.socket, wait: Callable[[socket.socket, float], bool] | None = None) -> None:
    """Copy until the other side has closed.

    Args:
        order: What.
        connection: Where it is told.
        wait: Waits so many seconds; whether the other side has closed.
    """
    wait = wait or _has_ended
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
            pause_s = retry_s = min(max(_FIRST_RETRY_S, 2 * retry_s), _LAST_RETRY_S)
            now = msgspec.structs.replace(told, error=_text_of(error), failures=told.failures + 1)
        if now != told:
            told = now
            connection.sendall(msgspec.json.encode(told) + b"\n")
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


def _has_ended(connection: socket.socket, wait_s: float) -> bool:
    """Wait so long; return whether the other side has closed."""
    return bool(select.select([connection], [], [], wait_s)[0])


def main() -> None:
    """Copy what the arguments name."""
    order, descriptor = sys.argv[1:]
    os.nice(_NICENESS)
    with socket.socket(fileno=int(descriptor)) as connection:
        try:
            copy(msgspec.json.decode(order, type=Order), connection)
        except (BrokenPipeError, ConnectionResetError, KeyboardInterrupt):
            return  # the hub has ended


if __name__ == "__main__":
    main()
