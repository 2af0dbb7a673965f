"""What people read: tables on the terminal; and what programs read: JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from summary import Comparison, Summary, ours
from workloads import Workload

__all__ = ["figure_text", "print_report", "write_json"]

_BUSY = 0.95
"""A generator that uses more of its CPU than this, beside a server that does not, was the bottleneck."""

_QUIET_LOAD = 0.1
"""If others use more CPU than this, in cores, the figures are not worth much."""

_TABLES: tuple[tuple[str, str, tuple[tuple[str, str], ...]], ...] = (
    (
        "full speed",
        "flood",
        (
            ("cpu_us", "server µs/message"),
            ("messages_per_s", "messages/s"),
            ("server_load", "load"),
            ("generator_cpu_us", "generator µs/message"),
            ("generator_load", "load"),
            ("peak_bytes", "peak MiB"),
        ),
    ),
    (
        "one by one: CPU",
        "paced",
        (("cpu_us", "server µs/message"), ("server_load", "load"), ("peak_bytes", "peak MiB")),
    ),
    (
        "one by one: latency, from when a message was due",
        "paced",
        (("p50_us", "p50 µs"), ("p99_us", "p99 µs"), ("late_p99_us", "generator late p99 µs")),
    ),
    (
        "memory",
        "memory",
        (
            ("connection_bytes", "bytes/connection"),
            ("subscription_bytes", "bytes/subscription"),
            ("peak_bytes", "peak MiB"),
        ),
    ),
)
"""Each table has a title, a kind of workloads, and figures in its columns."""

_LEAD = frozenset({"cpu_us", "p50_us", "p99_us"})
"""These figures are shown with their spread and their ratio to the best peer's."""


def figure_text(name: str, value: float) -> str:
    """Write a figure with as many digits as it deserves."""
    if name == "peak_bytes":
        return f"{value / 2**20:,.1f}"
    if name.endswith("_load"):
        return f"{value:.0%}"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3f}" if value < 10 else f"{value:.1f}"


def print_report(summary: Summary, about: dict[str, str], console: Console) -> None:
    """Print all tables."""
    for title, kind, columns in _TABLES:
        workloads = [workload for workload in summary.workloads if workload.kind == kind]
        if workloads:
            console.print(_table(summary, workloads, title, columns))
    comparisons = summary.comparisons()
    if comparisons:
        console.print(_goals(comparisons))
    for name, text in about.items():
        console.print(f"[dim]{name:>10}[/]  {text}", highlight=False)
    disturbance = summary.disturbance()
    if disturbance > _QUIET_LOAD:
        console.print(
            f"[yellow]The machine was not quiet: others used {disturbance:.2f} CPUs meanwhile. "
            "CPU figures are too high, latencies and rates are worth nothing.[/]"
        )
    for run in summary.faults:
        what = "LOST OR OUT OF ORDER" if run.wrong else "FAILED"
        console.print(
            f"[bold red]{what}[/] {run.workload}, {run.contestant}, repeat {run.repeat}: {run.wrong or run.failed}",
            markup=True,
            highlight=False,
        )


def _table(summary: Summary, workloads: Sequence[Workload], title: str, columns: Sequence[tuple[str, str]]) -> Table:
    table = Table(title=f"{title} (medians; least to most; ratio to the best peer)", title_justify="left")
    table.add_column("workload")
    table.add_column("broker")
    for name, heading in columns:
        table.add_column(heading, justify="right")
        if name in _LEAD:
            table.add_column("spread", justify="right", style="dim")
            table.add_column("ratio", justify="right")
    for workload in workloads:
        label = workload.name
        for contestant in summary.contestants(workload.name):
            cells = [cell for name, _ in columns for cell in _cells(summary, workload.name, contestant, name)]
            table.add_row(label, contestant, *cells, style="bold" if ours(contestant) else "")
            label = ""
        table.add_section()
    return table


def _cells(summary: Summary, workload: str, contestant: str, name: str) -> list[str]:
    spread = summary.spread(workload, contestant, name)
    if spread is None:
        return ["-", "-", "-"] if name in _LEAD else ["-"]
    text = figure_text(name, spread.median)
    if name == "generator_load" and _generator_bound(summary, workload, contestant):
        text = f"[yellow]{text} !"
    if name not in _LEAD:
        return [text]
    theirs = summary.spread(workload, summary.best_peer(workload, name), name)
    ratio = f"{spread.median / theirs.median:.2f}" if theirs is not None and theirs.median else "-"
    return [text, f"{figure_text(name, spread.least)} to {figure_text(name, spread.most)}", ratio]


def _generator_bound(summary: Summary, workload: str, contestant: str) -> bool:
    own = summary.spread(workload, contestant, "generator_load")
    server = summary.spread(workload, contestant, "server_load")
    return own is not None and server is not None and own.median > _BUSY > server.median


def _goals(comparisons: Sequence[Comparison]) -> Table:
    table = Table(title="goals: ratios of medians in this run", title_justify="left")
    for title in ("workload", "of", "figure", "ours", "theirs", "ratio", "goal", ""):
        table.add_column(title, justify="left" if title in {"workload", "of", "figure", ""} else "right")
    for one in comparisons:
        peer = f"{one.peer} {one.goal.workload}".strip()
        table.add_row(
            one.workload,
            one.contestant,
            one.goal.figure,
            figure_text(one.goal.figure, one.ours),
            f"{figure_text(one.goal.figure, one.theirs)} ({peer})",
            f"{one.ratio:.3f}",
            f"≤ {one.goal.ratio:g}",
            "[green]met[/]" if one.met else "[red]missed[/]",
        )
    return table


def write_json(summary: Summary, about: dict[str, str], settings: dict[str, Any], file: Path) -> None:
    """Write everything: surroundings, settings, each run, medians and spread, goals."""
    medians = {
        workload.name: {
            contestant: {
                name: spread._asdict()
                for name in summary.figures(workload.name, contestant)
                if (spread := summary.spread(workload.name, contestant, name)) is not None
            }
            for contestant in summary.contestants(workload.name)
        }
        for workload in summary.workloads
    }
    goals = [asdict(one) | {"ratio": one.ratio, "met": one.met} for one in summary.comparisons()]
    whole = {
        "about": about,
        "settings": settings,
        "others_load": summary.disturbance(),
        "summary": medians,
        "goals": goals,
        "runs": [asdict(run) for run in summary.runs],
    }
    file.write_text(json.dumps(whole, indent=1) + "\n")
