"""Ctrl-C and SIGTERM as an event that a job looks at, instead of an exception anywhere.

An exception in the middle of a call of Java leaves that connection in disorder; and pyspark's own handler makes such a
call. So a job that is to end in good order, with its account, asks. The second signal ends it the hard way.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["signals_told"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def signals_told() -> Iterator[threading.Event]:
    """Yield an event that the first of these signals sets, while the block runs.

    Elsewhere than in the main thread, which alone gets signals, nobody sets it.
    """
    told = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield told
        return

    def tell(number: int, _: FrameType | None) -> None:
        told.set()
        signal.signal(number, before[signal.Signals(number)])

    before = {number: signal.getsignal(number) for number in _SIGNALS}
    for number in _SIGNALS:
        signal.signal(number, tell)
    try:
        yield told
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
