"""`Run`, and the report of the scenario: what follows from what was counted."""

from __future__ import annotations

import io
import json

import pytest
from msgspec.structs import replace
from rich.console import Console

from peers.bench.report import Environment, Report
from peers.bench.y import Asked, Mode, Run, YPlan, y_report

CPU = {"requester": 4_000, "hub": 2_000, "adding": 1_000, "multiplying": 500}


def run(elapsed_ns: int = 1_000_000, errors: dict[str, int] | None = None) -> Run:
    """A run of 1,000 pairs that took 1 to 1,000 µs each."""
    asked = Asked(pairs=1_000, elapsed_ns=elapsed_ns, **(errors or {}))  # type: ignore[arg-type]
    if asked.failed:
        asked.reasons.append("no service")
    for number in range(1, 1001):
        asked.latency.record(number * 1000)
    return Run.of(asked, CPU)


def report_of(*runs: Run, many: Run | None = None, load: float = 0.0) -> Report:
    """A report of these runs."""
    environment = Environment("now", "1", "3", "", "", "", "", 2, load)
    by_mode: dict[Mode, list[Run]] = {"one": list(runs)}
    return y_report(YPlan(), environment, by_mode | ({"many": [many]} if many is not None else {}))


def shown(found: Report) -> str:
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


@pytest.mark.parametrize("error", ["wrong", "failed", "lost"])
def test_an_error_is_a_flaw_and_no_pair(error: str) -> None:
    """The rate is of right results only."""
    one = run(errors={error: 250})
    assert not one.flawless
    assert one.pairs_per_s == pytest.approx(750_000)
    found = report_of(run(), one)
    assert not found.flawless
    assert [line.split()[-1] for line in shown(found).splitlines() if line.startswith(error)] == ["250"]


def test_reasons_of_failures_are_told() -> None:
    """With the mode that they are of, each once."""
    assert report_of(run(errors={"failed": 1}), run(errors={"failed": 2}), many=run()).remarks == [
        "one at a time: no service"
    ]


def test_the_table_has_medians_and_extremes() -> None:
    """A column for each mode."""
    runs = [run(elapsed_ns=elapsed_ns) for elapsed_ns in (1_000_000, 2_000_000, 4_000_000)]
    text = shown(report_of(*runs, many=run()))
    rows = {line.split("pairs/s")[0].strip(): line.split()[-2:] for line in text.splitlines()}
    assert rows["pairs"] == ["500,000", "1,000,000"]
    assert rows["pairs, lowest"] == ["250,000", "1,000,000"]
    assert rows["pairs, highest"] == ["1,000,000", "1,000,000"]
    assert "1,024 outstanding" in text


def test_other_work_is_told() -> None:
    """Rates then are not what they could be."""
    assert report_of(run()).remarks == []
    assert "the machine had other work" in report_of(run(), load=3.0).remarks[0]


def test_json_has_each_run_and_the_medians() -> None:
    """For programs; the same numbers."""
    document = json.loads(report_of(run(), run(elapsed_ns=2_000_000), run(elapsed_ns=3_000_000)).json())
    assert document["benchmark"] == "y"
    assert document["flawless"] is True
    assert len(document["runs"]["one"]) == 3
    assert document["median"]["one"]["pairs_per_s"] == pytest.approx(500_000)


def test_a_hub_whose_process_is_not_known() -> None:
    """Its CPU is left out, and a remark says why."""
    found = report_of(replace(run(), hub_ns=0.0))
    assert [line.split() for line in shown(found).splitlines() if line.startswith("hub")] == [
        ["hub's", "CPU", "ns/pair"]
    ]
    assert "--hub-pid tells it" in found.remarks[0]
