"""The load generator's process: it reads a job from standard input, and writes figures to standard output, both JSON.

```
< {"workload": "fan-out", "dialect": "nats", "ports": [4222, 0], "pid": 71, "duration_s": 1.5, "cpu": 1}
> {"figures": {"cpu_us": 0.07, ...}}          or  {"wrong": "..."}  or  {"failed": "..."}

unit      the bytes of one message (for batches: of one frame), all of a stream equally long
payload   sequence number, 8 hexadecimal digits │ publisher, 4 │ filler ...
stream    unit 0, unit 1 ... unit P-1, and from the start again
```

At full speed (`flood`) one process publishes and receives, so that the lag is bounded exactly; paced, each message is
due at a time of its own and latency counts from when it was *due*. What is read is compared, with `memcmp`, to what
must come. Numbers repeat after P messages; the window of a run is smaller than P, so no loss, repetition or exchange
within it can pass for the right thing.
"""

from __future__ import annotations

import gc
import json
import os
import select
import socket
import sys
import time
from array import array
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peers.bench.processes import BenchError, forget_peak, raise_descriptor_limit, read_usage
from tests.benchmarks.brokers import WRITE_BYTES, Dialect, Interest, Topic, WrongBytesError, dialect_of
from tests.benchmarks.workloads import WORKLOADS, Workload

READ_BYTES = 256 * 1024
"""The most that is read at once, bytes."""

_NUMBER_DIGITS, _PUBLISHER_DIGITS = 8, 4
_CONTROL_LIMIT_BYTES = 64 * 1024
"""What may come at any time (pings, notices) is smaller than this."""


def payload(number: int, publisher: int, size_bytes: int) -> bytes:
    """Return a payload; ASCII, so that it is also a text for protocols that want one."""
    return (b"%08x%04x" % (number, publisher)).ljust(size_bytes, b".")


