"""Signals as an event."""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from peers.spark.stopping import signals_told


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_sets_the_event(number: signal.Signals) -> None:
    """Nothing is raised; and everything is as before, behind it."""
    before = signal.getsignal(number)
    with signals_told() as told:
        assert not told.is_set()
        os.kill(os.getpid(), number)
        assert told.wait(10)
    assert signal.getsignal(number) is before


def test_the_second_signal_is_as_before() -> None:
    """For a job that does not look."""
    before = signal.getsignal(signal.SIGINT)
    with signals_told() as told:
        assert signal.getsignal(signal.SIGINT) is not before
        os.kill(os.getpid(), signal.SIGINT)
        assert told.wait(10)
        assert signal.getsignal(signal.SIGINT) is before


def test_other_threads_get_none() -> None:
    """There it is an event like any other."""

    def work() -> bool:
        with signals_told() as told:
            return isinstance(told, threading.Event)

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(work).result()
