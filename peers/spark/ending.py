"""Ends in the middle of a job: Ctrl-C and SIGTERM stop Spark in order and leave no Java behind.

Three habits of pyspark are in the way: a Java that is just being started outlives an interrupted start; its own
handler of SIGINT calls Java while a call is under way, which fails; and what was interrupted is logged with its stack.

Signals are the main thread's: on others nothing is done here. Not here: jobs that ask whether they are to end
(`peers.spark.stopping`).
"""

from __future__ import annotations

import logging
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["held_back", "orderly_ends"]

_ENDS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def held_back() -> Iterator[None]:
    """Let an end that is asked for within the block take place behind it; handlers are then what they were before."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = [(number, signal.getsignal(number)) for number in _ENDS]

    def note(number: int, _: FrameType | None) -> None:
        came.append(number)

    for number in _ENDS:
        signal.signal(number, note)
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)
        if came:  # also where the block failed, for it may have failed by the signal
            signal.raise_signal(came[0])


@contextmanager
def orderly_ends() -> Iterator[None]:
    """Let SIGTERM end the block as Ctrl-C does, with all that is to be done before; no stacks are logged.

    Raises:
        SystemExit: SIGTERM came.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    silent = logging.NullHandler()  # py4j logs to the root, which without any handler writes to standard error
    logging.getLogger().addHandler(silent)
    terminated = False

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        nonlocal terminated
        terminated = True
        raise KeyboardInterrupt  # of all exceptions, after this one py4j leaves no call behind that waits for an answer

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    except KeyboardInterrupt:
        if terminated:
            sys.exit(128 + signal.SIGTERM)
        raise
    finally:
        signal.signal(signal.SIGTERM, before)
        logging.getLogger().removeHandler(silent)