class Stream:
    """What a connection sends, or must receive of one publisher, written out beforehand."""

    def __init__(self, units: Sequence[bytes], unit_messages: int = 1) -> None:
        self.unit_bytes = len(units[0])
        if any(len(unit) != self.unit_bytes for unit in units):
            raise ValueError("the units of a stream must be equally long")
        self.unit_messages = unit_messages
        period = b"".join(units)
        self.period_bytes = len(period)
        behind_bytes = 2 * READ_BYTES  # a read, and what was kept of the one before
        self._repeated = (period * (1 - -behind_bytes // self.period_bytes))[: self.period_bytes + behind_bytes]

    def chunks(self, most_bytes: int = WRITE_BYTES) -> list[memoryview]:
        """Cut the period into what is written at once: whole units, up to `most_bytes`."""
        step = max(most_bytes // self.unit_bytes, 1) * self.unit_bytes
        whole = memoryview(self._repeated)[: self.period_bytes]
        return [whole[start : start + step] for start in range(0, self.period_bytes, step)]

    def matches(self, data: memoryview | bytes, position: int) -> bool:
        """Return whether `data`, up to `READ_BYTES` of it, is what stands at `position`."""
        return self._repeated.startswith(data, position % self.period_bytes)

    def before(self, position: int) -> bytes:
        """Return what stands between `position` and the beginning of its unit."""
        at = position % self.period_bytes
        return self._repeated[at - position % self.unit_bytes : at]

    def messages(self, position: int) -> int:
        return position // self.unit_bytes * self.unit_messages


class Receiver:
    """One connection that receives the streams of one or more publishers, and compares every byte."""

    def __init__(self, connection: socket.socket, streams: Sequence[Stream], dialect: Dialect, place: int) -> None:
        self.socket = connection
        self._streams = streams
        self._dialect = dialect
        self._publisher_at = place + _NUMBER_DIGITS
        """Where a unit names its publisher."""
        self._publishers = {b"%04x" % number: number for number in range(len(streams))}
        self._positions = [0] * len(streams)
        self._buffer = memoryview(bytearray(READ_BYTES))
        self._held = b""  # what is not the beginning of the next unit, or of which publisher's next is not known yet

    def messages(self, publisher: int) -> int:
        return self._streams[publisher].messages(self._positions[publisher])

    def receive(self) -> None:
        """Read once, without waiting."""
        size = self.socket.recv_into(self._buffer)
        if not size:
            raise ConnectionError("the broker closed a subscriber's connection")
        self.feed(self._buffer[:size])

    def feed(self, data: memoryview | bytes) -> None:
        only = self._streams[0]
        if not self._held and len(self._streams) == 1 and only.matches(data, self._positions[0]):
            self._positions[0] += len(data)
            return
        if len(self._streams) == 1 and not self._held:
            self._held = only.before(self._positions[0])
            self._positions[0] -= len(self._held)
        data = self._held + bytes(data)
        self._held = data[self._take_units(data) :]
        if len(self._streams) == 1 and only.matches(self._held, self._positions[0]):
            self._positions[0] += len(self._held)
            self._held = b""

    def _take_units(self, data: bytes) -> int:
        """Compare unit by unit, whose ever it is; return where an incomplete one begins."""
        view = memoryview(data)
        size, at, name_at = self._streams[0].unit_bytes, 0, self._publisher_at
        publishers, streams, positions = self._publishers, self._streams, self._positions
        while len(data) - at >= size:
            name = data[at + name_at : at + name_at + _PUBLISHER_DIGITS]
            publisher = publishers.get(name, 0)
            if streams[publisher].matches(view[at : at + size], positions[publisher]):
                positions[publisher] += size
                at += size
            elif (control := self._control_bytes(data[at:])) and at + control <= len(data):
                at += control
            else:
                return at
        # A fault must not wait for more bytes, and what stands between messages may be shorter than one.
        while (rest := data[at:]) and not any(
            stream.matches(rest, position) for stream, position in zip(streams, positions, strict=True)
        ):
            control = self._control_bytes(rest)
            if not control or control > len(rest):
                break
            at += control
        return at

    def _control_bytes(self, data: bytes) -> int:
        """Return the size of what may stand between messages; 0 if it is not complete yet."""
        control = self._dialect.control_bytes(data)
        if control < 0 or (control == 0 and len(data) > _CONTROL_LIMIT_BYTES):
            counts = sum(self.messages(publisher) for publisher in range(len(self._streams)))
            raise WrongBytesError(f"behind {counts:,} messages: {data[:80]!r} is not the next of any publisher")
        return control


_WINDOW_BYTES = 512 * 1024
_PERIOD_LEAST_UNITS = 32


class Traffic:
    """What is published and delivered in a workload, and connections for it."""

    def __init__(self, workload: Workload, dialect: Dialect) -> None:
        self.workload, self.dialect = workload, dialect
        windows = workload.window_messages // dialect.unit_messages
        windows = max(windows, _WINDOW_BYTES // len(dialect.publication(self._topic(0), self._payloads(0, 0))))
        # A period is two windows, or more: a whole number of rounds through topics.
        self._period_units = -(-max(2 * windows, _PERIOD_LEAST_UNITS) // workload.topics) * workload.topics

    def receiver(self) -> Receiver:
        """Connect and subscribe one subscriber."""
        dialect, workload = self.dialect, self.workload
        prefixes = [Interest(self._topic(number)[:2], below=True) for number in range(workload.prefixes)]
        channel = dialect.connect("subscriber")
        dialect.subscribe(channel, prefixes or [Interest(self._topic(0))])

        def delivered(publisher: int, unit: int) -> bytes:
            place = unit % workload.prefixes if workload.prefixes else 0
            return dialect.delivery(self._topic(unit), self._payloads(publisher, unit), place)

        streams = [self._stream(delivered, publisher) for publisher in range(workload.publishers)]
        return Receiver(channel.release(), streams, dialect, delivered(0, 0).index(self._payloads(0, 0)[0]))

    def publisher(self, number: int) -> Publisher:
        def published(publisher: int, unit: int) -> bytes:
            return self.dialect.publication(self._topic(unit), self._payloads(publisher, unit))

        stream = self._stream(published, number)
        chunks = stream.chunks(stream.unit_bytes if self.workload.rate else WRITE_BYTES)
        window = max(self.workload.window_messages or stream.messages(_WINDOW_BYTES), stream.messages(len(chunks[0])))
        return Publisher(self.dialect.connect("publisher").release(), stream, chunks, window)

    def _stream(self, unit_of: Callable[[int, int], bytes], publisher: int) -> Stream:
        return Stream([unit_of(publisher, unit) for unit in range(self._period_units)], self.dialect.unit_messages)

    def _topic(self, number: int) -> Topic:
        if not (prefixes := self.workload.prefixes):
            return ("bench", "stream")
        return ("bench", f"{number % prefixes:04}", f"{number % self.workload.topics // prefixes:04}")

    def _payloads(self, publisher: int, unit: int) -> list[bytes]:
        count = self.dialect.unit_messages
        return [payload(unit * count + each, publisher, self.workload.size_bytes) for each in range(count)]


@dataclass(slots=True)
class Publisher:
    connection: socket.socket
    """It does not block."""
    stream: Stream
    chunks: list[memoryview]
    window: int
    """How many messages it may be ahead of the slowest of those that get its messages; at least one chunk."""
    begun_messages: int = 0
    left: memoryview | bytes = b""
    """What is left of the chunk that is being written."""
    writable: bool = True
    _chunk: int = 0

    def begin(self, received_messages: int) -> bool:
        """Begin the next chunk if the window allows it."""
        chunk = self.chunks[self._chunk]
        begun = self.begun_messages + self.stream.messages(len(chunk))
        if begun - received_messages > self.window:
            return False
        self.left, self.begun_messages = chunk, begun
        self._chunk = (self._chunk + 1) % len(self.chunks)
        return True

    def send(self) -> None:
        self.writable = False
        with suppress(BlockingIOError):
            self.left = self.left[self.connection.send(self.left) :]
            self.writable = not self.left


def _discard(connection: socket.socket) -> None:
    with suppress(BlockingIOError):
        if not connection.recv(WRITE_BYTES):
            raise ConnectionError("the broker closed a connection")


SILENCE_LIMIT_S = 10.0
"""When nothing has come for so long, what is missing is lost."""

_STRAY_S = 0.02
"""For so long after the last message, more than was published may come, which is an error."""


class Flood:
    """Publishers and receivers at full speed; each receiver gets the messages of all publishers."""

    def __init__(self, publishers: Sequence[Publisher], receivers: Sequence[Receiver]) -> None:
        self._publishers = publishers
        self._receivers = {receiver.socket.fileno(): receiver for receiver in receivers}
        self._by_descriptor = {publisher.connection.fileno(): publisher for publisher in publishers}
        self._poll = select.epoll()
        for descriptor in (*self._receivers, *self._by_descriptor):
            self._poll.register(descriptor, select.EPOLLIN)

    def run(self, duration_s: float) -> tuple[int, float]:
        """Publish for this long, and wait for all of it; return how many messages came, in how many seconds."""
        begun = sum(publisher.begun_messages for publisher in self._publishers)
        start_s = now_s = heard_s = time.perf_counter()
        while True:
            publishing = now_s - start_s < duration_s
            busy = self._publish(publishing=publishing)
            if not publishing and self._complete():
                break
            events = self._poll.poll(0 if busy else 1.0)
            self._take(events)
            now_s = time.perf_counter()
            if events or busy:
                heard_s = now_s
            elif now_s - heard_s > SILENCE_LIMIT_S:
                raise WrongBytesError(f"silence for {SILENCE_LIMIT_S:.0f} s: not all messages have come")
        wall_s = time.perf_counter() - start_s
        received = self._totals()
        self._take(self._poll.poll(_STRAY_S))
        if self._totals() != received:
            raise WrongBytesError("more messages came than were published")
        published = sum(publisher.begun_messages for publisher in self._publishers) - begun
        return published * len(self._receivers), wall_s

    def _publish(self, *, publishing: bool) -> bool:
        """Let every publisher write once, if it may; return whether one could write on at once."""
        busy = False
        for number, publisher in enumerate(self._publishers):
            if publisher.left:
                if not publisher.writable:
                    continue
            elif not publishing or not publisher.begin(self._received(number)):
                continue
            publisher.send()
            if publisher.writable:
                busy = True
            else:
                self._poll.modify(publisher.connection, select.EPOLLIN | select.EPOLLOUT)
        return busy

    def _take(self, events: list[tuple[int, int]]) -> None:
        for descriptor, event in events:
            if (receiver := self._receivers.get(descriptor)) is not None:
                receiver.receive()
                continue
            publisher = self._by_descriptor[descriptor]
            if event & select.EPOLLOUT:
                publisher.writable = True
                self._poll.modify(descriptor, select.EPOLLIN)
            if event & ~select.EPOLLOUT:
                _discard(publisher.connection)

    def _received(self, publisher: int) -> int:
        return min(receiver.messages(publisher) for receiver in self._receivers.values())

    def _complete(self) -> bool:
        return all(
            not publisher.left and self._received(number) >= publisher.begun_messages
            for number, publisher in enumerate(self._publishers)
        )

    def _totals(self) -> list[int]:
        publishers = range(len(self._publishers))
        return [receiver.messages(number) for receiver in self._receivers.values() for number in publishers]


def pace(
    publisher: Publisher, receiver: Receiver, messages: int, interval_ns: int, bystanders: Mapping[int, socket.socket]
) -> tuple[float, list[int], list[int]]:
    """Send each message when it is due.

    Returns:
        How many seconds it took; each message's time from when it was due until it was read, and until it was about to
        be sent (the generator's own part), both sorted, in nanoseconds.
    """
    poll = select.epoll()
    awaited = receiver.socket.fileno()
    others = {publisher.connection.fileno(): publisher.connection, **bystanders}
    for descriptor in (awaited, *others):
        poll.register(descriptor, select.EPOLLIN)
    clock, wait, send, receive = time.perf_counter_ns, poll.poll, publisher.connection.send, receiver.receive
    chunks, period, first = publisher.chunks, len(publisher.chunks), receiver.messages(0)
    due_ns, late_ns, latencies_ns = (array("q", bytes(8 * messages)) for _ in range(3))
    sent = got = 0
    start_ns = heard_ns = clock()
    next_ns = start_ns + interval_ns
    while got < messages:
        now_ns = clock()
        if sent < messages and now_ns >= next_ns:
            chunk = chunks[(first + sent) % period]
            due_ns[sent] = next_ns
            late_ns[sent] = now_ns - next_ns
            if send(chunk) != len(chunk):
                raise ConnectionError("the broker does not read: a single message could not be written")
            sent += 1
            next_ns += interval_ns
        for descriptor, _ in wait(0):
            if descriptor != awaited:
                _discard(others[descriptor])
                continue
            receive()
            now_ns = heard_ns = clock()
            come = receiver.messages(0) - first
            if come > sent:
                raise WrongBytesError("more messages came than were published")
            while got < come:
                latencies_ns[got] = now_ns - due_ns[got]
                got += 1
        if now_ns - heard_ns > SILENCE_LIMIT_S * 1e9:
            raise WrongBytesError(f"silence: {sent - got:,} of {sent:,} messages have not come")
    poll.close()
    return (clock() - start_ns) / 1e9, sorted(latencies_ns), sorted(late_ns)


Figures = dict[str, float]
"""Figures by name, unit included: `cpu_us` is server CPU a delivered message; loads are in CPUs, `others_load` that of
all other processes of the machine: a run beside others is no good measurement."""

_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_WARM_UP_S = 0.3


def _accounted(pid: int, run: Callable[[], tuple[int, float]]) -> Figures:
    """Run; return what CPU that took, for each of the messages that it delivers."""
    before = read_usage(pid)
    forget_peak(pid)
    own_ns, machine_ns = time.process_time_ns(), _machine_ns()
    delivered, wall_s = run()
    after = read_usage(pid)
    cpu_ns, own_ns = after.cpu_ns - before.cpu_ns, time.process_time_ns() - own_ns
    return {
        "cpu_us": cpu_ns / delivered / 1e3,
        "messages_per_s": delivered / wall_s,
        "delivered": delivered,
        "server_load": cpu_ns / wall_s / 1e9,
        "generator_load": own_ns / wall_s / 1e9,
        "others_load": max(_machine_ns() - machine_ns - cpu_ns - own_ns, 0) / wall_s / 1e9,
        "peak_bytes": after.peak_bytes,
        "wall_s": wall_s,
    }


def _machine_ns() -> int:
    """Return how long the machine's CPUs were not idle (user, nice, system, interrupts, stolen), in steps of a tick."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    return (sum(fields[:3]) + sum(fields[5:8])) * _TICK_NS


def _flood(traffic: Traffic, pid: int, duration_s: float) -> Figures:
    receivers = [traffic.receiver() for _ in range(traffic.workload.subscribers)]
    flood = Flood([traffic.publisher(number) for number in range(traffic.workload.publishers)], receivers)
    flood.run(_WARM_UP_S)
    return _accounted(pid, lambda: flood.run(duration_s))


def _pace(traffic: Traffic, pid: int, duration_s: float) -> Figures:
    workload, dialect = traffic.workload, traffic.dialect
    receiver = traffic.receiver()
    bystanders: dict[int, socket.socket] = {}
    for number in range(workload.bystanders):
        channel = dialect.connect("subscriber")
        dialect.subscribe(channel, [Interest(("idle", f"{number:05}"))])
        bystanders[channel.socket.fileno()] = channel.release()
    publisher = traffic.publisher(0)
    times: list[list[int]] = []

    def run(duration_s: float) -> tuple[int, float]:
        messages = int(workload.rate * duration_s)
        wall_s, *times[:] = pace(publisher, receiver, messages, 1_000_000_000 // workload.rate, bystanders)
        return messages, wall_s

    run(_WARM_UP_S)
    figures = _accounted(pid, lambda: run(duration_s))
    latencies_ns, late_ns = times
    middle, late = len(latencies_ns) // 2, len(latencies_ns) * 99 // 100
    return figures | {
        "p50_us": latencies_ns[middle] / 1e3,
        "p99_us": latencies_ns[late] / 1e3,
        "late_p99_us": late_ns[late] / 1e3,
    }


def main() -> None:
    order: dict[str, Any] = json.load(sys.stdin)
    if order["cpu"] is not None:
        os.sched_setaffinity(0, {order["cpu"]})
    raise_descriptor_limit()
    workload = next(one for one in WORKLOADS if one.name == order["workload"])
    gc.disable()  # nothing here makes cycles; a collection would be in the latencies
    result: dict[str, Any]
    try:
        spoken = dialect_of(order["dialect"], order["ports"], workload.size_bytes)
        measure = _pace if workload.rate else _flood
        result = {"figures": measure(Traffic(workload, spoken), order["pid"], order["duration_s"])}
    except WrongBytesError as error:
        result = {"wrong": str(error)}
    except (BenchError, OSError) as error:
        result = {"failed": f"{type(error).__name__}: {error}"}
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main()
