"""What the processes have in common that work beside the hub on its journal; the hub's side is `SideProcess`.

    python -m MODULE ORDER DESCRIPTOR

ORDER is JSON. On the socket a process tells how far it is, a line of JSON each time that changes; nothing comes back,
and it ends with the socket. What fails is tried again, later each time, up to a minute.

Owner: the process. Not here: what they do (`peers.journal.tier.process`).
"""

from __future__ import annotations

import os
import select
import socket
import sys
from collections.abc import Callable
from typing import TypeVar

import msgspec

__all__ = ["LAST_RETRY_S", "Wait", "later", "tell", "wait_for_end", "work_beside"]

_FIRST_RETRY_S = 1.0

LAST_RETRY_S = 60.0
"""How long is waited after a failure at most, seconds: that all is well again is noticed so late."""

Wait = Callable[[socket.socket, float], bool]
"""Waits so many seconds; returns whether the other side has closed."""

Order = TypeVar("Order", bound=msgspec.Struct)


def later(retry_s: float) -> float:
    """Return how long is waited after one more failure, where it was so long after the last one; 0 for none."""
    return min(max(_FIRST_RETRY_S, 2 * retry_s), LAST_RETRY_S)


def tell(connection: socket.socket, told: msgspec.Struct) -> None:
    """Tell the hub how far this is, in one line."""
    connection.sendall(msgspec.json.encode(told) + b"\n")


def wait_for_end(connection: socket.socket, wait_s: float) -> bool:
    """Wait so long; return whether the other side has closed."""
    return bool(select.select([connection], [], [], wait_s)[0])


def work_beside(kind: type[Order], work: Callable[[Order, socket.socket], None], niceness: int) -> None:
    """Do what the arguments of this process name, until the hub has ended.

    Args:
        kind: What the order is.
        work: Does it.
        niceness: By how much it gives way to hub and readers where there are too few processors, as `nice` has it.
    """
    order, descriptor = sys.argv[1:]
    os.nice(niceness)
    with socket.socket(fileno=int(descriptor)) as connection:
        try:
            work(msgspec.json.decode(order, type=kind), connection)
        except (BrokenPipeError, ConnectionResetError, KeyboardInterrupt):
            return  # the hub has ended
