"""Whether the hub of a job is there, asked before Java is started, which takes seconds.

The driver asks: it plans each query, and so must reach the hub like the executors. What is asked is what the job needs
first: of a job that reads, the state of the journal; of one that publishes, a connection. Nothing is kept.

Not here: a hub that goes away later (`peers.spark.connector.connection`, `peers.spark.archiving.query`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from hub.errors import PeerError
from peers.spark.connector.connection import Connection, close_all, may_pass
from peers.spark.connector.options import Access

__all__ = ["AGAIN_S", "check_connection", "check_journal", "wait_journal"]

AGAIN_S = 2.0
"""Between two attempts of a job that goes on for good and begins before its hub."""


def check_journal(access: Access) -> None:
    """See to it that there is a journal to read.

    Raises:
        PeerError: The hub cannot be reached, refuses, or has no journal; the text says which.
    """
    try:
        Connection(replace(access, num_retries=0)).client().journal(hub=access.hub, timeout_s=access.timeout_s)
    finally:
        close_all()


def check_connection(access: Access) -> None:
    """See to it that the hub takes a connection.

    Raises:
        PeerError: It cannot be reached, or refuses.
    """
    try:
        Connection(replace(access, num_retries=0)).client()
    finally:
        close_all()


def wait_journal(
    access: Access, tell: Callable[[PeerError], object], sleep: Callable[[float], None] = time.sleep
) -> None:
    """Wait until there is a journal to read.

    Args:
        access: How to reach it.
        tell: Called once, with why it is waited.
        sleep: Waits so many seconds.

    Raises:
        PeerError: Waiting cures nothing: the hub refuses, or has no journal.
    """
    told = False
    while True:
        try:
            return check_journal(access)
        except PeerError as error:
            if not may_pass(error):
                raise
            if not told:
                tell(error)
                told = True
            sleep(AGAIN_S)
