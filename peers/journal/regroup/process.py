"""The process that lays sealed segments anew, so that the hub need not.

    python -m peers.journal.regroup.process ORDER DESCRIPTOR

ORDER is JSON (`Order`). On the socket it tells what it has done and what is wrong, a line of JSON each time that
changes (`Told`); nothing comes back. It ends when there is nothing left to do, which the hub sees by its code, 0, and
starts it again when there is; and with the socket, within a row. What fails is tried again, later each time, up to a
minute.

Owner: its own process. Cost: `peers.journal.segments.laying`, with the lowest priority, and 60 MiB.
"""

from __future__ import annotations

import os
import select
import socket
import sys
from collections.abc import Callable

import msgspec

from hub.errors import StorageError
from peers.journal.regroup.regrouper import Regrouper, Stage
from peers.journal.segments.laying import LEAST_BYTES, Laid

__all__ = ["Order", "Told", "main", "regroup"]

_NICENESS = 19
"""By how much it gives way to all others where there are too few processors, as `nice` has it: as much as can be."""

_POLL_S = 0.1
"""How often it looks whether a segment has its place, seconds: it gets that with a commit, or within five seconds."""

_FIRST_RETRY_S = 1.0

_LAST_RETRY_S = 60.0
"""How long it waits after a failure at most, seconds."""


class Order(msgspec.Struct, frozen=True):
    """What is to be laid anew."""

    path: str
    compresses: bool = True
    least_bytes: int = LEAST_BYTES


class Told(msgspec.Struct, frozen=True):
    """What it has done since it was started."""

    laid: int = 0
    """How many segments were laid anew."""
    before_bytes: int = 0
    """What these took before."""
    after_bytes: int = 0
    skipped: int = 0
    """How many are damaged, and stay as they are."""
    failures: int = 0
    """How often it failed, and was tried again."""
    error: str = ""
    """What is wrong; empty if nothing is."""
    offered: Laid | None = None
    """A segment that is to be given its place."""


class _EndedError(Exception):
    """The hub has ended."""


def regroup(
    order: Order, connection: socket.socket, wait: Callable[[socket.socket, float], bool] | None = None
) -> None:
    """Lay segments anew until all are, or the other side has closed.

    Args:
        order: What.
        connection: Where it is told.
        wait: Waits so many seconds; whether the other side has closed.
    """
    wait = wait or _has_ended

    def breathe() -> None:
        if wait(connection, 0.0):
            raise _EndedError

    regrouper: Regrouper | None = None
    told = Told()
    stage = Stage.SETTLED
    retry_s = pause_s = 0.0
    try:
        while stage is not Stage.DONE and not wait(connection, pause_s):
            try:
                regrouper = regrouper or Regrouper(
                    order.path, compresses=order.compresses, least_bytes=order.least_bytes
                )
                stage = regrouper.step(breathe)
                pause_s, retry_s = _POLL_S if stage is Stage.OFFERED else 0.0, 0.0
                now = _told_of(regrouper, told)
            except StorageError as error:
                pause_s = retry_s = min(max(_FIRST_RETRY_S, 2 * retry_s), _LAST_RETRY_S)
                now = msgspec.structs.replace(told, error=" ".join(str(error).split()), failures=told.failures + 1)
            if now != told:
                told = now
                connection.sendall(msgspec.json.encode(told) + b"\n")
    except _EndedError:
        pass
    finally:
        if regrouper is not None:
            regrouper.close()


def _told_of(regrouper: Regrouper, before: Told) -> Told:
    return Told(
        regrouper.laid,
        regrouper.before_bytes,
        regrouper.after_bytes,
        regrouper.skipped,
        before.failures,
        "",
        regrouper.offered,
    )


def _has_ended(connection: socket.socket, wait_s: float) -> bool:
    """Wait so long; return whether the other side has closed."""
    return bool(select.select([connection], [], [], wait_s)[0])


def main() -> None:
    """Lay anew what the arguments name."""
    order, descriptor = sys.argv[1:]
    os.nice(_NICENESS)
    with socket.socket(fileno=int(descriptor)) as connection:
        try:
            regroup(msgspec.json.decode(order, type=Order), connection)
        except (BrokenPipeError, ConnectionResetError, KeyboardInterrupt):
            return  # the hub has ended


if __name__ == "__main__":
    main()
