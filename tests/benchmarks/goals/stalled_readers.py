"""`StalledReaders`: subscribers beside a benchmark's own that do not read until all is over; `Account`: what each got.

They have a small receive buffer in the kernel, so that the hub soon notices that nobody reads. So that it does not take
them for dead (it closes who does not answer its ping), they say something now and then: a pong that nobody asked for.

Owner of the state: the process that measures, which also counts: message by message, as a stalled reader gets no more
than its queue holds. Cost: some µs for each of these messages.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import msgspec

from hub.frame import encode_frame
from peers.bench.framing import Shape
from peers.bench.layout import SEQUENCE_OFFSET
from peers.bench.line import Line, dial
from peers.bench.stage import Stage, Watch
from peers.transport.endpoints import Endpoint
from peers.wire.hello import QueueWish
from peers.wire.kinds import Kind

__all__ = ["Account", "Gap", "StalledReaders", "stalled_readers"]

_SIGN_OF_LIFE_S = 5.0
"""This is well below the 20 s of silence after which a hub pings."""

_STALLED_RECEIVE_BYTES = 4096
"""Linux doubles it and gives at least about this."""

_RECEIVE_BYTES = 256 * 1024
_QUIET_S = 1.0
"""When nothing has come for so long, nothing more will."""


class Gap(msgspec.Struct, frozen=True):
    """Messages that a reader did not get."""

    first: int
    messages: int


class Account(msgspec.Struct):
    """What one reader got."""

    received: int = 0
    lost: int = 0
    told: int = 0
    """How many of them the hub told it of."""
    out_of_order: int = 0
    closed: str = ""
    """Why the hub closed the connection; empty while it is open."""
    gaps: list[Gap] = []


class _Reader:
    """One connection, and its account.

    Args:
        line: Connected.
        first: The sequence number of the first message that it should get.
        step: How far each of its messages is from the next.
    """

    def __init__(self, line: Line, first: int, step: int) -> None:
        self.line = line
        self.account = Account()
        self._next = first
        self._step = step

    def read(self) -> bool:
        """Read once and account for it; return False when the connection is over."""
        line, account = self.line, self.account
        data = b""
        with suppress(ConnectionError):
            data = line.socket.recv(_RECEIVE_BYTES)
        line.held += data
        position = 0
        while (frame := line.cut(line.layout, line.held, position, len(line.held))) is not None:
            if isinstance(frame, Shape):
                place = position + frame.first_value + len(line.layout.value_head) + SEQUENCE_OFFSET
                self._count(int.from_bytes(line.held[place : place + 4], "big"))
            elif frame.word == "dropped":
                account.told += frame.lost
            elif frame.word == "close":
                account.closed = account.closed or f"{frame.text} ({frame.code})"
            elif frame.answer:
                line.socket.sendall(frame.answer)
            position += frame.size
        del line.held[:position]
        if not data:
            account.closed = account.closed or "closed without a word"
        return bool(data)

    def end(self, sent: int) -> Account:
        """Return the account; what has not come by now is lost."""
        if self._next < sent:
            self._lose(-(-(sent - self._next) // self._step))
        return self.account

    def _count(self, sequence: int) -> None:
        self.account.received += 1
        if sequence < self._next:
            self.account.out_of_order += 1
            return
        if sequence > self._next:
            self._lose((sequence - self._next) // self._step)
        self._next += self._step

    def _lose(self, messages: int) -> None:
        self.account.lost += messages
        self.account.gaps.append(Gap(self._next, messages))
        self._next += messages * self._step


class StalledReaders:
    """All of them; see `stalled_readers`."""

    def __init__(self, stage: Stage, readers: list[_Reader]) -> None:
        self._stage = stage
        self._readers = readers
        self._said_s = time.monotonic()

    def watched(self, watch: Watch) -> Watch:
        """Return what gives signs of life whenever it is called as `watch`."""

        def call(done: int, total: int) -> None:
            watch(done, total)
            if time.monotonic() - self._said_s > _SIGN_OF_LIFE_S:
                self._said_s = time.monotonic()
                for reader in self._readers:
                    with suppress(OSError):  # the hub has closed; why is read when the reader reads on
                        reader.line.socket.sendall(encode_frame(Kind.PONG, b""))

        return call

    def accounts(self) -> list[Account]:
        """Read on until nothing more comes; return what each got since it was connected."""
        (sent,) = self._stage.sent
        poll = select.epoll()
        by_descriptor = {reader.line.fileno(): reader for reader in self._readers}
        for descriptor, reader in by_descriptor.items():
            reader.line.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BYTES)
            poll.register(descriptor, select.EPOLLIN)
        while ready := poll.poll(_QUIET_S):
            for descriptor, _ in ready:
                if not by_descriptor[descriptor].read():
                    poll.unregister(descriptor)
        return [reader.end(sent) for reader in self._readers]


@contextmanager
def stalled_readers(stage: Stage, count: int, wish: QueueWish, *, apart: bool = False) -> Iterator[StalledReaders]:
    """Have so many readers, for a `with` statement.

    Args:
        stage: A benchmark with one publisher, over TCP.
        count: How many readers there are.
        wish: The queue that they ask for.
        apart: Whether each of them gets the one topic of its number instead of all.
    """
    (sent,) = stage.sent
    step = stage.layout.topics if apart else 1
    readers: list[_Reader] = []
    url = stage.hub.url("tcp")
    try:
        for number in range(count):
            through = _connected(url)
            line = dial(url, stage.layout, f"bench stalled {number}", wish=wish, through=through)
            line.subscribe([stage.layout.topic(number) if apart else stage.layout.prefix])
            readers.append(_Reader(line, sent + (number - sent) % step, step))
        yield StalledReaders(stage, readers)
    finally:
        for reader in readers:
            reader.line.close()


def _connected(url: str) -> socket.socket:
    """Connect with a small receive buffer. One that is made small later would make the kernel drop what it let in."""
    endpoint = Endpoint.parse(url)
    made = socket.socket(socket.AF_INET)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _STALLED_RECEIVE_BYTES)
    made.connect((endpoint.host, endpoint.port))
    return made
