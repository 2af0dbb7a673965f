"""`Stream`: what a connection sends or must receive, written out beforehand; receivers that compare it, every byte.

```
unit      the bytes of one message (for batches: of one frame), all of a stream equally long
payload   sequence number, 8 hexadecimal digits │ publisher, 4 │ filler ...
stream    unit 0, unit 1 ... unit P-1, and from the start again
```

Numbers repeat after P messages; the window of a run is smaller than P, so no loss, repetition or exchange within it can
pass for the right thing. What is read is compared, as a whole, to what must come (`memcmp`, about 10 GB/s).
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Protocol

from tests.benchmarks.channels import CLOSE, DATA, Dialect, Interest, Topic, frame_head
from tests.benchmarks.workloads import Workload

WRITE_BYTES = 64 * 1024
"""What a publisher writes at once at full speed, bytes, which is the write buffer of a client library."""

READ_BYTES = 256 * 1024
"""The most that is read at once, bytes."""

_NUMBER_DIGITS = 8
_PUBLISHER_DIGITS = 4


def payload(number: int, publisher: int, size_bytes: int) -> bytes:
    """Return a payload; ASCII, so that it is also a text for protocols that want one."""
    return (b"%08x%04x" % (number, publisher)).ljust(size_bytes, b".")


def payload_number(data: bytes, offset: int) -> int | None:
    """Return the sequence number of a payload that begins at `offset`, None if there is none."""
    digits = data[offset : offset + _NUMBER_DIGITS]
    try:
        return int(digits, 16) if len(digits) == _NUMBER_DIGITS else None
    except ValueError:
        return None


class Stream:
    __slots__ = ("_repeated", "chunks", "payload_offset", "period_bytes", "unit_bytes", "unit_messages")

    def __init__(self, units: Sequence[bytes], unit_messages: int, payload_offset: int) -> None:
        self.unit_bytes = len(units[0])
        if any(len(unit) != self.unit_bytes for unit in units):
            raise ValueError("the units of a stream must be equally long")
        self.unit_messages = unit_messages
        self.payload_offset = payload_offset
        period = b"".join(units)
        self.period_bytes = len(period)
        behind_bytes = 2 * READ_BYTES  # a read, and what was kept of the one before
        repeats = 1 + -(-behind_bytes // self.period_bytes)
        self._repeated = (period * repeats)[: self.period_bytes + behind_bytes]
        self.chunks: tuple[memoryview, ...] = ()

    def cut(self, multiple_units: int, most_bytes: int = WRITE_BYTES) -> None:
        """Cut the period into what is written at once: whole units, up to `most_bytes`."""
        multiple_bytes = multiple_units * self.unit_bytes
        if self.period_bytes % multiple_bytes:
            raise ValueError("a period must be a whole number of multiples")
        step = max(most_bytes // multiple_bytes, 1) * multiple_bytes
        whole = memoryview(self._repeated)[: self.period_bytes]
        self.chunks = tuple(whole[start : start + step] for start in range(0, self.period_bytes, step))

    def matches(self, data: memoryview | bytes, position: int) -> bool:
        """Return whether `data`, up to `READ_BYTES` of it, is what stands at `position`."""
        return self._repeated.startswith(data, position % self.period_bytes)

    def common_bytes(self, data: bytes, position: int) -> int:
        start = position % self.period_bytes
        right, wrong = 0, len(data) + 1
        while wrong - right > 1:
            middle = (right + wrong) // 2
            if self._repeated.startswith(data[right:middle], start + right):
                right = middle
            else:
                wrong = middle
        return right

    def cut_out(self, position: int, size_bytes: int) -> bytes:
        start = position % self.period_bytes
        return self._repeated[start : start + size_bytes]

    def messages(self, position: int) -> int:
        return position // self.unit_bytes * self.unit_messages


_WINDOW_BYTES = 512 * 1024
_PERIOD_LEAST_UNITS = 32


@dataclass(frozen=True, slots=True)
class Traffic:
    workload: Workload
    dialect: Dialect

    def published(self, publisher: int) -> Stream:
        units = [self._publication(publisher, number) for number in range(self._period_units())]
        stream = Stream(units, self.dialect.unit_messages, units[0].index(self._payloads(publisher, 0)[0]))
        most = 1 if self.workload.rate else self.workload.chunk_messages
        stream.cut(self.workload.shares, len(units[0]) * most if most else WRITE_BYTES)
        return stream

    def delivered(self, publisher: int, share: int) -> Stream:
        workload = self.workload
        units = []
        for number in range(share, self._period_units(), workload.shares):
            topic = self._topic(number)
            place = number % workload.prefixes // workload.shares if workload.prefixes else 0
            interest = Interest(topic[:2], below=bool(workload.prefixes))
            units.append(self.dialect.delivery(topic, self._payloads(publisher, number), interest, place))
        offset = units[0].index(self._payloads(publisher, share)[0])
        return Stream(units, self.dialect.unit_messages, offset)

    def interests(self, share: int) -> list[Interest]:
        workload = self.workload
        if not workload.prefixes:
            return [Interest(self._topic(0))]
        numbers = range(share, workload.prefixes, workload.shares)
        return [Interest(self._topic(number)[:2], below=True) for number in numbers]

    def window_messages(self, stream: Stream) -> int:
        return self.workload.window_messages or stream.messages(_WINDOW_BYTES)

    def _topic(self, number: int) -> Topic:
        prefixes = self.workload.prefixes
        if not prefixes:
            return ("bench", "stream")
        return ("bench", f"{number % prefixes:04}", f"{number % self.workload.topics // prefixes:04}")

    def _payloads(self, publisher: int, unit: int) -> list[bytes]:
        count = self.dialect.unit_messages
        return [
            payload(number, publisher, self.workload.size_bytes) for number in range(unit * count, (unit + 1) * count)
        ]

    def _publication(self, publisher: int, unit: int) -> bytes:
        return self.dialect.publication(self._topic(unit), self._payloads(publisher, unit))

    def _period_units(self) -> int:
        """Return two windows, or more: a whole number of rounds through topics and shares."""
        workload = self.workload
        windows = workload.window_messages // self.dialect.unit_messages
        windows = max(windows, _WINDOW_BYTES // len(self._publication(0, 0)))
        multiple = max(workload.topics, workload.shares)
        return -(-max(2 * windows, _PERIOD_LEAST_UNITS) // multiple) * multiple


_CONTROL_LIMIT_BYTES = 64 * 1024
"""What may come at any time (pings, notices) is smaller than this."""

_BUFFER = memoryview(bytearray(READ_BYTES))
"""There is one for all, as what was read is dealt with at once."""


class WrongBytesError(Exception):
    """A message was lost, came twice, in the wrong order, or damaged."""


class Receiver(Protocol):
    socket: socket.socket

    def receive(self) -> int:
        """Read once, without waiting; return how many bytes came."""

    def messages(self, publisher: int) -> int:
        """Return how many messages of a publisher have come, all of them right."""


class Checker:
    __slots__ = ("_dialect", "_held", "_stream", "position")

    def __init__(self, stream: Stream, dialect: Dialect) -> None:
        self._stream = stream
        self._dialect = dialect
        self._held = b""  # beginning of something that is no message
        self.position = 0

    def feed(self, data: memoryview | bytes) -> None:
        if not self._held and self._stream.matches(data, self.position):
            self.position += len(data)
        else:
            self._feed_odd(self._held + bytes(data))

    @property
    def messages(self) -> int:
        return self._stream.messages(self.position)

    def _feed_odd(self, data: bytes) -> None:
        """Look for something between the messages that may be there, and go on behind it."""
        stream = self._stream
        self._held = b""
        while data:
            same = stream.common_bytes(data, self.position)
            self.position += same
            data = data[same:]
            if not data:
                return
            # Its first bytes may have looked like those of the next message.
            back = self.position % stream.unit_bytes
            self.position -= back
            data = stream.cut_out(self.position, back) + data
            size = self._dialect.control_bytes(data)
            if size < 0 or (size == 0 and len(data) > _CONTROL_LIMIT_BYTES):
                raise WrongBytesError(self._difference(data))
            if size == 0 or size > len(data):
                self._held = data
                return
            data = data[size:]

    def _difference(self, data: bytes) -> str:
        stream = self._stream
        expected = stream.cut_out(self.position, stream.unit_bytes)
        wanted = payload_number(expected, stream.payload_offset)
        got = payload_number(data, stream.payload_offset)
        place = f"behind {self.messages:,} messages: "
        if wanted is not None and got is not None and wanted != got:
            return place + f"number {wanted:,} had to come, {got:,} came (numbers repeat)"
        return place + f"{expected[:80]!r} had to come, {data[:80]!r} came"


class PlainReceiver:
    __slots__ = ("_checker", "socket")

    def __init__(self, connection: socket.socket, stream: Stream, dialect: Dialect) -> None:
        self.socket = connection
        self._checker = Checker(stream, dialect)

    def receive(self) -> int:
        size = self.socket.recv_into(_BUFFER)
        if not size:
            raise ConnectionError("the broker closed a subscriber's connection")
        self._checker.feed(_BUFFER[:size])
        return size

    def messages(self, publisher: int) -> int:  # noqa: ARG002 -- there is one
        return self._checker.messages


class WebSocketReceiver:
    __slots__ = ("_checker", "_content", "_held", "socket")

    def __init__(self, connection: socket.socket, stream: Stream, dialect: Dialect) -> None:
        self.socket = connection
        self._checker = Checker(stream, dialect)
        self._content = dialect.content
        self._held = b""  # beginning of a frame

    def receive(self) -> int:
        size = self.socket.recv_into(_BUFFER)
        if not size:
            raise ConnectionError("the broker closed a subscriber's connection")
        data = memoryview(self._held + _BUFFER[:size]) if self._held else _BUFFER[:size]
        position, end = 0, len(data)
        while (head := frame_head(data, position)) is not None:
            start = position + head.head_bytes
            stop = start + head.payload_bytes
            if stop > end:
                break
            if head.opcode in DATA:
                self._checker.feed(self._content(data[start:stop]))
            elif head.opcode == CLOSE:
                raise ConnectionError(f"the broker closed: {bytes(data[start:stop])!r}")
            position = stop
        self._held = bytes(data[position:])
        return size

    def messages(self, publisher: int) -> int:  # noqa: ARG002 -- there is one
        return self._checker.messages


_NUMBER = 8
_PUBLISHER = 4
_SHORT_STRETCH_MESSAGES = 8
"""Below this, looking at each message costs less than finding stretches."""

_LOOK_AGAIN_READS = 16
"""So often stretches are tried all the same, as a broker may behave differently once it is busy."""


class InterleavedReceiver:
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
        return self._streams[publisher].messages(self._positions[publisher])

    def receive(self) -> int:
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
