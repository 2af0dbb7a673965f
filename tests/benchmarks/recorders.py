"""How fast messages are recorded: the hub's journal, NATS JetStream with file storage and Redis streams with its AOF.

    python tests/benchmarks/recorders.py [--messages 2000000] [--repeat 3] [--touched 512]

One publisher, which sends what it has made before, in messages of 100 random bytes (nothing can be compressed) that are
frames of their own, without waiting for an answer; the clock stops when the server says that all of them are recorded.
What was recorded survives a kill of the server; it is brought to the disk once a second by the hub (`sync = normal`)
and by Redis (`appendfsync everysec`), and every two minutes by JetStream (which lets nobody choose in the version that
Debian has). One after the other, in turn; medians. The last column is what stands on the disk.

A virtual machine may have to get each page of the page cache from its host when it is used first, which costs whoever
writes there more than all else; a machine that has been up for long has its pages. So before each run a file of
`--touched` MiB is written and deleted, whose pages are free then; 0 does without.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

sys.path[:0] = [str(Path(__file__).resolve().parents[2]), str(Path(__file__).resolve().parent)]

from brokers.broker import RunningBroker  # noqa: E402 -- run as a script, it finds the project first
from brokers.durable import (  # noqa: E402 -- run as a script, it finds the project first
    AppendingRedis,
    JetStream,
    connected,
    redis_command,
)

from hub.batch import Batch  # noqa: E402 -- run as a script, it finds the project first
from peers.bench.running_hub import RunningHub  # noqa: E402 -- run as a script, it finds the project first
from peers.bench.usage import read_usage  # noqa: E402 -- run as a script, it finds the project first
from peers.client.blocking import connect  # noqa: E402 -- run as a script, it finds the project first
from peers.transport.endpoints import Endpoint  # noqa: E402 -- run as a script, it finds the project first
from peers.wire.hello import Hello  # noqa: E402 -- run as a script, it finds the project first

_SIZE_BYTES = 100
_TOPIC = "bench.recorded"
_AT_ONCE = 1_000
_VALUES = [random.Random(number).randbytes(_SIZE_BYTES) for number in range(_AT_ONCE)]  # noqa: S311 -- it is load
_READ_BYTES = 1 << 20
_LOOK_S = 0.005


class Row(NamedTuple):
    """What was measured."""

    seconds: float
    cpu_s: float
    main_s: float
    """How much of it the server's first thread took: the hub's event loop."""
    disk_bytes: int


class Target(NamedTuple):
    """A server that records, ready to take messages."""

    pid: int
    folder: Path
    line: socket.socket
    thousand: bytes
    """A thousand messages."""
    recorded: Callable[[], int]
    """Asks how many are recorded."""


@contextmanager
def hub() -> Iterator[Target]:
    """The hub, with a journal."""
    running = RunningHub.start(("tcp",), ("--journal=journal",))
    client = connect(running.url("tcp"))
    place = Endpoint.parse(running.url("tcp"))
    line = socket.create_connection((place.host, place.port))
    try:
        line.sendall(Hello(protocol=1, role="client").encode())
        made = [
            Batch.of("/bench/recorded", [value[2:]]).frames for value in _VALUES
        ]  # 2 bytes of a value say what it is
        home = Path(f"/proc/{running.pid}/cwd").resolve()
        yield Target(running.pid, home / "journal", line, b"".join(made), lambda: client.journal().head)
    finally:
        line.close()
        client.close()
        running.stop()


@contextmanager
def jetstream() -> Iterator[Target]:
    """nats-server, with a stream in files."""
    with (
        RunningBroker(JetStream(), None) as running,
        connected(running.ports[0]) as line,
        connected(running.ports[0]) as ask,
    ):
        for each in (line, ask):
            each.sendall(b'CONNECT {"verbose":false,"pedantic":false}\r\n')
        answers = ask.makefile("rb")
        ask.sendall(b"SUB answer 1\r\n")

        def request(subject: str, body: bytes) -> dict[str, object]:
            ask.sendall(f"PUB {subject} answer {len(body)}\r\n".encode() + body + b"\r\n")
            while not answers.readline().startswith(b"MSG"):
                pass
            found: dict[str, object] = json.loads(answers.readline())
            return found

        stream = {"name": "bench", "subjects": [_TOPIC], "storage": "file", "retention": "limits"}
        request("$JS.API.STREAM.CREATE.bench", json.dumps(stream).encode())

        def recorded() -> int:
            state = request("$JS.API.STREAM.INFO.bench", b"")["state"]
            assert isinstance(state, dict)
            return int(state["messages"])

        made = [f"PUB {_TOPIC} {_SIZE_BYTES}\r\n".encode() + value + b"\r\n" for value in _VALUES]
        folder = Path(f"/proc/{running.pid}/cwd").resolve() / "store"
        yield Target(running.pid, folder, line, b"".join(made), recorded)


@contextmanager
def redis() -> Iterator[Target]:
    """redis-server, with one stream."""
    with (
        RunningBroker(AppendingRedis(), None) as running,
        connected(running.ports[0]) as line,
        connected(running.ports[0]) as ask,
    ):
        answers = ask.makefile("rb")

        def recorded() -> int:
            ask.sendall(redis_command(b"XLEN", _TOPIC.encode()))
            return int(answers.readline()[1:])

        made = [redis_command(b"XADD", _TOPIC.encode(), b"*", b"v", value) for value in _VALUES]
        folder = Path(f"/proc/{running.pid}/cwd").resolve()
        yield Target(running.pid, folder, line, b"".join(made), recorded)


def _touch(mebibytes: int) -> None:
    """Have the machine own so much memory that is free for files."""
    with tempfile.TemporaryFile() as file:
        piece = random.Random(0).randbytes(1 << 20)  # noqa: S311 -- it is load
        for _ in range(mebibytes):
            file.write(piece)


def measure(target: Target, messages: int) -> Row:
    """Send messages, and wait until they are recorded."""
    reader = threading.Thread(target=_drain, args=(target.line,), daemon=True)
    reader.start()
    before, main_before, began_s = read_usage(target.pid).cpu_ns, _main_ns(target.pid), time.monotonic()
    for _ in range(messages // _AT_ONCE):
        target.line.sendall(target.thousand)
    while target.recorded() < messages:
        time.sleep(_LOOK_S)
    seconds = time.monotonic() - began_s
    cpu_s = (read_usage(target.pid).cpu_ns - before) / 1e9
    main_s = (_main_ns(target.pid) - main_before) / 1e9
    disk = sum(file.stat().st_blocks * 512 for file in target.folder.rglob("*") if file.is_file())
    return Row(seconds, cpu_s, main_s, disk)


def _main_ns(pid: int) -> int:
    """Return what the first thread of a process has computed, ns."""
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0])


def _drain(line: socket.socket) -> None:
    """Read what the server says to the publisher, such as the id of each message, until the connection ends."""
    try:
        while line.recv(_READ_BYTES):
            pass
    except OSError:
        return


def main() -> None:
    """Measure all of them in turn, and show a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=2_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument(
        "--touched", type=int, default=512, help="MiB of memory that are used for files before each run"
    )
    arguments = parser.parse_args()
    targets = {"hub, journal": hub}
    if shutil.which("nats-server", path="/usr/sbin:/usr/bin:/usr/local/bin"):
        targets[f"NATS JetStream {JetStream().version()}, file"] = jetstream
    if AppendingRedis().version():
        targets[f"Redis stream {AppendingRedis().version()}, AOF"] = redis
    messages = arguments.messages // _AT_ONCE * _AT_ONCE
    rows: dict[str, list[Row]] = {name: [] for name in targets}
    for _ in range(arguments.repeat):
        for name, start in targets.items():
            with start() as target:
                _touch(arguments.touched)
                rows[name].append(measure(target, messages))
    table = Table(title=f"{messages:,} messages of {_SIZE_BYTES} bytes, recorded; medians of {arguments.repeat}")
    for column in (
        "",
        "messages/s",
        "lowest to highest",
        "µs of CPU each",
        "of it in the first thread",
        "bytes on the disk each",
    ):
        table.add_column(column, justify="left" if not column else "right")
    for name, some in rows.items():
        rates = sorted(messages / row.seconds for row in some)
        cpu_us = statistics.median(row.cpu_s for row in some) / messages * 1e6
        main_us = statistics.median(row.main_s for row in some) / messages * 1e6
        disk = statistics.median(row.disk_bytes for row in some) / messages
        table.add_row(
            name,
            f"{statistics.median(rates):,.0f}",
            f"{rates[0]:,.0f} to {rates[-1]:,.0f}",
            f"{cpu_us:.2f}",
            f"{main_us:.2f}",
            f"{disk:.0f}",
        )
    Console().print(table)


if __name__ == "__main__":
    main()
