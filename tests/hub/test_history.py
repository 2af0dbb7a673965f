"""What the hub has done, and each connection, in the last ten minutes; no clock, no hub."""

from __future__ import annotations

from typing import Any

import pytest

from hub import history as history_module
from hub.history import COUNTED, FIGURES, HEIGHTS, STEP_S, Counters, Recent, Ring, Sample, merged


def sample(value: float) -> Sample:
    return Sample(*[value] * len(FIGURES))


def told(history: Ring, after: int | None = None) -> tuple[int, list[float | None]]:
    found = history.behind(after)
    assert {len(values) for values in found["figures"].values()} == {len(found["figures"]["in_messages"])}
    return found["first"], found["figures"]["in_messages"]


def test_seconds_become_points() -> None:
    history = Ring()
    for second in range(1000, 1003):
        history.add(second, sample(second))
    first, points = told(history)
    assert (first, points[-3:], set(points[:-3])) == (1002 - 599, [1000, 1001, 1002], {None})


def test_rates_have_the_mean_and_heights_the_largest() -> None:
    history = Ring(step_s=STEP_S)
    for second, value in [(10, 4), (11, 8), (12, 0)]:
        history.add(second, sample(value))
        figures = history.behind()["figures"]
    for name in FIGURES:
        assert figures[name][-1] == (8 if name in HEIGHTS else 4), name
    history.add(15, sample(1))
    assert told(history)[1][-2:] == [4, 1]


def test_seconds_that_are_missing_are_not_known() -> None:
    history = Ring()
    history.add(100, sample(3))
    history.add(104, sample(5))
    assert told(history)[1][-5:] == [3, None, None, None, 5]
    history.add(104 + 1000, sample(7))
    first, points = told(history)
    assert (first + 599, points[-1], set(points[:-1])) == (1104, 7, {None})


def test_a_clock_that_goes_back_changes_nothing() -> None:
    history = Ring()
    history.add(100, sample(3))
    history.add(90, sample(9))
    assert told(history)[1][-1] == 3


def test_what_one_has_is_left_out() -> None:
    history = Ring()
    for second in range(100, 200):
        history.add(second, sample(second))
    assert told(history, after=197) == (198, [198, 199])
    assert told(history, after=199) == (200, [])
    history.add(1_000, sample(1_000))
    assert told(history, after=5)[0] == 401


def part(first: int, *values: float | None, points: int = 60) -> dict[str, Any]:
    figures = {name: list(values) for name in FIGURES}
    return {"step_s": 1, "points": points, "first": first, "figures": figures}


def test_processes_are_added_up_by_number() -> None:
    found = merged([part(10, 1, 2, None, 3), part(11, 5, None, 7), part(0)])
    assert found["first"] == 10
    assert found["figures"]["in_messages"] == [1, 7, None, 10]
    assert found["figures"]["connections"] == [1, 7, None, 10]
    assert found["figures"]["lag_s"] == [1, 5, None, 7]


def test_processes_wait_for_each_other() -> None:
    found = merged([part(10, 1, 2, 3), part(10, 4)])
    assert (found["first"], found["figures"]["in_messages"]) == (10, [5])
    found = merged([part(11, 2, 3), part(11)])
    assert (found["first"], found["figures"]["in_messages"]) == (11, [])
    found = merged([part(10, 1, 2, 3, 4), part(10, 4)])
    assert (found["first"], found["figures"]["in_messages"]) == (10, [5, 2, 3, 4])


def counters(published: int = 0, delivered: int = 0, dropped: int = 0, queued: int = 0) -> Counters:
    return (published, delivered, dropped, 10 * delivered, queued, 100 * queued)


def mark(recent: Recent, now_s: float, **counted: Counters) -> int:
    return len(list(recent.mark(now_s, [(int(name[1:]), one) for name, one in counted.items()])))


def figures(recent: Recent, key: int) -> dict[str, list[float]]:
    found = recent.rings.behind(key)
    assert found is not None
    assert list(found["figures"]) == list(COUNTED)
    return {name: [one for one in values if one is not None] for name, values in found["figures"].items()}


def test_rates_are_those_since_the_mark_before_the_last() -> None:
    recent = Recent()
    mark(recent, 100.0, c1=counters(published=1000))
    mark(recent, 105.0, c1=counters(published=1050))
    assert recent.rates(1, 7.0, counters(published=1090), 109.0) == {
        "in_messages": 10,
        "out_messages": 0,
        "dropped_messages": 0,
        "out_bytes": 0,
        "offered_messages": 0,
    }
    mark(recent, 110.0, c1=counters(published=1090))
    told = recent.rates(1, 7.0, counters(published=1090), 113.0)
    assert told is not None
    assert told["in_messages"] == 5, "40 in the 8 seconds since the second mark"


def test_who_has_come_since_then_is_measured_from_then_on() -> None:
    recent = Recent()
    assert recent.rates(1, 50.0, counters(published=5), 50.9) is None
    told = recent.rates(1, 50.0, counters(published=10), 52.0)
    assert told is not None
    assert told["in_messages"] == 5
    mark(recent, 55.0)
    mark(recent, 60.0, c2=counters(published=1))
    told = recent.rates(2, 58.0, counters(published=12), 64.0)
    assert told is not None
    assert told["in_messages"] == 2


def test_what_comes_for_a_slow_one() -> None:
    recent = Recent()
    mark(recent, 10.0, c1=counters(delivered=100, queued=50))
    told = recent.rates(1, 0.0, counters(delivered=180, dropped=60, queued=30), 20.0)
    assert told is not None
    assert (told["out_messages"], told["dropped_messages"], told["offered_messages"]) == (8, 6, 12)
    told = recent.rates(1, 0.0, counters(delivered=90, dropped=60, queued=0), 20.0)
    assert told is not None
    assert told["out_messages"] == told["offered_messages"] == 0


def test_the_last_minutes() -> None:
    recent = Recent()
    mark(recent, 100.0, c1=counters(published=50))
    assert recent.rings.behind(1) is None
    mark(recent, 105.0, c1=counters(published=100, queued=7))
    mark(recent, 110.0, c1=counters(published=100))
    mark(recent, 120.0, c1=counters(published=300))
    found = recent.rings.behind(1)
    assert found is not None
    assert (found["step_s"], found["points"], found["first"] + 119) == (5, 120, 23)
    assert found["figures"]["in_messages"][-4:] == [10, 0, None, 20]
    assert figures(recent, 1)["queued_bytes"] == [700, 0, 0]
    mark(recent, 125.0)
    assert recent.rings.behind(1) is None, "it has left"


def test_those_that_do_most_have_a_ring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_module, "KEPT", 2)
    monkeypatch.setattr(history_module, "PART", 3)
    recent = Recent()
    names = ("c1", "c2", "c3", "c4")
    done = dict.fromkeys(names, 0)

    def step(now_s: float, **growth: int) -> list[int]:
        for name, messages in growth.items():
            done[name] += messages
        steps = mark(recent, now_s, **{name: counters(published=messages) for name, messages in done.items()})
        assert now_s == 0 or steps == 2
        return [number for number in range(1, 5) if recent.rings.behind(number) is not None]

    step(0)
    assert step(5, c1=10, c2=20, c3=30, c4=5) == [2, 3]
    assert step(10, c1=30, c2=20, c3=30) == [2, 3], "1 is not twice as busy as 2"
    assert step(15, c1=60, c2=20, c3=30) == [1, 3]
    assert figures(recent, 1)["in_messages"] == [12], "what it did before is not known any more"
