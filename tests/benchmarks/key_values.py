"""What a put and an increment cost at the hub's stores, Redis and NATS KV, each of them kept in files.

    python tests/benchmarks/key_values.py [--puts 200000] [--repeat 3]

Each server is a process of its own, and has one client, this process, with 1,000 commands on their way at one time,
each of which is answered. The hub answers when a put survives that it is killed (`stores.sync = "normal"`), Redis when
it has handed it to the kernel (`appendfsync everysec`), NATS when JetStream has written it. Keys are 50,000 in turn,
values have 100 bytes. Medians of runs in turn.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

sys.path[:0] = [str(Path(__file__).resolve().parents[2]), str(Path(__file__).resolve().parent)]

from brokers.broker import RunningBroker  # noqa: E402 -- run as a script, it finds the project first
from brokers.durable import (  # noqa: E402 -- the same
    AppendingRedis,
    JetStream,
    connected,
    redis_command,
)

from peers.bench.running_hub import RunningHub  # noqa: E402 -- the same
from peers.bench.usage import read_usage  # noqa: E402 -- the same
from peers.client import connect  # noqa: E402 -- the same

_VALUE = "x" * 98
_KEYS = 50_000
_AT_ONCE = 1_000
_READ_BYTES = 1 << 20


class Row(NamedTuple):
    """One run."""

    seconds: float
    cpu_s: float


Work = Callable[[int], None]
"""Does so many commands, and returns when all are answered."""


@contextmanager
def hub() -> Iterator[tuple[int, dict[str, Work]]]:
    """The hub, with a store in a file."""
    with tempfile.TemporaryDirectory() as folder:
        running = RunningHub.start(("tcp",), ("--store", f"s={folder}/s.db"))
        loop = asyncio.new_event_loop()
        connecting = connect(running.url("tcp"))
        client = loop.run_until_complete(connecting.__aenter__())
        store = client.store("s")

        async def put(count: int) -> None:
            for start in range(0, count, _AT_ONCE):
                await store.put_many([(_key(number), _VALUE) for number in range(start, start + _AT_ONCE)])

        async def increment(count: int) -> None:
            for _ in range(0, count, _AT_ONCE):
                await asyncio.gather(*(store.increment("number") for _ in range(_AT_ONCE)))

        try:
            yield (
                running.pid,
                {
                    "put": lambda count: loop.run_until_complete(put(count)),
                    "increment": lambda count: loop.run_until_complete(increment(count)),
                },
            )
        finally:
            loop.run_until_complete(connecting.__aexit__(None, None, None))
            loop.close()
            running.stop()


@contextmanager
def redis() -> Iterator[tuple[int, dict[str, Work]]]:
    """redis-server with its append-only file."""
    with RunningBroker(AppendingRedis(), None) as running, connected(running.ports[0]) as line:

        def pipelined(commands: Callable[[int], bytes]) -> Work:
            def work(count: int) -> None:
                for start in range(0, count, _AT_ONCE):
                    line.sendall(b"".join([commands(number) for number in range(start, start + _AT_ONCE)]))
                    answered = 0
                    while answered < _AT_ONCE:
                        answered += line.recv(_READ_BYTES).count(b"\r\n")

            return work

        value = _VALUE.encode()
        yield (
            running.pid,
            {
                "put": pipelined(lambda number: redis_command(b"SET", _key(number).encode(), value)),
                "increment": pipelined(lambda _: redis_command(b"INCR", b"number")),
            },
        )


@contextmanager
def nats() -> Iterator[tuple[int, dict[str, Work]]]:
    """nats-server with a bucket in files."""
    with RunningBroker(JetStream(), None) as running, connected(running.ports[0]) as line:
        line.sendall(b'CONNECT {"verbose":false,"pedantic":false}\r\nSUB answer 1\r\n')
        answers = line.makefile("rb")
        bucket = {
            "name": "KV_bench",
            "subjects": ["$KV.bench.>"],
            "storage": "file",
            "max_msgs_per_subject": 1,
            "discard": "new",
            "allow_rollup_hdrs": True,
        }
        body = json.dumps(bucket).encode()
        line.sendall(f"PUB $JS.API.STREAM.CREATE.KV_bench answer {len(body)}\r\n".encode() + body + b"\r\n")
        while not answers.readline().startswith(b"MSG"):
            pass
        answers.readline()
        value = _VALUE.encode()

        def put(count: int) -> None:
            for start in range(0, count, _AT_ONCE):
                made = [
                    b"PUB $KV.bench.%b answer %d\r\n%b\r\n" % (_key(number).encode(), len(value), value)
                    for number in range(start, start + _AT_ONCE)
                ]
                line.sendall(b"".join(made))
                answered = 0
                while answered < _AT_ONCE:
                    answered += answers.readline().startswith(b"MSG")

        yield running.pid, {"put": put}


def _key(number: int) -> str:
    return f"key-{number % _KEYS}"


def measure(pid: int, work: Work, count: int) -> Row:
    """Do so many commands."""
    before, began_s = read_usage(pid).cpu_ns, time.monotonic()
    work(count)
    return Row(time.monotonic() - began_s, (read_usage(pid).cpu_ns - before) / 1e9)


def main() -> None:
    """Measure all of them in turn, and show a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--puts", type=int, default=200_000)
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args()
    servers = {"hub": hub}
    if AppendingRedis().version():
        servers[f"Redis {AppendingRedis().version()}"] = redis
    if shutil.which("nats-server", path="/usr/sbin:/usr/bin:/usr/local/bin"):
        servers[f"NATS KV {JetStream().version()}"] = nats
    count = given.puts // _AT_ONCE * _AT_ONCE
    rows: dict[tuple[str, str], list[Row]] = {}
    for _ in range(given.repeat):
        for name, start in servers.items():
            with start() as (pid, works):
                for what, work in works.items():
                    rows.setdefault((what, name), []).append(measure(pid, work, count))
    table = Table("what", "server", "a second", "µs of its CPU each", "lowest to highest")
    for (what, name), runs in sorted(rows.items(), key=lambda item: item[0][0], reverse=True):
        costs = [run.cpu_s / count * 1e6 for run in runs]
        rate = count / statistics.median(run.seconds for run in runs)
        table.add_row(
            what, name, f"{rate:,.0f}", f"{statistics.median(costs):.2f}", f"{min(costs):.2f} to {max(costs):.2f}"
        )
    Console().print(table)


if __name__ == "__main__":
    main()
