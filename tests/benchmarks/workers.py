"""Deliveries to WebSocket clients of one process, of workers, and what follows for more of them.

    python tests/benchmarks/workers.py [--seconds 2.5] [--rooms 32] [--few 12] [--many 48] [--repeat 2]

Clients sit in rooms: what one of a room publishes reaches all in it, and the next message of the room is published once
the last of them at each worker has it. So each delivery is a write of its own, to a client that waits for nothing else:
the case in which clients cost the hub its CPU. Publishers and subscribers are WebSockets (msgpack), values have 100
bytes, and each room has as many of its clients at each worker.

The generator is one process. It reads a client that nobody waits for only every 64 messages, and then all of them at
once, as the clients of a hub run elsewhere: what it takes itself is told, and so is what each process of the hub takes.
On a machine with two CPUs, the hub and the generator share them. So there are two ratios: what was measured, and what
the busiest process alone would reach, which is what a machine has that has a CPU for each. From runs with few and with
many clients in a room, and with two and with four workers, follow the shares of each process in a message and in a
delivery, and from these the curve.
"""

from __future__ import annotations

import argparse
import select
import socket
import sys
import time
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import NamedTuple

import msgpack
from generators.channel import WebSocketChannel
from generators.websocket import encode_frame
from rich.console import Console
from rich.table import Table

from peers.bench.running_hub import RunningHub
from peers.bench.usage import read_usage
from peers.bench.worker import raise_descriptor_limit

_VALUE = bytes(range(100, 200))
"""No part of it is like its beginning, so that values can be counted in what was read."""

_READ_BYTES = 1 << 20
_IDLE_READ = 64
"""Clients that nobody waits for are read every so many messages of their room: 10 KiB, which any socket holds."""

_WARM_UP_S = 1.0
_CURVE = (2, 4, 8, 15)
"""Workers of machines with 3, 5, 9 and 16 CPUs: the core has one, too."""


