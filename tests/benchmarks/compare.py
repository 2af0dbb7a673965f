"""Compare the hub with other brokers, all of them in turn in one session on this machine.

    python tests/benchmarks/compare.py [--only hub,nats] [--workloads fan-out,wakeups] [--repeat 3] [--scale 0.1]
                                       [--before DIRECTORY] [--tls] [--json FILE] [--html FILE]
                                       [--markdown FILE] [--svg FILE] [--profile DIRECTORY]

Each broker runs alone on the first CPU, the load generator on the second one. Repeats are interleaved: all workloads
with all brokers once, then all again, so that a slow drift of the machine meets everybody. See README.md beside this
file. Exit code 1: messages were lost or came out of order, or a run failed. 2: wrong arguments.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from brokers import BROKERS, secured_brokers
from brokers.broker import Broker
from brokers.certificate import Certificate, new_certificate
from brokers.hub import Hub
from brokers.install import install_missing
from chart import write_html
from contestants import BEFORE, Contestant, contestants
from generators.tls import CIPHER
from machine import surroundings
from markdown import write_markdown
from measure import Run, measure, placement
from network import enter_own_network
from overview import write_overview
from report import print_report, write_json
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from summary import Summary
from workloads import Workload, selected

from peers.bench.worker import raise_descriptor_limit

EXIT_FAULT = 1
_PRINTED_WIDTH = 150
"""The width of tables that do not go to a terminal, characters."""

_DURATION_S = {"flood": 1.5, "paced": 2.0, "memory": 0.0}
_DURATION_LIMIT_S = 15.0
"""Above this, connections that only listen would be pinged, and the generators do not answer pings."""


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", metavar="NAMES", help="brokers, separated by commas; default: all")
    parser.add_argument("--before", type=Path, metavar="DIRECTORY", help="checkout whose hub takes part, as hub-before")
    parser.add_argument("--tls", action="store_true", help="the hub and nats-server over TLS 1.3; default: 100-bytes")
    parser.add_argument("--workloads", default="", metavar="NAMES", help="separated by commas; default: all")
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="default: 3")
    parser.add_argument("--scale", type=float, default=1.0, metavar="X", help="how long each run lasts; default: 1")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything measured")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write the plot")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables of docs/performance.md")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="write the picture of docs/performance.md")
    parser.add_argument("--profile", type=Path, metavar="DIRECTORY", help="py-spy flame graphs of the hub; slows it")
    given = parser.parse_args()
    if given.repeat < 1 or not 0 < given.scale <= _DURATION_LIMIT_S / max(_DURATION_S.values()):
        parser.error("--repeat is 1 or more, --scale above 0 and at most 7.5")
    if given.before and not (given.before / "peers").is_dir():
        parser.error(f"--before: there is no checkout of the hub in {given.before}")
    try:
        given.chosen = selected(_names(given.workloads) or (["100-bytes"] if given.tls else []))
    except ValueError as error:
        parser.error(str(error))
    if given.tls and any(workload.websocket for workload in given.chosen):
        parser.error("--tls: there is no workload with WebSockets over TLS")
    if given.tls:  # the goals of batches are for what is only copied
        given.chosen = [replace(workload, batches=False) for workload in given.chosen]
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
    """Compare; return the exit code."""
    given = _arguments()
    with ExitStack() as stack:
        return _compare(given, stack.enter_context(new_certificate()) if given.tls else None)


def _compare(given: argparse.Namespace, certificate: Certificate | None) -> int:
    console = Console(stderr=True)
    only = _names(given.only)
    kinds = BROKERS if certificate is None else secured_brokers(certificate)
    brokers = install_missing([broker for broker in kinds if not only or broker.name in only])
    if given.before:
        brokers.insert(1, Hub(BEFORE, given.before.resolve(), certificate))
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
            profile = given.profile if contestant.ours else None
            duration_s = _DURATION_S[workload.kind] * given.scale
            ca = certificate.ca if certificate else ""
            runs.append(measure(workload, contestant, repeat, duration_s, place, profile=profile, ca=ca))
            progress.advance(task)
    summary = Summary(runs)
    about = surroundings(brokers, network)
    if certificate is not None:
        about["tls"] = f"1.3, {CIPHER}, certificate with ECDSA P-256"
    out = Console()
    print_report(summary, about, out if out.is_terminal else Console(width=_PRINTED_WIDTH))
    if given.json:
        settings = {
            "repeat": given.repeat,
            "scale": given.scale,
            "duration_s": _DURATION_S,
            "profiled": bool(given.profile),
        }
        write_json(summary, about, settings, given.json)
    for file, write in ((given.html, write_html), (given.markdown, write_markdown), (given.svg, write_overview)):
        if file:
            write(summary, about, file)
    return EXIT_FAULT if summary.faults else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
