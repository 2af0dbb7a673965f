"""Compare the hub with other brokers, all of them in turn in one session on this machine.

    python -m tests.benchmarks.compare [--only hub,nats] [--workloads fan-out,wakeups] [--repeat 3] [--scale 0.1]
                                       [--before DIRECTORY] [--json FILE] [--markdown FILE]

Each broker runs alone on the first CPU, the load generator on the second one. Repeats are interleaved: all workloads
with all brokers once, then all again, so that a slow drift of the machine meets everybody. See docs/benchmarks.md.
Exit code 1: messages were lost or came out of order, or a run failed. 2: wrong arguments.
"""

from __future__ import annotations

import argparse
import ctypes
import fcntl
import json
import os
import platform
import socket
import struct
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from peers.bench.worker import raise_descriptor_limit
from tests.benchmarks.brokers import (
    BEFORE,
    BROKERS,
    FLOOR,
    OURS,
    Broker,
    BrokerError,
    Hub,
    RunningBroker,
)
from tests.benchmarks.report import Run, Summary, markdown, tell_faults, write_json
from tests.benchmarks.workloads import Workload, selected


@dataclass(frozen=True, slots=True)
class Contestant:
    name: str
    broker: Broker

    @property
    def dialect(self) -> str:
        return OURS if self.name == BEFORE else self.name

    @property
    def ours(self) -> bool:
        return self.broker.name in (OURS, BEFORE)


def contestants(workload: Workload, brokers: Sequence[Broker]) -> list[Contestant]:
    taking_part: list[Contestant] = []
    for broker in brokers:
        if workload.websocket and not broker.websocket:
            continue
        if broker.name == FLOOR and not _one_to_one(workload):
            continue
        taking_part.append(Contestant(broker.name, broker))
        if broker.name == OURS and workload.batches:
            taking_part.append(Contestant("hub-batch", broker))
        if broker.name == OURS and workload.websocket and workload.kind == "flood":
            taking_part.append(Contestant("hub-json", broker))
    return taking_part


def _one_to_one(workload: Workload) -> bool:
    crowd = max(workload.publishers, workload.subscribers, workload.topics) > 1 or workload.bystanders
    return not crowd and workload.kind != "memory"


_CLONE_NEWNET = 0x4000_0000
_SET_FLAGS = 0x8914
"""The request SIOCSIFFLAGS, which sets the flags of an interface."""

_UP = 0x1 | 0x40
"""The flags IFF_UP and IFF_RUNNING."""

_CONTROL = Path("/proc/sys/net/ipv4/tcp_congestion_control")
_WANTED = ("cubic", "reno")
"""The first one that the kernel takes as a default; without loss they are the same."""


def enter_own_network() -> str:
    """Move this thread, and every process it starts from now on, into a network of its own, if that is allowed."""
    own = ctypes.CDLL(None).unshare(_CLONE_NEWNET) == 0
    if own:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
            fcntl.ioctl(control, _SET_FLAGS, struct.pack("16sh14x", b"lo", _UP))
        for wanted in _WANTED:
            with suppress(OSError):
                _CONTROL.write_text(wanted)
                break
    place = "loopback in a namespace of its own" if own else "the machine's loopback (not root)"
    return f"{place}, TCP congestion control {_CONTROL.read_text().strip()}"


def surroundings(brokers: Sequence[Broker], network: str) -> dict[str, str]:
    about = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": f"{_processor()}, {os.cpu_count()} CPUs, {_memory_gib():.0f} GiB",
        "system": f"{_distribution()}, Linux {platform.release()}",
        "network": network,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
    }
    return about | {broker.name: broker.version() for broker in brokers}


def _processor() -> str:
    return _value(Path("/proc/cpuinfo"), "model name", ":") or platform.machine()


def _distribution() -> str:
    return _value(Path("/etc/os-release"), "PRETTY_NAME", "=").strip('"') or platform.system()


def _memory_gib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30


def _value(file: Path, name: str, separator: str) -> str:
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return ""
    for line in lines:
        key, _, value = line.partition(separator)
        if key.strip() == name:
            return value.strip()
    return ""


_ROOT = Path(__file__).resolve().parents[2]
_LIMIT_S = 120.0
"""How long one run may take, beside what it was asked to last."""


@dataclass(frozen=True, slots=True)
class Placement:
    server: int | None
    generator: int | None


def placement() -> Placement:
    """Put the server on the first CPU and the generator on the second one, if there are two."""
    cpus = sorted(os.sched_getaffinity(0))
    return Placement(cpus[0], cpus[1]) if len(cpus) > 1 else Placement(None, None)


