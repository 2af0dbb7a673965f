"""The tables of docs/performance.md: medians with their spread, our ratio to the best peer, goals, surroundings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from report import figure_text
from summary import Summary, ours
from workloads import Workload

__all__ = ["write_markdown"]

_TABLES: tuple[tuple[str, str], ...] = (
    ("cpu_us", "µs of server CPU a delivered message"),
    ("p50_us", "latency p50, µs"),
    ("p99_us", "latency p99, µs"),
    ("connection_bytes", "memory of a connection, bytes"),
    ("subscription_bytes", "memory of a subscription, bytes"),
)


def write_markdown(summary: Summary, about: dict[str, str], file: Path) -> None:
    """Write the file."""
    parts = [_table(summary, figure, heading) for figure, heading in _TABLES]
    parts.append(_goals(summary))
    parts.append("".join(f"* {name}: {text}\n" for name, text in about.items()))
    file.write_text("\n".join(part for part in parts if part))


def _table(summary: Summary, figure: str, heading: str) -> str:
    workloads = [workload for workload in summary.workloads if any(_measured(summary, workload, figure))]
    if not workloads:
        return ""
    present = {name for workload in workloads for name in _measured(summary, workload, figure)}
    order = dict.fromkeys(name for workload in summary.workloads for name in summary.contestants(workload.name))
    contestants = [name for name in order if name in present]
    head = _row([heading, *contestants, "hub ÷ best peer"]) + _row(["---"] * (len(contestants) + 2))
    return head + "".join(_row(_cells(summary, workload, figure, contestants)) for workload in workloads)


def _measured(summary: Summary, workload: Workload, figure: str) -> Iterator[str]:
    for name in summary.contestants(workload.name):
        if summary.spread(workload.name, name, figure) is not None:
            yield name


def _cells(summary: Summary, workload: Workload, figure: str, contestants: Sequence[str]) -> list[str]:
    cells = [workload.title]
    for name in contestants:
        spread = summary.spread(workload.name, name, figure)
        if spread is None:
            cells.append("")
            continue
        text = figure_text(figure, spread.median)
        bold = f"**{text}**" if ours(name) else text
        cells.append(f"{bold} ({figure_text(figure, spread.least)} to {figure_text(figure, spread.most)})")
    best = summary.spread(workload.name, summary.best_peer(workload.name, figure), figure)
    mine = summary.spread(workload.name, "hub", figure)
    cells.append(f"{mine.median / best.median:.2f}" if mine is not None and best is not None else "")
    return cells


def _goals(summary: Summary) -> str:
    comparisons = summary.comparisons()
    if not comparisons:
        return ""
    titles = {workload.name: workload.title for workload in summary.workloads}
    rows = [
        _row(
            [
                titles[one.workload] + (" (batches)" if one.contestant != "hub" else ""),
                one.goal.figure.removesuffix("_us"),
                f"≤ {one.goal.ratio:g} of {one.peer} {one.goal.workload}".rstrip(),
                f"{one.ratio:.3f}",
                "" if one.met else "**missed**",
            ]
        )
        for one in comparisons
    ]
    return _row(["goal", "figure", "at most", "ratio", ""]) + _row(["---"] * 5) + "".join(rows)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |\n"