class Client:
    """A subscriber."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.values = 0
        self._begun = b""

    def read(self) -> int:
        """Read all that is there; return how many values that brought."""
        try:
            data = self.sock.recv(_READ_BYTES)
        except BlockingIOError:
            return 0
        if not data:
            raise ConnectionError("the hub has closed a connection")
        data = self._begun + data
        found = data.count(_VALUE)
        self._begun = data[data.rfind(_VALUE) + len(_VALUE) :] if found else data
        self.values += found
        return found


class Room:
    """Clients that hear the same, and one that publishes."""

    def __init__(self, publisher: socket.socket, publication: bytes, clients: list[Client], last: list[Client]) -> None:
        self._publisher = publisher
        self._publication = publication
        self.clients = clients
        self.last = last
        self._idle = [client for client in clients if client not in last]
        self.published = 0

    def publish(self) -> None:
        """Publish the next message."""
        self._publisher.send(self._publication)
        self.published += 1
        if not self.published % _IDLE_READ:
            for client in self._idle:
                client.read()

    @property
    def is_heard(self) -> bool:
        """Whether the last client of each worker has all messages."""
        return all(one.values == self.published for one in self.last)


class Result(NamedTuple):
    """One run."""

    workers: int
    clients: int
    messages: int
    took_s: float
    cpu_s: dict[str, float]
    """Of each process of the hub, by its name, and of the generator."""

    @property
    def deliveries_per_s(self) -> float:
        """As measured."""
        return self.messages * self.clients / self.took_s

    def us_a_message(self, *names: str) -> float:
        """CPU time of some processes together, µs."""
        return sum(self.cpu_s[name] for name in names) / self.messages * 1e6

    @property
    def worker_names(self) -> list[str]:
        """Those that serve clients."""
        return [name for name in self.cpu_s if name not in {"core", "generator"}]

    @property
    def alone_per_s(self) -> float:
        """Deliveries/s at which the busiest process takes a whole CPU."""
        busiest = max(seconds for name, seconds in self.cpu_s.items() if name != "generator")
        return self.messages * self.clients / busiest


def connect(port: int, name: str) -> tuple[str, WebSocketChannel]:
    """Connect a client; return the name of the hub, or worker, that serves it."""
    channel = WebSocketChannel(port, "/v1/hub", "hub.v1.msgpack")
    channel.receive_message()
    channel.send(msgpack.packb({"type": "hello", "name": name}))
    welcome = msgpack.unpackb(channel.receive_message())
    return welcome["name"], channel


def connect_evenly(port: int, count: int, workers: int) -> dict[str, list[WebSocketChannel]]:
    """Connect so many clients at each worker: the kernel chooses, and who is one too many goes again."""
    found: dict[str, list[WebSocketChannel]] = defaultdict(list)
    each = count // workers
    while sum(map(len, found.values())) < each * workers:
        name, channel = connect(port, "bench")
        if len(found[name]) < each:
            found[name].append(channel)
        else:
            channel.socket.close()
    return found


def make_rooms(port: int, rooms: int, clients: int, workers: int) -> list[Room]:
    """Fill rooms, each with as many clients of each worker."""
    subscribers = connect_evenly(port, rooms * clients, workers)
    publishers = [one for some in connect_evenly(port, rooms, workers).values() for one in some]
    found = []
    for number, publisher in enumerate(publishers):
        topic = f"/room/{number:03}/talk"
        own: list[Client] = []
        last: list[Client] = []
        for some in subscribers.values():
            for _ in range(clients // workers):
                channel = some.pop()
                channel.send(msgpack.packb({"type": "subscribe", "prefixes": [topic], "request": 1}))
                channel.receive_message()
                own.append(Client(channel.release(listening=True)))
            last.append(own[-1])
        publication = encode_frame(2, msgpack.packb({"type": "publish", "topic": topic, "values": [_VALUE]}))
        found.append(Room(publisher.release(listening=True), publication, own, last))
    return found


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def cpu_s(hub: RunningHub) -> dict[str, float]:
    """What each process has taken."""
    workers = {f"worker {number}": pid for number, pid in enumerate(children(hub.pid), 1)}
    pids = {"core": hub.pid, **workers} if workers else {"hub": hub.pid}
    return {name: read_usage(pid).cpu_ns / 1e9 for name, pid in pids.items()} | {"generator": time.process_time()}


def talk(rooms: list[Room], seconds: float) -> float:
    """Publish in all rooms for so long, and wait until all is heard; return how long that took."""
    poll = select.epoll()
    by_number = {}
    for room in rooms:
        for one in room.last:
            poll.register(one.sock, select.EPOLLIN)
            by_number[one.sock.fileno()] = room, one
    begun_s = time.monotonic()
    end_s = begun_s + seconds
    for room in rooms:
        room.publish()
    left = len(rooms)
    while left:
        ready = poll.poll(10)
        if not ready:
            raise ConnectionError("nothing has come for 10 s")
        goes_on = time.monotonic() < end_s
        for number, _ in ready:
            room, one = by_number[number]
            if one.read() and room.is_heard:
                if goes_on:
                    room.publish()
                else:
                    left -= 1
    took_s = time.monotonic() - begun_s
    poll.close()
    return took_s


def wait_heard(rooms: list[Room]) -> None:
    """Publish until what is published at one worker reaches the clients of all; then read everything."""
    for room in rooms:
        deadline_s = time.monotonic() + 10
        room.publish()
        while not room.is_heard:
            time.sleep(0.01)
            for one in room.last:
                one.read()
            if time.monotonic() > deadline_s:
                raise ConnectionError("a room does not hear its publisher")


def check(rooms: list[Room]) -> None:
    """See to it that every client has got every message: what is still on its way comes within a moment."""
    deadline_s = time.monotonic() + 10
    for room in rooms:
        for client in room.clients:
            while client.values < room.published and time.monotonic() < deadline_s:
                if not client.read():
                    time.sleep(0.001)
            if client.values != room.published:
                raise ConnectionError(f"{client.values} messages came of {room.published}")
            client.sock.close()


def measure(workers: int, clients: int, rooms: int, seconds: float) -> Result:
    """Start a hub, and let clients talk."""
    flags = ("--workers", str(workers), "--name", "bench")
    hub = RunningHub.start(("ws",), flags)
    try:
        some = make_rooms(int(hub.url("ws").rpartition(":")[2]), rooms, clients, workers)
        time.sleep(2.5)  # until all workers know all subscriptions, and epochs stand still
        wait_heard(some)
        talk(some, _WARM_UP_S)
        published = sum(room.published for room in some)
        before = cpu_s(hub)
        took_s = talk(some, seconds)
        after = cpu_s(hub)
        messages = sum(room.published for room in some) - published
        check(some)
        return Result(workers, clients, messages, took_s, {name: after[name] - before[name] for name in after})
    finally:
        hub.stop()


def show(results: list[Result]) -> None:
    """Print what was measured."""
    table = Table(title="WebSocket deliveries")
    headers = ("workers", "clients a room", "deliveries/s", "busiest process alone/s")
    for header in (*headers, "µs a delivery: hub", "core", "generator", "CPUs used"):
        table.add_column(header, justify="right")
    for one in results:
        of_hub = [name for name in one.cpu_s if name != "generator"]
        core = one.us_a_message("core") / one.clients if "core" in one.cpu_s else 0.0
        table.add_row(
            str(one.workers),
            str(one.clients),
            f"{one.deliveries_per_s:,.0f}",
            f"{one.alone_per_s:,.0f}",
            f"{one.us_a_message(*of_hub) / one.clients:.2f}",
            f"{core:.2f}" if core else "",
            f"{one.us_a_message('generator') / one.clients:.2f}",
            f"{sum(one.cpu_s.values()) / one.took_s:.2f}",
        )
    Console(width=140).print(table)


class Shares(NamedTuple):
    """What each process takes, µs."""

    published: float
    """A worker, of a message that one of its clients publishes."""
    heard: float
    """Each worker, of each message."""
    delivered: float
    """A worker, of each delivery."""
    core: float
    """The core, of each message."""
    passed_on: float
    """The core, of each further worker that hears it."""

    def deliveries_per_s(self, workers: int, clients: int) -> float:
        """What so many workers deliver, each process having a CPU, and every worker clients of each message."""
        worker_us = self.published / workers + self.heard + self.delivered * clients / workers
        core_us = self.core + self.passed_on * (workers - 1)
        return clients * 1e6 / max(worker_us, core_us)


def shares(few: Result, many: Result, more: Result) -> Shares:
    """Work out the shares.

    Args:
        few: Two workers, few clients.
        many: Two workers, many clients.
        more: Four workers, few clients.
    """
    of_few, of_many, of_more = (one.us_a_message(*one.worker_names) for one in (few, many, more))
    delivered = (of_many - of_few) / (many.clients - few.clients)
    heard = max(0.0, (of_more - of_few) / (more.workers - few.workers))
    published = max(0.0, of_few - few.workers * heard - few.clients * delivered)
    of_core = (few.us_a_message("core") + many.us_a_message("core")) / 2
    passed_on = max(0.0, (more.us_a_message("core") - of_core) / (more.workers - few.workers))
    return Shares(published, heard, delivered, of_core - passed_on, passed_on)


def main() -> None:
    """Measure, and print tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2.5, help="how long each run lasts")
    parser.add_argument("--rooms", type=int, default=32, help="rooms, each with one message on its way; 4, 8, 12 ...")
    parser.add_argument("--few", type=int, default=12, help="clients in a room; 4, 8, 12 ...")
    parser.add_argument("--many", type=int, default=48, help="the same, in other runs")
    parser.add_argument("--repeat", type=int, default=2, help="how often; the median counts")
    arguments = parser.parse_args()
    if any(number < 4 or number % 4 for number in (arguments.rooms, arguments.few, arguments.many)):
        parser.error("rooms and clients are shared evenly by up to four workers: 4, 8, 12 ...")
    raise_descriptor_limit()
    plans = [(1, arguments.few), (2, arguments.few), (4, arguments.few), (1, arguments.many), (2, arguments.many)]
    runs: dict[tuple[int, int], list[Result]] = defaultdict(list)
    for _ in range(arguments.repeat):
        for workers, clients in plans:
            runs[workers, clients].append(measure(workers, clients, arguments.rooms, arguments.seconds))
            print(f"{workers} workers, {clients} clients a room: done", file=sys.stderr)  # noqa: T201 -- it takes a while
    results = {plan: _typical(some) for plan, some in runs.items()}
    show(list(results.values()))
    one, two, few, more = (
        results[plan] for plan in ((1, arguments.many), (2, arguments.many), (2, arguments.few), (4, arguments.few))
    )
    console = Console(width=140)
    console.print(
        f"two workers to one process, {arguments.many} clients: {two.deliveries_per_s / one.deliveries_per_s:.2f} as "
        f"measured, {two.alone_per_s / one.alone_per_s:.2f} with a CPU for each process"
    )
    found = shares(few, two, more)
    texts = {name: f"{value:.2f}" for name, value in found._asdict().items()}
    console.print("µs:", ", ".join(f"{name} {text}" for name, text in texts.items()))
    curve = Table(title="to be expected, with a CPU for each process: times what one process reaches (deliveries/s)")
    curve.add_column("clients of a message", justify="right")
    for workers in _CURVE:
        curve.add_column(f"{workers} workers", justify="right")
    for clients in (arguments.few, arguments.many, 1000):
        alone = clients * 1e6 / (found.published + found.heard + found.delivered * clients)
        rates = [found.deliveries_per_s(workers, clients) for workers in _CURVE]
        curve.add_row(f"{clients:,}", *(f"{rate / alone:.1f} ({rate:,.0f})" for rate in rates))
    console.print(curve)


def _typical(runs: list[Result]) -> Result:
    """Return the run in the middle, by what a message takes of the hub."""
    middle = median(sum(one.cpu_s.values()) / one.messages for one in runs)
    return min(runs, key=lambda one: abs(sum(one.cpu_s.values()) / one.messages - middle))


if __name__ == "__main__":
    main()
