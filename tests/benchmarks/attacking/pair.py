"""The quiet pair: one publisher and one subscriber of 500 messages a second, and how late each message came.

A message is late for two reasons: the hub was busy with somebody else, or some process had to wait for a CPU. Only the
first is the hub's fault, so that the time for which the hub or this process has waited for a CPU while a message was on
its way (`/proc/PID/task/PID/schedstat`) is taken off: the longer of the two, since both may have waited at once.
"""

from __future__ import annotations

import os
import select
import statistics
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from attacking.line import Line
from hub.frame import FLAG_BATCH, HEADER, HEADER_BYTES
from peers.wire.kinds import Kind

__all__ = ["Lateness", "watch"]

_PER_S = 500
_TOPIC = "/quiet/pair"
_BODY = struct.Struct(">BBQQ")  # msgpack `bin` of 16 bytes: number, and a word that makes it 16
_LOST_S = 5.0
_NS = 1e9


class Lateness(NamedTuple):
    """What the pair has seen, milliseconds."""

    messages: int
    lost: int
    p50_ms: float
    p99_ms: float
    longest_ms: float
    waited_ms: float
    """For how long the hub had work and no CPU."""


class _Pair:
    def __init__(self, url: str, hub_pid: int) -> None:
        self._hub = Path(f"/proc/{hub_pid}/task/{hub_pid}/schedstat")
        self._own = Path(f"/proc/self/task/{os.getpid()}/schedstat")
        self._reader = Line(url)
        self._reader.subscribe([_TOPIC])
        self._writer = Line(url)
        time.sleep(0.3)
        self._reader.drain()
        self._sent: dict[int, tuple[int, int, int]] = {}
        self._held = b""
        self.late_ms: list[float] = []
        self.sent = 0

    def waited_ns(self) -> tuple[int, int]:
        """For how long the hub, and this process, have waited for a CPU."""
        return _waited_ns(self._hub), _waited_ns(self._own)

    def send(self) -> None:
        body = _BODY.pack(0xC4, 16, self.sent, 0)
        frame = HEADER.pack(len(body), Kind.MESSAGES, 0, len(_TOPIC)) + _TOPIC.encode() + body
        self._sent[self.sent] = (time.monotonic_ns(), *self.waited_ns())
        self._writer.socket.send(frame)
        self.sent += 1

    def receive(self, timeout_s: float) -> None:
        if not select.select([self._reader.socket], [], [], max(0.0, timeout_s))[0]:
            return
        data = self._reader.socket.recv(65536)
        if not data:
            raise ConnectionError("the hub has closed the quiet subscriber")
        now_ns, waited_ns = time.monotonic_ns(), self.waited_ns()
        self._held += data
        while len(self._held) >= HEADER_BYTES:
            size, kind, flags, key = HEADER.unpack_from(self._held)
            if len(self._held) < HEADER_BYTES + key + size:
                return
            if kind == Kind.MESSAGES and not flags & FLAG_BATCH:
                self._take(self._held[HEADER_BYTES + key : HEADER_BYTES + key + size], now_ns, waited_ns)
            elif kind == Kind.PING:
                self._reader.socket.sendall(HEADER.pack(size, Kind.PONG, 0, 0) + self._held[HEADER_BYTES:][:size])
            self._held = self._held[HEADER_BYTES + key + size :]

    def _take(self, body: bytes, now_ns: int, waited_ns: tuple[int, int]) -> None:
        sent_ns, *before_ns = self._sent.pop(_BODY.unpack(body)[2])
        waited = max(after - before for after, before in zip(waited_ns, before_ns, strict=True))
        self.late_ms.append(max(0, now_ns - sent_ns - waited) / 1e6)

    @property
    def missing(self) -> int:
        return len(self._sent)


def watch(url: str, hub_pid: int, until: Callable[[], bool]) -> Lateness:
    """Let the pair talk until it is told to end; return how late its messages were."""
    pair = _Pair(url, hub_pid)
    waited_ns = _waited_ns(Path(f"/proc/{hub_pid}/task/{hub_pid}/schedstat"))
    due_ns = time.monotonic_ns()
    while not until():
        due_ns += int(_NS / _PER_S)
        while (left_ns := due_ns - time.monotonic_ns()) > 0:
            pair.receive(left_ns / _NS)
        due_ns = max(due_ns, time.monotonic_ns() - int(_NS))  # at most a second is made up for
        pair.send()
    end_s = time.monotonic() + _LOST_S
    while pair.missing and time.monotonic() < end_s:
        pair.receive(0.1)
    waited_ns = _waited_ns(Path(f"/proc/{hub_pid}/task/{hub_pid}/schedstat")) - waited_ns
    late = sorted(pair.late_ms)
    cuts = statistics.quantiles(late, n=100)
    return Lateness(pair.sent, pair.missing, cuts[49], cuts[98], late[-1], waited_ns / 1e6)


def _waited_ns(file: Path) -> int:
    try:
        return int(file.read_text().split()[1])
    except OSError:
        return 0
