"""The publisher: a process of its own that writes ready frames.

At full speed it writes 64 KiB of frames at once, as a client library that batches would. At a rate every burst (one
message, unless asked otherwise) has a time at which it is due, which is computed from the start and not from the one
before, and each burst is a write of its own. A publisher that is late does not skip or shift anything: the time in the
message stays the one that was intended, so the wait that its readers see is measured whole (no coordinated omission).

The publisher is never more messages ahead of the slowest subscriber than its window, as the board tells.

Owner of the state: this process. Cost: 10 to 60 ns a message at full speed, some µs for each write at a rate.
"""

from __future__ import annotations

import ctypes
import select
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection

from peers.bench.line import dial
from peers.bench.messages import Layout, Template
from peers.bench.worker import Board

_WINDOW_POLL_S = 0.00005
_LISTEN_NS = 500_000_000
"""How often a busy publisher looks for what the hub has to say (a ping, an error)."""

_PR_SET_TIMERSLACK = 29


@dataclass(frozen=True)
class Publisher:
    """The set-up of one publisher; it answers None when it is connected."""

    url: str
    layout: Layout
    board: Board
    number: int


@dataclass(frozen=True)
class Publish:
    """The order to send messages; `Published` answers it."""

    frames: int
    rate: float
    """Messages a second; 0 is full speed."""
    burst_frames: int
    """With a rate, so many frames are due at the same time."""
    window: int
    """Most messages that the slowest subscriber may be behind; 0 for any number."""
    start_ns: int
    """When the first message is due, by the monotonic clock."""


@dataclass(frozen=True)
class Published:
    """All messages were handed to the kernel."""

    latest_ns: int
    """How far behind its schedule the publisher was at worst."""
    waited_ns: int
    """How long the window held the publisher back."""
    cpu_ns: int


class _Publisher:
    """One connection that publishes."""

    def __init__(self, pipe: Connection, setup: Publisher) -> None:
        self._pipe = pipe
        self._layout = setup.layout
        self._number = setup.number
        self._board = setup.board
        self._row = setup.board.next[setup.number]
        self._template = Template(setup.layout, setup.number)
        self.line = dial(setup.url, setup.layout, f"bench publisher {setup.number}")
        self.line.socket.settimeout(None)
        self._frame = 0  # frames sent since the start of the process
        self._listened_ns = 0
        self._waited_ns = 0

    def publish(self, order: Publish) -> Published:
        """Carry out an order."""
        cpu_ns = time.process_time_ns()
        self._waited_ns = 0
        time.sleep(max(0, order.start_ns - time.monotonic_ns()) / 1e9)
        self._board.first_ns[self._number] = time.monotonic_ns()
        latest_ns = self._at_rate(order) if order.rate else self._at_full_speed(order)
        return Published(latest_ns, self._waited_ns, time.process_time_ns() - cpu_ns)

    def _at_full_speed(self, order: Publish) -> int:
        """Return 0, as there is nothing to be late for."""
        most = self._template.block_frames
        if order.window:
            most = max(1, min(most, order.window // self._layout.batch))
        end = self._frame + order.frames
        while self._frame < end:
            self._write(order, self._template.block(self._frame, min(most, end - self._frame)))
        return 0

    def _at_rate(self, order: Publish) -> int:
        """Return the worst lateness in ns."""
        begin, end = self._frame, self._frame + order.frames
        frames_per_s = order.rate / self._layout.batch
        latest_ns = 0
        while self._frame < end:
            due_ns = order.start_ns + int((self._frame - begin) / frames_per_s * 1e9)
            now_ns = time.monotonic_ns()
            if now_ns < due_ns:
                time.sleep((due_ns - now_ns) / 1e9)
                now_ns = time.monotonic_ns()
            latest_ns = max(latest_ns, now_ns - due_ns)
            self._write(order, self._burst(min(order.burst_frames, end - self._frame), due_ns))
        return latest_ns

    def _burst(self, frames: int, due_ns: int) -> memoryview | bytearray:
        """Return so many frames, even where the template ends in their midst."""
        data = self._template.block(self._frame, frames, due_ns)
        if len(data) == frames * self._layout.frame_bytes:
            return data
        whole = bytearray(data)
        while (made := len(whole) // self._layout.frame_bytes) < frames:
            whole += self._template.block(self._frame + made, frames - made, due_ns)
        return whole

    def _write(self, order: Publish, data: memoryview | bytearray) -> None:
        """Write the next frames, once the window allows it."""
        frames = len(data) // self._layout.frame_bytes
        self._wait_window(order, frames)
        self.line.socket.sendall(data)
        self._frame += frames
        self._board.sent[self._number] = self._frame * self._layout.batch
        self._listen(time.monotonic_ns())

    def _listen(self, now_ns: int) -> bool:
        """Take what the hub has to say, if that was not done for a while; return whether it was done now."""
        if now_ns - self._listened_ns < _LISTEN_NS:
            return False
        self._listened_ns = now_ns
        self.line.listen()
        return True

    def _wait_window(self, order: Publish, frames: int) -> None:
        if not order.window or not len(self._row):
            return
        floor = (self._frame + frames) * self._layout.batch - max(order.window, self._layout.batch)
        if min(self._row) >= floor:
            return
        began_ns = now_ns = time.monotonic_ns()
        while min(self._row) < floor:
            time.sleep(_WINDOW_POLL_S)
            now_ns = time.monotonic_ns()
            if self._listen(now_ns) and self._pipe.poll():
                raise EOFError  # there is no order in the midst of one: the command is gone
        self._waited_ns += now_ns - began_ns


def publish(pipe: Connection, setup: Publisher) -> None:
    """Be a publisher until the command is gone."""
    # A sleeping publisher is woken up to 50 µs late by default, which would be measured as latency.
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)
    publisher = _Publisher(pipe, setup)
    pipe.send(None)
    while True:
        readable, _, _ = select.select([pipe.fileno(), publisher.line.fileno()], [], [])
        if publisher.line.fileno() in readable:
            publisher.line.listen()
        if pipe.fileno() in readable:
            pipe.send(publisher.publish(pipe.recv()))
