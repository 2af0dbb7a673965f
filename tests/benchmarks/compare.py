"""Compare the hub with other brokers, all of them in turn in one session on this machine.

    python -m tests.benchmarks.compare [--only hub,nats] [--workloads fan-out,wakeups] [--repeat 3] [--scale 0.1]
                                       [--before DIRECTORY] [--json FILE]

Each broker runs alone on the first CPU, the load generator on the second one. Repeats are interleaved: all workloads
with all brokers once, then all again, so that a slow drift of the machine meets everybody. See docs/benchmarks.md.
Exit code 1: messages were lost or came out of order, or a run failed. 2: wrong arguments.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console

from peers.bench.processes import raise_descriptor_limit
from peers.bench.report import Environment
from peers.cli.bench import shown_progress
from tests.benchmarks.brokers import BEFORE, BROKERS, OURS, OURS_BATCHED, Broker, BrokerError, hub, running
from tests.benchmarks.workloads import WORKLOADS, Workload, selected


@dataclass(frozen=True, slots=True)
class Run:
    workload: str
    contestant: str
    repeat: int
    figures: dict[str, float] = field(default_factory=dict)
    wrong: str = ""
    """What was seen, if messages were lost, repeated, exchanged or damaged."""
    failed: str = ""
    """Why it did not come to an end, if it did not."""


_ROOT = Path(__file__).resolve().parents[2]
_LIMIT_S = 120.0
"""How long one run may take, beside what it was asked to last."""


def measure(workload: Workload, name: str, broker: Broker, repeat: int, duration_s: float) -> Run:
    cpus = sorted(os.sched_getaffinity(0))
    apart = len(cpus) > 1
    result: dict[str, Any]
    try:
        with running(broker, cpus[0] if apart else None) as started:
            order = {
                "workload": workload.name,
                "dialect": OURS if name == BEFORE else name,
                "ports": started.ports,
                "pid": started.process.pid,
                "duration_s": duration_s,
                "cpu": cpus[1] if apart else None,
            }
            command = [sys.executable, "-m", "tests.benchmarks.generate"]
            done = subprocess.run(
                command,
                input=json.dumps(order),
                stdout=subprocess.PIPE,
                text=True,
                check=True,
                cwd=_ROOT,
                timeout=_LIMIT_S + duration_s,
            )
            result = json.loads(done.stdout)
            if "figures" not in result and (told := started.told()):
                result = {kind: f"{text}; the broker says: {told}" for kind, text in result.items()}
    except (BrokerError, subprocess.SubprocessError) as error:
        result = {"failed": str(error)}
    return Run(workload.name, name, repeat, **result)


_QUIET_LOAD = 0.1
"""If others use more CPU than this, in cores, the figures are not worth much."""

_TABLES = {"cpu_us": "µs of server CPU a delivered message", "p50_us": "latency p50, µs", "p99_us": "latency p99, µs"}


class Summary:
    """Of all runs median and spread of every figure, beside our goals."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self.runs = runs
        self.faults = [run for run in runs if run.wrong or run.failed]

    def values(self, workload: str, contestant: str, figure: str) -> list[float]:
        runs = [run for run in self.runs if (run.workload, run.contestant) == (workload, contestant)]
        return [run.figures[figure] for run in runs if figure in run.figures]

    def _ratio(self, workload: Workload, figure: str) -> str:
        """Return our median over that of the best other broker, and the goal; empty if either is missing."""
        others = {run.contestant for run in self.runs} - {OURS, BEFORE, OURS_BATCHED}
        theirs = [median(values) for name in others if (values := self.values(workload.name, name, figure))]
        mine, goal = self.values(workload.name, OURS, figure), workload.goals.get(figure)
        if not mine or not theirs:
            return ""
        ratio = median(mine) / min(theirs)
        return f"{ratio:.2f}" + ("" if goal is None else f" ({'ok' if ratio <= goal else '**missed**'}: ≤ {goal:g})")

    def disturbance(self) -> float:
        """Return the median CPU, in cores, that other processes used while something was measured."""
        return median([run.figures["others_load"] for run in self.runs if "others_load" in run.figures] or [0.0])

    def markdown(self, about: dict[str, str]) -> str:
        """Return the tables of docs/design/measurements.md: medians with their spread, ratios, goals."""
        parts = [self._table(figure, heading) for figure, heading in _TABLES.items()]
        parts.append("".join(f"* {name}: {text}\n" for name, text in about.items()))
        return "\n".join(part for part in parts if part)

    def _table(self, figure: str, heading: str) -> str:
        runs = [run for run in self.runs if figure in run.figures]
        names = list(dict.fromkeys(run.contestant for run in runs))
        rows = [[heading, *names, "hub ÷ best other"], ["---"] * (len(names) + 2)]
        measured = {run.workload for run in runs}
        for workload in [one for one in WORKLOADS if one.name in measured]:
            cells = [workload.title]
            for name in names:
                values = self.values(workload.name, name, figure)
                middle, least, most = (_shown(of(values)) if values else "" for of in (median, min, max))
                shown = f"**{middle}**" if name.startswith(OURS) else middle
                cells.append(f"{shown} ({least} to {most})" if values else "")
            rows.append([*cells, self._ratio(workload, figure)])
        return "".join(f"| {' | '.join(cells)} |\n" for cells in rows) if runs else ""


