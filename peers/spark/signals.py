"""SIGINT and SIGTERM in a job: Spark is stopped in order, and no Java is left behind.

pyspark is in the way: a Java that is just starting outlives an interrupted start; its own handler of SIGINT calls Java
while another call is under way, which fails; and an interrupted call is logged with its stack. Only the main thread
receives signals: in other threads these contexts do nothing.
"""

from __future__ import annotations

import logging
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


@contextmanager
def held_back() -> Iterator[None]:
    """Delay signals until the end of the block; handlers that the block sets do not stay."""
    if not _is_main_thread():
        yield
        return
    received: list[int] = []
    before = [(number, signal.signal(number, lambda number, _: received.append(number))) for number in _SIGNALS]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)
        if received:  # also where the block failed, for it may have failed by the signal
            signal.raise_signal(received[0])


@contextmanager
def orderly_ends() -> Iterator[None]:
    """Let SIGTERM end the block as Ctrl-C does, with all cleaning up; py4j logs no stacks."""
    if not _is_main_thread():
        yield
        return
    silent = logging.NullHandler()  # py4j logs to the root, which without any handler writes to standard error
    logging.getLogger().addHandler(silent)
    terminated = False

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        nonlocal terminated
        terminated = True
        raise KeyboardInterrupt  # the only exception after which py4j leaves no call behind that waits for an answer

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


@contextmanager
def stop_event() -> Iterator[threading.Event]:
    """Yield an event that the first signal sets, for jobs that end by themselves; the second one ends them at once."""
    stop = threading.Event()
    if not _is_main_thread():
        yield stop
        return

    def on_signal(number: int, _: FrameType | None) -> None:
        stop.set()
        signal.signal(number, before[signal.Signals(number)])

    before = {number: signal.getsignal(number) for number in _SIGNALS}
    for number in _SIGNALS:
        signal.signal(number, on_signal)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
