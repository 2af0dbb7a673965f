"""The process that lays sealed segments anew, so that the hub need not.

    python -m peers.journal.regroup.process ORDER DESCRIPTOR

ORDER is JSON (`Order`); what it tells is `Told`. It ends when there is nothing left to do, which the hub sees by its
code, 0, and starts it again when there is; and with the socket, within a row. How it is started, tells and tries again:
`peers.journal.side_work`.

Owner: its own process. Cost: `peers.journal.segments.laying`, with the lowest priority, and 60 MiB.
"""

from __future__ import annotations

import socket

import msgspec

from hub.errors import StorageError
from peers.journal.regroup.regrouper import Regrouper, Stage
from peers.journal.segments.laying import LEAST_BYTES, Laid
from peers.journal.side_work import Wait, later, tell, wait_for_end, work_beside

__all__ = ["Order", "Told", "main", "regroup"]

_NICENESS = 19
"""By how much it gives way to all others where there are too few processors, as `nice` has it: as much as can be."""

_POLL_S = 0.1
"""How often it looks whether a segment has its place, seconds: it gets that with a commit, or within five seconds."""


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


def regroup(order: Order, connection: socket.socket, wait: Wait | None = None) -> None:
    """Lay segments anew until all are, or the other side has closed.

    Args:
        order: What.
        connection: Where it is told.
        wait: Waits so many seconds; whether the other side has closed.
    """
    wait = wait or wait_for_end

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
                pause_s = retry_s = later(retry_s)
                now = msgspec.structs.replace(told, error=" ".join(str(error).split()), failures=told.failures + 1)
            if now != told:
                told = now
                tell(connection, told)
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


def main() -> None:
    """Lay anew what the arguments name."""
    work_beside(Order, regroup, _NICENESS)


if __name__ == "__main__":
    main()