def _shown(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3f}" if value < 10 else f"{value:.1f}"


_FLOOD_S, _PACED_S = 1.5, 2.0
_DURATION_LIMIT_S = 15.0
"""Above this, connections that only listen would be pinged, and the generators do not answer pings."""


def _arguments() -> argparse.Namespace:
    def names(text: str) -> list[str]:
        return [name.strip() for name in text.split(",") if name.strip()]

    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", type=names, metavar="NAMES", help="brokers, separated by commas; default: all")
    parser.add_argument("--before", type=Path, metavar="DIRECTORY", help="checkout whose hub takes part, as hub-before")
    parser.add_argument("--workloads", type=names, default=[], metavar="NAMES", help="with commas; default: all")
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="default: 3")
    parser.add_argument("--scale", type=float, default=1.0, metavar="X", help="how long each run lasts; default: 1")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything measured")
    given = parser.parse_args()
    if given.repeat < 1 or not 0 < given.scale <= _DURATION_LIMIT_S / _PACED_S:
        parser.error("--repeat is 1 or more, --scale above 0 and at most 7.5")
    if given.before and not (given.before / "peers").is_dir():
        parser.error(f"--before: there is no checkout of the hub in {given.before}")
    try:
        given.chosen = selected(given.workloads)
    except ValueError as error:
        parser.error(str(error))
    known = [broker.name for broker in BROKERS]
    if unknown := set(given.only or ()) - set(known):
        parser.error(f"--only: no broker {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    return given


def main() -> int:
    given = _arguments()
    console = Console(stderr=True)
    brokers = []
    for broker in BROKERS:
        if given.only and broker.name not in given.only:
            continue
        if broker.version():
            brokers.append(broker)
        else:
            console.print(f"[yellow]{broker.name} is missing: {broker.install}[/]")
    if given.before:
        brokers.insert(1, hub(BEFORE, given.before.resolve()))
    about = {"machine": str(Environment.here())} | {broker.name: broker.version() for broker in brokers}
    raise_descriptor_limit()
    if len(os.sched_getaffinity(0)) == 1:
        console.print("[yellow]There is one CPU only: brokers and load share it, and the figures with it.[/]")
    plan = [
        (workload, name, broker, repeat)
        for repeat in range(1, given.repeat + 1)
        for workload in given.chosen
        for broker in brokers
        for name in (broker.name, *([OURS_BATCHED] if broker.name == OURS and workload.batches else []))
    ]
    runs: list[Run] = []
    with shown_progress() as tell:
        for workload, name, broker, repeat in plan:
            tell(f"{workload.name}  {name}".ljust(28))(len(runs), len(plan))
            duration_s = (_PACED_S if workload.rate else _FLOOD_S) * given.scale
            runs.append(measure(workload, name, broker, repeat, duration_s))
    summary = Summary(runs)
    print(summary.markdown(about))  # noqa: T201 -- a program
    if (disturbance := summary.disturbance()) > _QUIET_LOAD:
        console.print(
            f"[yellow]The machine was not quiet: others used {disturbance:.2f} CPUs meanwhile. "
            "CPU figures are too high, latencies and rates are worth nothing.[/]"
        )
    for run in summary.faults:
        what = "LOST OR OUT OF ORDER" if run.wrong else "FAILED"
        text = f"{run.workload}, {run.contestant}, repeat {run.repeat}: {run.wrong or run.failed}"
        console.print(f"[bold red]{what}[/] {text}", highlight=False)
    if given.json:
        settings = {"repeat": given.repeat, "scale": given.scale, "duration_s": {"flood": _FLOOD_S, "paced": _PACED_S}}
        every = {"others_load": disturbance, "runs": list(map(asdict, runs))}
        given.json.write_text(json.dumps({"about": about, "settings": settings} | every, indent=1) + "\n")
    return 1 if summary.faults else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
