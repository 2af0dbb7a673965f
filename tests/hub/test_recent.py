"""What each connection does, and has done lately; no clock, no hub."""

from __future__ import annotations

from typing import Any

import pytest

from hub import recent as recent_module
from hub.recent import COUNTED, Counters, Recent, Rings


def counters(published: int = 0, delivered: int = 0, dropped: int = 0, queued: int = 0) -> Counters:
    """What a connection has counted."""
    return (published, delivered, dropped, 10 * delivered, queued, 100 * queued)


def mark(recent: Recent, now_s: float, **counted: Counters) -> int:
    """Mark connections, called `c1` and so on; return how many steps that took."""
    return len(list(recent.mark(now_s, [(int(name[1:]), one) for name, one in counted.items()])))


def figures(recent: Recent, key: int) -> dict[str, list[float]]:
    """The points of a connection that are known."""
    found = recent.rings.behind(key)
    assert found is not None
    assert list(found["figures"]) == list(COUNTED)
    return {name: [one for one in values if one is not None] for name, values in found["figures"].items()}


def test_rates_are_those_since_the_mark_before_the_last() -> None:
    """So there are always 5 to 10 seconds in them, from the first look of a page on."""
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
    """Also before any mark; in its first second nothing is told of it."""
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
    """It was delivered, was lost, or waits now; less was delivered than before where what waits is dropped."""
    recent = Recent()
    mark(recent, 10.0, c1=counters(delivered=100, queued=50))
    told = recent.rates(1, 0.0, counters(delivered=180, dropped=60, queued=30), 20.0)
    assert told is not None
    assert (told["out_messages"], told["dropped_messages"], told["offered_messages"]) == (8, 6, 12)
    told = recent.rates(1, 0.0, counters(delivered=90, dropped=60, queued=0), 20.0)
    assert told is not None
    assert told["out_messages"] == told["offered_messages"] == 0


def test_the_last_minutes() -> None:
    """A point for each mark: counters a second, and how much waited then; what was not marked is not known."""
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
    """Where there are too many; two that are nearly alike do not take turns. All are looked at in steps."""
    monkeypatch.setattr(recent_module, "KEPT", 2)
    monkeypatch.setattr(recent_module, "PART", 3)
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


def test_topics_have_rings_of_their_own_figures() -> None:
    """What is kept of each is worked out for the busiest alone."""
    rings: Rings[str] = Rings(("in_messages", "in_bytes"))
    made: list[Any] = []

    def values(one: float) -> list[float]:
        made.append(one)
        return [one, 10 * one]

    for _ in rings.add(4, [(2.5, "/a", 2.5)], values):
        pass
    found = rings.behind("/a")
    assert found is not None
    assert {name: points[-1] for name, points in found["figures"].items()} == {"in_messages": 2.5, "in_bytes": 25}
    assert made == [2.5]
