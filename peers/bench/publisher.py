"""The publisher: a process of its own that writes ready frames.

At full speed it writes 64 KiB of frames at once, as a client library that batches would. At a rate every burst (one
message, unless asked otherwise) has a time at which it is due, computed from the start and not from the one before,
and each is a write of its own. A publisher that is late does not skip or shift anything: the time in the message stays
the one that was intended, so the wait that its readers see is measured whole (no coordinated omission). More than
`_JOIN_NS` late, bursts that are due leave in one write, up to a block.

The window: it is never more than so many messages ahead of the slowest subscriber, as the board tells.
"""

from __future__ import annotations

import ctypes
import select
import socket
import time

from peers.bench.board import Board
from peers.bench.dial import Line, dial
from peers.bench.errors import BenchError
from peers.bench.framing import Control
from peers.bench.orders import Publish, Published, PublisherSetup, Ready
from peers.bench.station import Station, serve
from peers.bench.template import Template

_WINDOW_POLL_S = 0.00005
_JOIN_NS = 10_000_000
_LISTEN_NS = 500_000_000
"""How often a busy publisher looks for what the hub has to say (a ping, an error)."""

_PR_SET_TIMERSLACK = 29


class _Publisher:
    """One connection that publishes."""

    def __init__(self, setup: PublisherSetup, board: Board) -> None:
        self._layout = setup.layout
        self._number = setup.number
        self._board = board
        self._row = board.row(setup.number)
        self._template = Template(setup.layout, setup.number)
        self._line: Line = dial(setup.url, setup.layout, f"bench publisher {setup.number}")
        self._line.socket.settimeout(None)
        self._inbox = bytearray(self._line.held)
        self._frame = 0  # frames sent since the start of the process
        self._listened_ns = 0
        self._waited_ns = 0

    def fileno(self) -> int:
        return self._line.fileno()

    def publish(self, order: Publish) -> Published:
        """Carry out an order."""
        cpu_ns = time.process_time_ns()
        self._waited_ns = 0
        start_ns = time.monotonic_ns()
        if order.start_ns > start_ns:
            time.sleep((order.start_ns - start_ns) / 1e9)
        self._board.first_ns[self._number] = time.monotonic_ns()
        latest_ns = joined = 0
        if order.rate:
            latest_ns, joined = self._at_rate(order)
        else:
            self._at_full_speed(order)
        return Published(latest_ns, joined, self._waited_ns, time.process_time_ns() - cpu_ns)

    def _at_full_speed(self, order: Publish) -> None:
        send = self._line.socket.sendall
        block = self._template.block
        most = self._template.block_frames
        if order.window:
            most = max(1, min(most, order.window // self._layout.batch))
        end = self._frame + order.frames
        while self._frame < end:
            piece = block(self._frame, min(most, end - self._frame))
            self._wait_window(order, len(piece) // self._layout.frame_bytes)
            send(piece)
            self._advance(len(piece) // self._layout.frame_bytes)

    def _at_rate(self, order: Publish) -> tuple[int, int]:
        """Return the worst lateness in ns, and how many bursts were joined to the one before."""
        begin = self._frame
        end = begin + order.frames
        frames_per_s = order.rate / self._layout.batch
        latest_ns = joined = 0
        while self._frame < end:
            due_ns = order.start_ns + int((self._frame - begin) / frames_per_s * 1e9)
            now_ns = time.monotonic_ns()
            if now_ns < due_ns:
                time.sleep((due_ns - now_ns) / 1e9)
                now_ns = time.monotonic_ns()
            late_ns = now_ns - due_ns
            latest_ns = max(latest_ns, late_ns)
            bursts = 1
            if late_ns > _JOIN_NS:
                overdue = int(late_ns / 1e9 * frames_per_s) // order.burst_frames
                bursts = max(1, min(overdue, self._template.block_frames // order.burst_frames))
                joined += bursts - 1
            frames = min(bursts * order.burst_frames, end - self._frame)
            data = b"".join(self._timed(begin, frames, order, frames_per_s))
            self._wait_window(order, frames)
            self._line.socket.sendall(data)
            self._advance(frames)
        return latest_ns, joined

    def _timed(self, begin: int, frames: int, order: Publish, frames_per_s: float) -> list[bytes]:
        """The next frames, each burst with the time at which it was due."""
        pieces = []
        frame = self._frame
        end = frame + frames
        while frame < end:
            burst_start = frame - (frame - begin) % order.burst_frames
            due_ns = order.start_ns + int((burst_start - begin) / frames_per_s * 1e9)
            piece = bytes(self._template.block(frame, min(end, burst_start + order.burst_frames) - frame, due_ns))
            pieces.append(piece)
            frame += len(piece) // self._layout.frame_bytes
        return pieces

    def _advance(self, frames: int) -> None:
        self._frame += frames
        self._board.sent[self._number] = self._frame * self._layout.batch
        now_ns = time.monotonic_ns()
        if now_ns - self._listened_ns > _LISTEN_NS:
            self._listened_ns = now_ns
            self.listen()

    def _wait_window(self, order: Publish, frames: int) -> None:
        if not order.window or not self._row:
            return
        floor = (self._frame + frames) * self._layout.batch - max(order.window, self._layout.batch)
        if min(self._row) >= floor:
            return
        began_ns = time.monotonic_ns()
        while min(self._row) < floor:
            time.sleep(_WINDOW_POLL_S)
            if time.monotonic_ns() - self._listened_ns > _LISTEN_NS:
                self._listened_ns = time.monotonic_ns()
                self.listen()
                if select.select([0], [], [], 0)[0]:
                    raise EOFError  # an order in the midst of one: the command is gone
        self._waited_ns += time.monotonic_ns() - began_ns

    def listen(self) -> None:
        """Take what the hub has to say, without waiting.

        Raises:
            BenchError: It refuses messages, or has closed.
        """
        try:
            data = self._line.socket.recv(65536, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        if not data:
            raise BenchError("the hub closed the connection")
        self._inbox += data
        frame = self._line.framing.at(self._inbox, 0, len(self._inbox))
        while frame is not None:
            del self._inbox[: frame.size]
            if isinstance(frame, Control):
                if frame.word in {"error", "close"}:
                    raise BenchError(f"the hub says: {frame.text} ({frame.code})")
                self._line.socket.sendall(frame.answer)
            frame = self._line.framing.at(self._inbox, 0, len(self._inbox))


def _run(station: Station, setup: PublisherSetup, board: Board) -> None:
    # A sleeping publisher is woken up to 50 µs late by default, which would be measured as latency.
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)
    publisher = _Publisher(setup, board)
    station.answer(Ready())
    while True:
        readable, _, _ = select.select([station.fileno(), publisher.fileno()], [], [])
        if publisher.fileno() in readable:
            publisher.listen()
        if station.fileno() in readable:
            for order in station.take():
                if isinstance(order, Publish):
                    station.answer(publisher.publish(order))


if __name__ == "__main__":
    serve(PublisherSetup, _run)
