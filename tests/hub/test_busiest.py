"""The sketch of the busiest topics, against a model that forgets nothing."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.busiest import FADE_S, Busiest, Topic

events = st.lists(
    st.one_of(
        st.tuples(st.sampled_from("abcdefghijkl"), st.floats(0.5, 1000)),
        st.tuples(st.just(""), st.floats(0, 40)),
    ),
    max_size=120,
)
"""Topics that bring something, and times that pass."""


def nobody(_: Topic) -> None:
    """Hear of a topic that has lost its place."""


class Model:
    """What every topic has brought, faded to the end."""

    def __init__(self) -> None:
        self.brought: list[tuple[str, float, float]] = []
        self.now_s = 0.0

    def faded(self, topic: str | None = None) -> float:
        """Return what one topic, or all together, weigh now."""
        return sum(
            amount * math.exp(-(self.now_s - at_s) / FADE_S)
            for name, amount, at_s in self.brought
            if topic in (None, name)
        )


def told(places: int, history: list[tuple[str, float]]) -> tuple[Busiest, Model]:
    """Tell a sketch and a model the same."""
    busiest, model = Busiest(places, nobody), Model()
    busiest.tick(0.0)
    for topic, amount in history:
        if topic:
            busiest.add(busiest.get(topic), amount, 10 * amount)
            model.brought.append((topic, amount, model.now_s))
        else:
            model.now_s += amount
            busiest.tick(model.now_s)
    return busiest, model


@given(history=events, places=st.integers(1, 12))
def test_a_weight_is_never_too_small_and_little_too_large(history: list[tuple[str, float]], places: int) -> None:
    """It is at most `excess` too large, and that at most what all have brought, divided by the places."""
    busiest, model = told(places, history)
    whole = model.faded()
    unit = busiest._growth / math.exp(0.5 / FADE_S)  # what a message of now weighs, at the middle of its second
    assert len(busiest) <= places
    for topic in busiest:
        weight, excess = topic.weight / unit / math.exp(0.5 / FADE_S), topic.excess / unit / math.exp(0.5 / FADE_S)
        brought = model.faded(topic.name)
        slack = 1e-6 * (1 + whole)
        assert brought - slack <= weight <= brought + excess + slack
        assert excess <= whole / places + slack


@given(history=events, places=st.integers(1, 12))
def test_whatever_brings_more_than_its_part_is_kept(history: list[tuple[str, float]], places: int) -> None:
    """More than all, divided by the places."""
    busiest, model = told(places, history)
    kept = {topic.name for topic in busiest}
    whole = model.faded()
    for name in {name for name, _, _ in model.brought}:
        assert name in kept or model.faded(name) <= whole / places * (1 + 1e-6) + 1e-9


@given(history=events, places=st.integers(1, 6), processes=st.integers(1, 4), seed=st.integers(0, 9))
def test_what_several_sketches_say_together(
    history: list[tuple[str, float]], places: int, processes: int, seed: int
) -> None:
    """Added up, a topic weighs too much by its excess at most, and too little by what is not kept; both are bounded."""
    rest = [*history]
    Random(seed).shuffle(rest)  # noqa: S311 -- a test
    told_each = [told(places, rest[number::processes]) for number in range(processes)]
    now_s = max(model.now_s for _, model in told_each)
    for busiest, model in told_each:
        model.now_s = now_s
        busiest.tick(now_s)
    whole = sum(model.faded() for _, model in told_each)
    slack = 1e-6 * (1 + whole)
    units = [1 / busiest._growth for busiest, _ in told_each]
    unknown = sum(
        busiest.unkept_rate(now_s) / busiest._per_s(now_s, busiest._began_s) * unit
        for (busiest, _), unit in zip(told_each, units, strict=True)
    )
    assert unknown <= whole / places + slack
    for name in "abcdefghijkl":
        brought = sum(model.faded(name) for _, model in told_each)
        kept = [
            (topic.weight * unit, topic.excess * unit)
            for (busiest, _), unit in zip(told_each, units, strict=True)
            for topic in busiest
            if topic.name == name
        ]
        weight, excess = (sum(column) for column in zip(*kept, strict=True)) if kept else (0.0, 0.0)
        assert weight - excess - slack <= brought <= weight + unknown + slack
        assert excess <= whole / places + slack


@given(history=events, later=events, left=st.integers(0, 12))
def test_places_that_are_taken_away(
    history: list[tuple[str, float]], later: list[tuple[str, float]], left: int
) -> None:
    """The quietest go; what is said of the others, and of those that come again, is as true as before."""
    busiest, model = told(12, history)
    quietest = sorted(busiest, key=lambda topic: topic.weight)[: max(0, len(busiest) - left)]
    forgotten = busiest.forgotten_total
    busiest.forget(len(quietest))
    assert not set(quietest) & set(busiest)
    assert busiest.places == max(1, len(busiest))
    assert busiest.forgotten_total == forgotten + len(quietest)
    for topic, amount in later:
        if topic:
            busiest.add(busiest.get(topic), amount, 0)
            model.brought.append((topic, amount, model.now_s))
        else:
            model.now_s += amount
            busiest.tick(model.now_s)
            busiest.places = min(12, busiest.places + 1)
    unit = busiest._growth
    slack = 1e-6 * (1 + model.faded())
    kept = {topic.name: topic for topic in busiest}
    unknown = busiest.unkept_rate(model.now_s) / busiest._per_s(model.now_s, busiest._began_s) / unit
    for name in "abcdefghijkl":
        brought, found = model.faded(name), kept.get(name)
        if found is None:
            assert brought <= unknown + slack
        else:
            assert (found.weight - found.excess) / unit - slack <= brought <= found.weight / unit + slack


def test_what_is_not_kept_brings_nothing_while_there_are_places() -> None:
    """Only where places are taken something may be missing: at most what the quietest topic brings."""
    busiest = Busiest(2, nobody)
    busiest.tick(0.0)
    busiest.add(busiest.get("/a"), 100, 0)
    assert busiest.unkept_rate(1.0) == 0
    busiest.add(busiest.get("/b"), 10, 0)
    busiest.add(busiest.get("/b"), 10, 0)
    assert busiest.unkept_rate(1.0) == pytest.approx(20, rel=0.06)


@pytest.mark.parametrize("seconds", [1, 3, 30, 300, 5_000])
def test_a_steady_rate_is_told_from_the_first_second_on(seconds: int) -> None:
    """However long it lasts, the scaling down of weights included, and at whatever part of a second it is asked for."""
    busiest = Busiest(8, nobody)
    busiest.tick(100.0)
    for second in range(seconds):
        busiest.add(busiest.get("/a"), 50, 5_000)
        busiest.add(busiest.get("/b"), 1, 10)
        busiest.tick(101.0 + second)
    topics = {topic.name: topic for topic in busiest}
    now_s = 100.0 + seconds
    messages_per_s, bytes_per_s, excess_per_s = busiest.rates(topics["/a"], now_s)
    assert messages_per_s == pytest.approx(50, rel=0.01)
    assert bytes_per_s == pytest.approx(5_000, rel=0.01)
    assert excess_per_s == 0
    assert busiest.whole_rate(now_s) == pytest.approx(51, rel=0.01)
    assert (topics["/a"].messages, topics["/b"].bytes) == (50 * seconds, 10 * seconds)


def test_a_rate_fades() -> None:
    """After ten seconds of silence to a third, after a day to nothing; what was counted stays."""
    busiest = Busiest(8, nobody)
    busiest.tick(0.0)
    for second in range(100):
        busiest.add(busiest.get("/a"), 100, 100)
        busiest.tick(second + 1.0)
    (topic,) = busiest
    busiest.tick(110.0)
    assert busiest.rates(topic, 110.0)[0] == pytest.approx(100 / math.e, rel=0.01)
    busiest.tick(86_400.0)
    assert busiest.rates(topic, 86_400.0)[0] < 1e-9
    busiest.add(topic, 5, 5)
    busiest.tick(86_401.0)
    assert 0.4 < busiest.rates(topic, 86_401.0)[0] < 0.6
    assert topic.messages == 10_005


def test_the_quietest_gives_way() -> None:
    """To a new topic, which may look as busy as that one was; whoever is told forgets it, too."""
    forgotten: list[str] = []
    busiest = Busiest(2, lambda topic: forgotten.append(topic.name))
    busiest.tick(0.0)
    for name, messages in [("/a", 5), ("/b", 3), ("/a", 1), ("/c", 1)]:
        busiest.add(busiest.get(name), messages, 0)
    assert forgotten == ["/b"]
    assert busiest.forgotten_total == 1
    rates = {topic.name: busiest.rates(topic, 1.0) for topic in busiest}
    assert rates["/c"][0] == pytest.approx(4 / 6 * rates["/a"][0])
    assert rates["/c"][2] == pytest.approx(3 / 6 * rates["/a"][0])
