"""A hub with a journal in a process of its own, as Spark's tasks need one; what is published into it, and read."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from hub.messages.batch import encode_value
from hub.messages.frame import BROKER_FLAGS, KIND_MESSAGES, encode_frame
from peers.client.blocking import BlockingClient, connect
from tests.forked.program import Program


class HubWithJournal:
    """`hub run --journal`, which can be stopped, killed, and started again at the same address.

    Args:
        path: Of the journal; None records nothing.
        arguments: More of `hub run`.
    """

    def __init__(self, path: Path | None, *arguments: str) -> None:
        self.path = path
        self.url = self.second_url = "tcp://127.0.0.1:0"
        self.arguments = arguments
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def start(self) -> None:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("HUB_")}
        journal = [] if self.path is None else ["--journal", str(self.path)]
        self._process = Program(
            *("run", "--listen", self.url, "--log-level", "warning", *journal, *self.arguments),
            env=clean,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        told = [self._process.stdout.readline() for _ in range(2 + self.arguments.count("--listen"))]
        assert "listens on" in told[-1], told
        self.url, self.second_url = told[1].split()[-1], told[-1].split()[-1]

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(number)
            process.communicate()

    def kill(self) -> None:
        self.stop(signal.SIGKILL)

    def restart(self) -> None:
        self.stop()
        self.start()

    def client(self) -> BlockingClient:
        return connect(self.url)

    def fill(self, messages: Iterable[tuple[str, Any]]) -> int:
        last = -1
        with self.client() as client:
            pending = list(messages)
            for topic, value in pending[:-1]:
                client.publish(topic, value)
            for topic, value in pending[-1:]:
                last = client.publish_confirmed(topic, value)
        return last + 1

    def fill_numbers(self, count: int, *, topics: int = 4, first: int = 0) -> int:
        return self.fill((f"/n/{number % topics}", {"number": number}) for number in range(first, first + count))

    def stage(self, *frames: bytes) -> None:
        with self.client() as client:
            client.stage("raw", 0, b"".join(frames))
            client.commit("raw", [0])

    def records(self, *prefixes: str) -> list[tuple[str, Any]]:
        with self.client() as client:
            return [(record.topic, record.value) for record in client.read(*prefixes)]


def message(topic: str, value: Any) -> bytes:
    return encode_frame(KIND_MESSAGES, encode_value(value), key=topic.encode())


def packed_message(topic: str, packed: bytes, *, broker: bool = False) -> bytes:
    return encode_frame(KIND_MESSAGES, packed, key=topic.encode(), flags=BROKER_FLAGS if broker else 0)


def lose_commit(checkpoint: Path, batch: int) -> None:
    """Let a streaming query have forgotten that it has done a batch."""
    (checkpoint / "commits" / str(batch)).unlink()
    (checkpoint / "commits" / f".{batch}.crc").unlink()
