"""Ends in the middle of something."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager

import pytest

from peers.spark.signals import held_back, orderly_ends, stop_event
from tests.spark.quick import QUICK_CONF


def interrupted(done: list[str], number: signal.Signals) -> None:
    with held_back():
        signal.raise_signal(number)
        signal.raise_signal(number)
        done.append("all of the block")


def test_an_interrupt_is_held_back() -> None:
    done: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        interrupted(done, signal.SIGINT)
    assert done


def test_handlers_set_within_the_block_do_not_stay() -> None:
    before = signal.getsignal(signal.SIGINT)
    with held_back():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("around", [held_back, orderly_ends])
def test_sigterm_is_an_exit(around: Callable[[], AbstractContextManager[None]]) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as raised, orderly_ends(), around():
        signal.raise_signal(signal.SIGTERM)
    assert raised.value.code == 143
    assert signal.getsignal(signal.SIGTERM) is before


def test_logs_go_nowhere_only_meanwhile() -> None:
    before = list(logging.getLogger().handlers)
    with orderly_ends():
        assert len(logging.getLogger().handlers) == len(before) + 1
    assert logging.getLogger().handlers == before


def test_on_other_threads_nothing_is_done() -> None:
    done = []

    def work() -> None:
        with orderly_ends(), held_back():
            done.append(1)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_sets_the_event(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with stop_event() as told:
        assert not told.is_set()
        os.kill(os.getpid(), number)
        assert told.wait(10)
    assert signal.getsignal(number) is before


def test_the_second_signal_is_as_before() -> None:
    before = signal.getsignal(signal.SIGINT)
    with stop_event() as told:
        assert signal.getsignal(signal.SIGINT) is not before
        os.kill(os.getpid(), signal.SIGINT)
        assert told.wait(10)
        assert signal.getsignal(signal.SIGINT) is before


def test_other_threads_get_none() -> None:
    def work() -> bool:
        with stop_event() as told:
            return isinstance(told, threading.Event)

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(work).result()


JOB = """
import os, signal, threading, time
from peers.spark.session import SessionSettings, running_job
with running_job(SessionSettings(master="local[1]", conf=CONF)) as job:
    def end():
        while not job.spark.sparkContext.statusTracker().getActiveStageIds():
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGNAL)
    threading.Thread(target=end, daemon=True).start()
    job.spark.sql("SELECT sum(a.id * b.id % 7) FROM range(3000000) a, range(3000000) b").collect()
"""


@pytest.mark.parametrize(("name", "code", "said"), [("SIGINT", -2, "KeyboardInterrupt"), ("SIGTERM", 143, "")])
def test_a_job_that_would_never_end(name: str, code: int, said: str) -> None:
    program = JOB.replace("SIGNAL", name).replace("CONF", repr(QUICK_CONF))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=220)
    assert "while sending command" not in done.stderr
    assert said in done.stderr
    assert done.returncode == code
