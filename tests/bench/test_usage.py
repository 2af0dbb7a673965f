"""`Usage`: what the operating system has charged to a process."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from peers.bench.errors import BenchError
from peers.bench.usage import forget_peak, read_usage


def test_work_is_charged_and_waiting_is_not() -> None:
    """The process that computes has used about what its own clock says."""
    before, began_ns = read_usage(os.getpid()), time.process_time_ns()
    while time.process_time_ns() - began_ns < 100_000_000:
        pass
    used_ns = read_usage(os.getpid()).cpu_ns - before.cpu_ns
    assert 80_000_000 < used_ns < 10 * (time.process_time_ns() - began_ns)


def test_memory_is_charged_and_its_peak_can_be_forgotten() -> None:
    """32 MiB that come and go raise the peak, until it is forgotten."""
    memory = bytearray(b"x" * (32 << 20))
    held = read_usage(os.getpid())
    del memory
    assert held.peak_bytes >= held.memory_bytes > 32 << 20
    forget_peak(os.getpid())
    assert read_usage(os.getpid()).peak_bytes <= held.peak_bytes


def test_a_process_that_is_gone() -> None:
    """It is an error that names the process, not a figure."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    with pytest.raises(BenchError, match=f"process {process.pid}"):
        read_usage(process.pid)
