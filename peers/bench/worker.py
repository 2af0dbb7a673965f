"""`Worker`: a process that makes load, seen from the command.

Owner of the state: the command. A worker that fails says why in its last answer, and that ends the benchmark.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import msgspec

import peers
from peers.bench.errors import BenchError
from peers.bench.orders import Answer, Failed, Order, Setup

__all__ = ["Worker", "child_environment"]

_STOP_S = 5.0


class Worker:
    """One process.

    Args:
        module: In this package.
        setup: Sent to it at once; `take` returns its first answer, `Ready`.
        descriptors: That it inherits.
    """

    def __init__(self, module: str, setup: Setup, descriptors: tuple[int, ...]) -> None:
        self.name = module
        self._answers: msgspec.json.Decoder[Answer] = msgspec.json.Decoder(Answer)
        self._buffer = b""
        self._process = subprocess.Popen(  # noqa: S603 -- our own modules
            [sys.executable, "-m", f"peers.bench.{module}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=descriptors,
            env=child_environment(),
            start_new_session=True,  # Ctrl-C is the command's, which ends its workers in order
        )
        self._write(msgspec.json.encode(setup))

    @property
    def pid(self) -> int:
        """Of the process, for what the system charges to it."""
        return self._process.pid

    def order(self, order: Order) -> None:
        """Send an order; `take` its answer later."""
        self._write(msgspec.json.encode(order))

    def take(self, timeout_s: float) -> Answer:
        """Wait for the answer to the oldest order that has none yet.

        Raises:
            BenchError: The worker failed, ended or does not answer in time.
        """
        deadline_s = time.monotonic() + timeout_s
        while b"\n" not in self._buffer:
            self._read(max(0.0, deadline_s - time.monotonic()), timeout_s)
        line, _, self._buffer = self._buffer.partition(b"\n")
        answer = self._answers.decode(line)
        if isinstance(answer, Failed):
            raise BenchError(answer.text)
        return answer

    def wait(self, timeout_s: float) -> bool:
        """Wait until an answer can be taken; return whether there is one.

        Raises:
            BenchError: The worker has ended.
        """
        if b"\n" not in self._buffer and select.select([self._output], [], [], timeout_s)[0]:
            self._read(0.0, 0.0)
        return b"\n" in self._buffer

    def check(self) -> None:
        """Raise `BenchError` if the worker has failed or ended, without waiting."""
        if b"\n" not in self._buffer and select.select([self._output], [], [], 0)[0]:
            self._read(0.0, 0.0)
        line, newline, _ = self._buffer.partition(b"\n")
        if newline and isinstance(failed := self._answers.decode(line), Failed):
            raise BenchError(failed.text)

    def stop(self) -> None:
        """End the process; harmless when it has ended."""
        assert self._process.stdin is not None  # noqa: S101 -- a pipe was asked for
        assert self._process.stdout is not None  # noqa: S101
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.stdout.close()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    @property
    def _output(self) -> int:
        assert self._process.stdout is not None  # noqa: S101 -- a pipe was asked for
        return self._process.stdout.fileno()

    def _read(self, wait_s: float, timeout_s: float) -> None:
        if not select.select([self._output], [], [], wait_s)[0]:
            raise BenchError(f"a {self.name} did not answer within {timeout_s:g} s")
        data = os.read(self._output, 1 << 20)
        if not data:
            raise BenchError(f"a {self.name} has ended with exit code {self._process.wait(_STOP_S)}")
        self._buffer += data

    def _write(self, line: bytes) -> None:
        assert self._process.stdin is not None  # noqa: S101 -- a pipe was asked for
        try:
            self._process.stdin.write(line + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            self.check()
            raise BenchError(f"a {self.name} has ended") from None


def child_environment() -> dict[str, str]:
    """The environment of processes that this one starts: these packages, and no settings of a hub."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HUB_")}
    root = str(Path(next(iter(peers.__path__))).parent)
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    return environment