def measure(
    workload: Workload,
    contestant: Contestant,
    repeat: int,
    duration_s: float,
    place: Placement,
) -> Run:
    result: dict[str, Any]
    try:
        with RunningBroker(contestant.broker, place.server) as broker:
            result = _generate(workload, contestant, broker, duration_s, place)
            if "figures" not in result:
                told = broker.told()
                result = {kind: f"{text}; the broker says: {told}" if told else text for kind, text in result.items()}
    except BrokerError as error:
        result = {"failed": str(error)}
    return Run(workload.name, contestant.name, repeat, **result)


def _generate(
    workload: Workload, contestant: Contestant, broker: RunningBroker, duration_s: float, place: Placement
) -> dict[str, Any]:
    order = {
        "workload": workload.name,
        "dialect": contestant.dialect,
        "ports": broker.ports,
        "pid": broker.pid,
        "duration_s": duration_s,
        "cpu": place.generator,
    }
    try:
        done = subprocess.run(
            [sys.executable, "-m", "tests.benchmarks.generate"],
            input=json.dumps(order),
            capture_output=True,
            text=True,
            check=False,
            cwd=_ROOT,
            timeout=_LIMIT_S + duration_s,
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"no end after {_LIMIT_S + duration_s:.0f} s"}
    if done.returncode:
        return {"failed": f"the load generator ended with {done.returncode}: {done.stderr.strip()[-500:]}"}
    result: dict[str, Any] = json.loads(done.stdout)
    return result


EXIT_FAULT = 1

_DURATION_S = {"flood": 1.5, "paced": 2.0, "memory": 0.0}
_DURATION_LIMIT_S = 15.0
"""Above this, connections that only listen would be pinged, and the generators do not answer pings."""


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", metavar="NAMES", help="brokers, separated by commas; default: all")
    parser.add_argument("--before", type=Path, metavar="DIRECTORY", help="checkout whose hub takes part, as hub-before")
    parser.add_argument("--workloads", default="", metavar="NAMES", help="separated by commas; default: all")
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="default: 3")
    parser.add_argument("--scale", type=float, default=1.0, metavar="X", help="how long each run lasts; default: 1")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything measured")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables of docs/performance.md")
    given = parser.parse_args()
    if given.repeat < 1 or not 0 < given.scale <= _DURATION_LIMIT_S / max(_DURATION_S.values()):
        parser.error("--repeat is 1 or more, --scale above 0 and at most 7.5")
    if given.before and not (given.before / "peers").is_dir():
        parser.error(f"--before: there is no checkout of the hub in {given.before}")
    try:
        given.chosen = selected(_names(given.workloads))
    except ValueError as error:
        parser.error(str(error))
    unknown = set(_names(given.only)) - {broker.name for broker in BROKERS}
    if unknown:
        parser.error(
            f"--only: no broker {', '.join(sorted(unknown))}; there are {', '.join(broker.name for broker in BROKERS)}"
        )
    return given


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _plan(
    workloads: Sequence[Workload], brokers: Sequence[Broker], repeats: int
) -> list[tuple[Workload, Contestant, int]]:
    return [
        (workload, contestant, repeat)
        for repeat in range(1, repeats + 1)
        for workload in workloads
        for contestant in contestants(workload, brokers)
    ]


def main() -> int:
    given = _arguments()
    console = Console(stderr=True)
    only = _names(given.only)
    wanted = [broker for broker in BROKERS if not only or broker.name in only]
    brokers = [broker for broker in wanted if broker.version()]
    for broker in wanted:
        if broker not in brokers:
            console.print(f"[yellow]{broker.name} is missing: {broker.install}[/]")
    if given.before:
        brokers.insert(1, Hub(BEFORE, given.before.resolve()))
    network = enter_own_network()
    raise_descriptor_limit()
    place = placement()
    if place.server is None:
        console.print("[yellow]There is one CPU only: brokers and load share it, and the figures with it.[/]")
    runs: list[Run] = []
    plan = _plan(given.chosen, brokers, given.repeat)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console, refresh_per_second=2) as progress:
        task = progress.add_task("", total=len(plan))
        for workload, contestant, repeat in plan:
            progress.update(task, description=f"{workload.name}  {contestant.name}".ljust(28))
            runs.append(measure(workload, contestant, repeat, _DURATION_S[workload.kind] * given.scale, place))
            progress.advance(task)
    summary = Summary(runs)
    about = surroundings(brokers, network)
    tables = markdown(summary, about)
    print(tables)  # noqa: T201 -- a program
    tell_faults(summary, console)
    if given.json:
        settings = {"repeat": given.repeat, "scale": given.scale, "duration_s": _DURATION_S}
        write_json(summary, about, settings, given.json)
    if given.markdown:
        given.markdown.write_text(tables)
    return EXIT_FAULT if summary.faults else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
