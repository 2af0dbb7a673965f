"""Goals: reached or not, by the median and by nothing else being wrong."""

from __future__ import annotations

import json
import math

from hub.overflow import Overflow
from peers.bench.environment import Environment
from peers.bench.plan import Plan
from peers.bench.report import Report
from tests.benchmarks.goals.figure import Figure, figures_report
from tests.benchmarks.goals.stalled import account_faults
from tests.benchmarks.goals.stalled_readers import Account, Gap


def report_of(*figures: Figure) -> Report:
    """A report of these figures."""
    return figures_report(Environment.here(), Plan(), list(figures), [])


def test_the_median_decides() -> None:
    """At most, or at least."""
    assert Figure("a", 5, "µs", [9, 4, 5]).reached
    assert not Figure("a", 5, "µs", [4, 6, 6]).reached
    assert Figure("a", 95, "%", [94, 96, 97], at_least=True).reached
    assert not Figure("a", 95, "%", [94, 94, 97], at_least=True).reached


def test_a_fault_is_not_outweighed() -> None:
    """A fast hub that loses messages has reached nothing."""
    assert not Figure("a", 5, "µs", [1], faults=["lost"]).reached


def test_what_could_not_be_measured_is_not_reached() -> None:
    """And has no number, also in JSON."""
    figure = Figure("a", math.nan, "", [], faults=["not measured: because"])
    assert not figure.reached
    assert math.isnan(figure.measured)
    document = json.loads(report_of(figure).json())
    assert document["figures"][0]["measured"] is None


def test_table_and_json() -> None:
    """Goal, median, lowest and highest, and the verdict."""
    figures = report_of(Figure("a name", 0.4, "µs", [0.3, 0.1, 0.2]), Figure("b", 1, "s", [2]))
    document = json.loads(figures.json())
    assert document["benchmark"] == "targets"
    assert document["figures"][0] == {
        "name": "a name",
        "goal": 0.4,
        "unit": "µs",
        "values": [0.3, 0.1, 0.2],
        "at_least": False,
        "faults": [],
        "remark": "",
        "measured": 0.2,
        "reached": True,
    }
    assert document["figures"][1]["reached"] is False
    assert [str(cell) for cell in figures.table().columns[2].cells] == ["≤ 0.400", "≤ 1.00"]
    assert [str(cell) for cell in figures.table().columns[-1].cells] == ["ok", "not reached"]


def account(first: int, missing: int, **fields: object) -> Account:
    """What a subscriber has that got all of 1,000 messages but some."""
    return Account(
        received=1000 - missing,
        lost=missing,
        gaps=[Gap(first, missing)],
        **fields,  # type: ignore[arg-type]
    )


def test_the_newest_of_drop_oldest() -> None:
    """One gap, and behind it exactly what the queue holds."""
    assert not account_faults(account(300, 600, told=600), Overflow.DROP_OLDEST, 1000, 100)
    assert account_faults(account(300, 601, told=601), Overflow.DROP_OLDEST, 1000, 100)
    assert account_faults(account(300, 600, told=599), Overflow.DROP_OLDEST, 1000, 100)


def test_the_oldest_of_drop_newest() -> None:
    """Nothing is missing before the end."""
    assert not account_faults(account(400, 600, told=600), Overflow.DROP_NEWEST, 1000, 100)
    assert account_faults(account(399, 600, told=600), Overflow.DROP_NEWEST, 1000, 100)
    two = Account(received=998, lost=2, told=2, gaps=[Gap(5, 1), Gap(999, 1)])
    assert account_faults(two, Overflow.DROP_NEWEST, 1000, 100)


def test_the_reason_of_disconnect() -> None:
    """Close code 4008, and a number that can be."""
    said = "queue full (100 messages, 9 bytes), 120 messages lost: read faster (4008)"
    assert not account_faults(account(400, 600, closed=said), Overflow.DISCONNECT, 1000, 100)
    assert account_faults(account(400, 600, closed="reset"), Overflow.DISCONNECT, 1000, 100)
    assert account_faults(account(400, 600, closed=said.replace("120", "601")), Overflow.DISCONNECT, 1000, 100)
    assert account_faults(account(400, 600, closed=said, told=600), Overflow.DROP_NEWEST, 1000, 100)
