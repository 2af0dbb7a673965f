"""`Worker`: a process that makes load, as the command sees it. It gets orders through a pipe and gives one answer each.

A worker runs one function, which answers once when it is ready, then takes orders from its end of the pipe until the
command is gone. If it fails, its last answer is the error, which ends the benchmark.

Owner of the state: the command. Cost: a process starts in about 0.2 s.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import resource
import signal
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from hub.errors import HubError
from peers.bench.errors import BenchError

__all__ = ["Worker", "raise_descriptor_limit"]

_ANSWER_S = 60.0
_STOP_S = 5.0

_spawning = multiprocessing.get_context("spawn")
"""A worker begins with a new interpreter, and has nothing of the command's but what it is given."""

A = TypeVar("A")
Work = Callable[[Connection, Any], None]
"""What a worker does, a function of a module. It gets its end of the pipe and a set-up."""


class Worker:
    """One process.

    Args:
        name: What it is, for people.
        work: What it does.
        setup: What `work` must know.
        cpus: Where it may run; empty for anywhere.
    """

    def __init__(self, name: str, work: Work, setup: object, cpus: Iterable[int] = ()) -> None:
        self.name = name
        self._answers: deque[Any] = deque()
        """What was received and not yet taken."""
        self._pipe, far = _spawning.Pipe()
        self._process = _spawning.Process(target=_serve, args=(name, far, list(cpus), work, setup), daemon=True)
        self._process.start()
        far.close()

    @property
    def pid(self) -> int:
        """The number of the process, for what the system charges to it."""
        assert self._process.pid is not None  # noqa: S101 -- it was started
        return self._process.pid

    def order(self, order: object) -> None:
        """Send an order; `take` its answer later."""
        try:
            self._pipe.send(order)
        except OSError:
            self.wait(0)  # it says why, if it can
            raise BenchError(f"a {self.name} has ended") from None

    def take(self, kind: type[A], timeout_s: float | None = _ANSWER_S) -> A:
        """Wait for the answer to the oldest order that has none yet, for any time if there is no `timeout_s`.

        Raises:
            BenchError: The worker failed, has ended, or does not answer in time.
        """
        if not self.wait(timeout_s):
            raise BenchError(f"a {self.name} did not answer within {timeout_s:g} s")
        answer = self._answers.popleft()
        if not isinstance(answer, kind):
            raise BenchError(f"a {self.name} answered {answer}")
        return answer

    def wait(self, timeout_s: float | None) -> bool:
        """Wait until an answer can be taken; return whether there is one.

        Raises:
            BenchError: The worker failed or has ended.
        """
        if not self._answers and self._pipe.poll(timeout_s):
            try:
                answer = self._pipe.recv()
            except (EOFError, OSError):
                self._process.join(_STOP_S)
                raise BenchError(f"a {self.name} has ended with exit code {self._process.exitcode}") from None
            if isinstance(answer, BenchError):
                raise answer
            self._answers.append(answer)
        return bool(self._answers)

    def stop(self) -> None:
        """End the process; this does nothing if it has ended."""
        self._pipe.close()
        self._process.join(_STOP_S)
        self._process.kill()
        self._process.join()
        self._process.close()


def _serve(name: str, pipe: Connection, cpus: list[int], work: Work, setup: object) -> None:
    """Be a worker until the command has gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the command's, which ends its workers in order
    if cpus:
        os.sched_setaffinity(0, cpus)
    raise_descriptor_limit()
    gc.disable()  # nothing here is cyclic, and a collection would be measured as latency
    try:
        work(pipe, setup)
    except EOFError:
        return
    except (HubError, OSError) as error:
        with suppress(OSError):
            pipe.send(BenchError(f"{name}: {error}"))


def raise_descriptor_limit() -> None:
    """Allow this process as many open connections as it may allow itself."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
