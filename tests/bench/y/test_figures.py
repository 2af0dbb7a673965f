"""`Run` and `Figures`: what follows from what was counted."""

from __future__ import annotations

import io
import json

import pytest
from msgspec.structs import replace
from rich.console import Console

from peers.bench.environment import Environment
from peers.bench.histogram import Histogram
from peers.bench.orders import Asked
from peers.bench.y.figures import Figures, Run
from peers.bench.y.operation import Mode
from peers.bench.y.plan import Plan

CPU = {"requester": 4_000, "hub": 2_000, "adding": 1_000, "multiplying": 500, "machine": 27_500}


def run(mode: Mode = "one", elapsed_ns: int = 1_000_000, errors: dict[str, int] | None = None) -> Run:
    """A run of 1,000 pairs that took 1 to 1,000 µs each."""
    latency = Histogram()
    for number in range(1, 1001):
        latency.record(number * 1000)
    counts = {"wrong": 0, "failed": 0, "lost": 0} | (errors or {})
    asked = Asked(
        pairs=1_000,
        wrong=counts["wrong"],
        failed=counts["failed"],
        lost=counts["lost"],
        reasons=["no service"] if counts["failed"] else [],
        elapsed_ns=elapsed_ns,
        latency=latency.dump(),
    )
    return Run.of(mode, asked, CPU)


def figures(*runs: Run) -> Figures:
    """Figures of these runs."""
    environment = Environment("now", "1", "3", "", compiled=True, kernel="", cpu="", cpus=2, load=0.0)
    by_mode: dict[Mode, list[Run]] = {}
    for one in runs:
        by_mode.setdefault(one.mode, []).append(one)
    return Figures(Plan(), environment, by_mode)


def shown(found: Figures) -> str:
    """The table as it is printed."""
    output = io.StringIO()
    Console(file=output, width=200).print(found.table())
    return output.getvalue()


def test_a_run() -> None:
    """Rate, percentiles, and what each process was charged for a pair."""
    one = run()
    assert one.flawless
    assert one.pairs_per_s == pytest.approx(1_000_000)
    assert one.p50_us == pytest.approx(500, rel=0.01)
    assert one.p99_us == pytest.approx(990, rel=0.01)
    assert (one.requester_ns, one.hub_ns, one.adding_ns, one.multiplying_ns) == (4, 2, 1, 0.5)
    assert one.all_ns == 7.5
    assert one.others_percent == pytest.approx(2.0)


@pytest.mark.parametrize("error", ["wrong", "failed", "lost"])
def test_an_error_is_a_flaw_and_no_pair(error: str) -> None:
    """The rate is of right results only."""
    one = run(errors={error: 250})
    assert not one.flawless
    assert one.pairs_per_s == pytest.approx(750_000)
    found = figures(run(), one)
    assert not found.flawless
    assert [line.split()[-1] for line in shown(found).splitlines() if line.startswith(error)] == ["250"]


def test_reasons_of_failures_are_told() -> None:
    """With the mode that they are of, each once."""
    assert figures(run(errors={"failed": 1}), run(errors={"failed": 2}), run("many")).remarks() == [
        "one at a time: no service"
    ]


def test_the_table_has_medians_and_extremes() -> None:
    """A column for each mode."""
    runs = [run(elapsed_ns=elapsed_ns) for elapsed_ns in (1_000_000, 2_000_000, 4_000_000)]
    text = shown(figures(*runs, run("many")))
    rows = {line.split("pairs/s")[0].strip(): line.split()[-2:] for line in text.splitlines()}
    assert rows["pairs"] == ["500,000", "1,000,000"]
    assert rows["pairs, lowest"] == ["250,000", "1,000,000"]
    assert rows["pairs, highest"] == ["1,000,000", "1,000,000"]
    assert "1,024 outstanding" in text


def test_other_work_is_told() -> None:
    """Rates then are not what they could be."""
    assert figures(run()).remarks() == []
    assert "the machine had other work" in figures(replace(run(), others_percent=50.0)).remarks()[0]


def test_json_has_each_run_and_the_medians() -> None:
    """For programs; the same numbers."""
    document = json.loads(figures(run(), run(elapsed_ns=2_000_000), run(elapsed_ns=3_000_000)).json())
    assert document["benchmark"] == "y"
    assert document["flawless"] is True
    assert len(document["runs"]["one"]) == 3
    assert document["median"]["one"]["pairs_per_s"] == pytest.approx(500_000)


def test_a_hub_whose_process_is_not_known() -> None:
    """Its CPU is left out, and a remark says why."""
    found = figures(replace(run(), hub_ns=0.0))
    assert [line.split() for line in shown(found).splitlines() if line.startswith("hub")] == [
        ["hub's", "CPU", "ns/pair"]
    ]
    assert "--hub-pid tells it" in found.remarks()[0]
