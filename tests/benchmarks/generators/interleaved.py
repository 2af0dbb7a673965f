"""`InterleavedReceiver`: the messages of many publishers, in one connection, each publisher's in its order.

Which publisher comes next is the broker's choice, so the whole read cannot be compared to one stream. Brokers that
forward what a read brought make long stretches of one publisher: the length of each is found by comparing, doubling
and halving. Brokers that take turns make stretches of one message: then every message is looked at by itself, its
head, its number, its publisher and its tail. The receiver does whichever suited the last read.

Cost: some 3 µs a stretch, or 0.2 µs a message.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from struct import Struct

from generators.dialect import Dialect
from generators.receiver import WrongBytesError
from generators.stream import READ_BYTES, Stream

__all__ = ["InterleavedReceiver"]

_NUMBER = 8
_PUBLISHER = 4
_SHORT_STRETCH_MESSAGES = 8
"""Below this, looking at each message costs less than finding stretches."""

_LOOK_AGAIN_READS = 16
"""So often stretches are tried all the same, as a broker may behave differently once it is busy."""


class InterleavedReceiver:
    """One connection that gets every publisher's messages.

    Args:
        connection: Not blocking.
        streams: What comes from each publisher; all units are equally long, and differ in their payloads only.
        dialect: For what is no message.
    """

    __slots__ = ("_dialect", "_held", "_positions", "_publishers", "_reads", "_singly", "_streams", "_unit", "socket")

    def __init__(self, connection: socket.socket, streams: Sequence[Stream], dialect: Dialect) -> None:
        self.socket = connection
        self._streams = streams
        self._dialect = dialect
        self._positions = [0] * len(streams)
        self._publishers = {b"%04x" % number: number for number in range(len(streams))}
        self._held = bytearray()
        self._singly = False
        self._reads = 0
        first = streams[0]
        offset, unit_bytes = first.payload_offset, first.unit_bytes
        self._unit = Struct(f"{offset}s{_NUMBER}s{_PUBLISHER}s{unit_bytes - offset - _NUMBER - _PUBLISHER}s")

    def messages(self, publisher: int) -> int:
        """Return how many of this publisher's have come."""
        return self._streams[publisher].messages(self._positions[publisher])

    def receive(self) -> int:
        """Read once and check whole messages."""
        data = self.socket.recv(READ_BYTES)
        if not data:
            raise ConnectionError("the broker closed a subscriber's connection")
        size = len(data)
        if self._held:
            data = bytes(self._held) + data
        self._reads += 1
        done = self._take_singly(data) if self._singly and self._reads % _LOOK_AGAIN_READS else 0
        done = self._take_stretches(data, done)
        self._held = bytearray(memoryview(data)[done:])
        return size

    def _take_stretches(self, data: bytes, start: int) -> int:
        """Check from `start` on, stretch by stretch; return where the first incomplete message begins."""
        unit_bytes = self._streams[0].unit_bytes
        number_at = self._streams[0].payload_offset + _NUMBER
        view = memoryview(data)
        position, stretches, messages = start, 0, 0
        guess = (len(data) - start) // unit_bytes
        while len(data) - position >= unit_bytes:
            publisher = self._publishers.get(data[position + number_at : position + number_at + _PUBLISHER], -1)
            length = self._stretch(view, position, publisher, guess) if publisher >= 0 else 0
            if not length:
                size = self._control_bytes(data[position:])
                if not size:
                    break
                position += size
                continue
            self._positions[publisher] += length * unit_bytes
            position += length * unit_bytes
            guess = length
            stretches += 1
            messages += length
        if stretches:
            self._singly = messages < _SHORT_STRETCH_MESSAGES * stretches
        return position

    def _stretch(self, view: memoryview, position: int, publisher: int, guess: int) -> int:
        """Return how many of the messages from `position` on are the next ones of `publisher`."""
        stream = self._streams[publisher]
        unit_bytes = stream.unit_bytes
        most = min(len(view) - position, READ_BYTES) // unit_bytes
        at = self._positions[publisher]
        right, wrong = 0, most + 1
        step = min(guess, most)
        while wrong - right > 1:
            tried = min(right + step, wrong - 1)
            start = right * unit_bytes
            if stream.matches(view[position + start : position + tried * unit_bytes], at + start):
                right = tried
                # A stretch is mostly as long as the one before: look one message further, then ever further.
                step = (1 if step == guess else step * 2) if wrong > most else max((wrong - right) // 2, 1)
            else:
                wrong = tried
                step = max((wrong - right) // 2, 1)
        return right

    def _take_singly(self, data: bytes) -> int:
        """Check message by message; return where one begins that is incomplete, or not the next of its publisher."""
        stream = self._streams[0]
        unit_bytes = stream.unit_bytes
        head, _, _, tail = self._unit.unpack(stream.cut_out(0, unit_bytes))
        period = stream.period_bytes // unit_bytes
        publishers = self._publishers
        numbers = [position // unit_bytes for position in self._positions]
        whole = len(data) // unit_bytes
        taken = 0
        for got_head, number, name, got_tail in self._unit.iter_unpack(memoryview(data)[: whole * unit_bytes]):
            publisher = publishers.get(name, -1)
            if (
                publisher < 0
                or got_head != head
                or got_tail != tail
                or number != b"%08x" % (numbers[publisher] % period)
            ):
                break  # stretches tell what it is
            numbers[publisher] += 1
            taken += 1
        self._positions = [number * unit_bytes for number in numbers]
        return taken * unit_bytes

    def _control_bytes(self, data: bytes) -> int:
        """Return the size of what may stand between messages; 0 if it is not complete yet."""
        size = self._dialect.control_bytes(data)
        if size < 0:
            counts = sum(self.messages(publisher) for publisher in range(len(self._streams)))
            raise WrongBytesError(f"behind {counts:,} messages: {data[:80]!r} is not the next of any publisher")
        return size if size <= len(data) else 0
