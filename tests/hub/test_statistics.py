"""What is counted: histograms, the last minutes, losses, and how a hub does in one sentence."""

from __future__ import annotations

from collections import Counter
from itertools import accumulate
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.handlers.counters import Histogram
from hub.handlers.delivery import Role
from hub.handlers.handler import Handler
from hub.labels.envelope import key_of
from hub.limits import QueueLimits
from hub.messages.batch import Batch
from hub.messages.frame import KIND_MESSAGES, encode_frame
from hub.scheduling.memory import Memory
from hub.statistics import history as history_module
from hub.statistics import topic_rates
from hub.statistics.history import COUNTED, FIGURES, HEIGHTS, STEP_S, Counters, Recent, Ring, Sample, merged
from hub.statistics.losses import KEPT, NAMED, Losers, Loss, Losses, State, droppers_of, sentence
from hub.statistics.topic_rates import KEPT_TOPICS, TOPICS, WORK_PER_S, Others, Rate, TopicRates, first_of, nodes_under
from tests.hub.fakes import FakeOutlet, frame, nasty_texts


def sample(value: float) -> Sample:
    return Sample(*[value] * len(FIGURES))


def told(history: Ring, after: int | None = None) -> tuple[int, list[float | None]]:
    found = history.behind(after)
    assert {len(values) for values in found["figures"].values()} == {len(found["figures"]["in_messages"])}
    return found["first"], found["figures"]["in_messages"]


def test_a_ring() -> None:
    history = Ring(step_s=STEP_S)
    for second, value in [(10, 4), (11, 8), (12, 0)]:
        history.add(second, sample(value))
        figures = history.behind()["figures"]
    for name in FIGURES:
        assert figures[name][-1] == (8 if name in HEIGHTS else 4), "rates have the mean, and heights the largest"
    history.add(15, sample(1))
    history.add(12, sample(9))  # the clock went back
    assert told(history)[1][-2:] == [4, 1]
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
    added, largest = [1, 7, None, 10], [1, 5, None, 7]
    assert found["first"] == 10
    assert [found["figures"][name] for name in ("in_messages", "connections", "lag_s")] == [added, added, largest]
    for parts, first, values in (  # they wait for each other
        ([part(10, 1, 2, 3), part(10, 4)], 10, [5]),
        ([part(11, 2, 3), part(11)], 11, []),
        ([part(10, 1, 2, 3, 4), part(10, 4)], 10, [5, 2, 3, 4]),
    ):
        found = merged(parts)
        assert (found["first"], found["figures"]["in_messages"]) == (first, values)


def counters(published: int = 0, delivered: int = 0, dropped: int = 0, queued: int = 0) -> Counters:
    return (published, delivered, dropped, 10 * delivered, queued, 100 * queued)


def mark(recent: Recent, now_s: float, **counted: Counters) -> int:
    return len(list(recent.mark(now_s, [(int(name[1:]), one) for name, one in counted.items()])))


def figures(recent: Recent, key: int) -> dict[str, list[float]]:
    found = recent.rings.behind(key)
    assert found is not None
    assert list(found["figures"]) == list(COUNTED)
    return {name: [one for one in values if one is not None] for name, values in found["figures"].items()}


def rates_of(recent: Recent, key: int, since_s: float, counted: Counters, now_s: float) -> dict[str, float]:
    told = recent.rates(key, since_s, counted, now_s)
    assert told is not None
    return told


def test_who_has_come_since_then_is_measured_from_then_on() -> None:
    recent = Recent()
    assert recent.rates(1, 50.0, counters(published=5), 50.9) is None
    assert rates_of(recent, 1, 50.0, counters(published=10), 52.0)["in_messages"] == 5
    mark(recent, 55.0)
    mark(recent, 60.0, c2=counters(published=1))
    assert rates_of(recent, 2, 58.0, counters(published=12), 64.0)["in_messages"] == 2


def test_what_comes_for_a_slow_one() -> None:
    recent = Recent()
    mark(recent, 10.0, c1=counters(delivered=100, queued=50))
    told = rates_of(recent, 1, 0.0, counters(delivered=180, dropped=60, queued=30), 20.0)
    assert (told["out_messages"], told["dropped_messages"], told["offered_messages"]) == (8, 6, 12)
    told = rates_of(recent, 1, 0.0, counters(delivered=90, dropped=60, queued=0), 20.0)
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
    assert step(10, c1=40, c2=20, c3=30) == [2, 3], "1 is not more than twice as busy as 2"
    assert step(15, c1=42, c2=20, c3=30) == [1, 3]
    assert figures(recent, 1)["in_messages"] == [8.4], "what it did before is not known any more"


@given(st.lists(st.integers(-5, 30)), st.lists(st.integers(0, 20), unique=True).map(sorted))
def test_nothing_is_lost(values: list[int], bounds: list[int]) -> None:
    histogram = Histogram(tuple(bounds))
    for value in values:
        histogram.observe(value)
    counted = histogram.statistics()
    assert sum(counted.counts) == len(values)
    for bound, so_far in zip(bounds, accumulate(counted.counts), strict=False):
        assert so_far == sum(value <= bound for value in values)
    assert counted.total == sum(values)


def loss(second: int, number: int = 1, messages: int = 1, label: str = "") -> Loss:
    return Loss(second, number, label or f"n{number}", messages, "drop-oldest")


def losses_of(*some: Loss) -> Losses:
    losses = Losses()
    for one in some:
        losses.add(one)
    return losses


def test_losses_of_a_minute_are_added_up() -> None:
    some = losses_of(loss(100, 1, 5), loss(101, 1, 6), loss(130, 2, 7), loss(159, 1, 1))
    assert some.minute(159) == (19, {1: 12, 2: 7}, {1: "n1", 2: "n2"}, 0)
    older = losses_of(loss(100, 1, 5), loss(130, 2, 7))
    assert older.minute(155).named == {1: 5, 2: 7}
    assert older.minute(160) == (7, {2: 7}, {2: "n2"}, 0)
    assert older.minute(1000) == (0, {}, {}, 0)
    many = losses_of(*(loss(second, number, 102 - second) for number in range(NAMED + 10) for second in (100, 101)))
    found = many.minute(101)
    assert (found.messages, len(found.named), found.others) == (3 * (NAMED + 10), NAMED, 30)


def test_the_last_losses_are_told_newest_first() -> None:
    losses = losses_of(*(loss(second, second % 2) for second in range(KEPT + 5)))
    assert [one.second for one in losses.last(limit=3)] == [KEPT + 4, KEPT + 3, KEPT + 2]
    assert [one.second for one in losses.last(1, 2)] == [KEPT + 3, KEPT + 1]
    assert (len(losses.last()), losses.last(limit=0), losses.last(4711)) == (KEPT, [], [])


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (State(), "There are no subscribers, nothing was dropped in the last minute."),
        (State(2, 1), "The only subscriber keeps up, nothing was dropped in the last minute."),
        (State(2, 1, 1), "The only subscriber is slow, nothing was dropped in the last minute."),
        (State(3000, 2140), "All 2,140 subscribers keep up, nothing was dropped in the last minute."),
        (State(300, 214, 1), "1 of 214 subscribers is slow, nothing was dropped in the last minute."),
        (
            State(300, 214, 3, 12_400, (("sensor-7", 12_400),), 1),
            "3 of 214 subscribers are slow, 12,400 messages were dropped in the last minute, all by `sensor-7`.",
        ),
        (
            State(300, 214, 3, 1, (("sensor-7", 1),), 1),
            "3 of 214 subscribers are slow, 1 message was dropped in the last minute, by `sensor-7`.",
        ),
        (
            State(300, 214, 3, 100, (("a", 50), ("b", 30), ("c", 20)), 3, (4,)),
            "3 of 214 subscribers are slow, 100 messages were dropped in the last minute, most of them by `a`.",
        ),
        (
            State(300, 214, 3, 100, (("a", 40), ("b", 35), ("c", 25)), 3),
            "3 of 214 subscribers are slow, 100 messages were dropped in the last minute by 3 of them, most by `a`.",
        ),
        (State(300, 214, 0, 7, (), 1), "All 214 subscribers keep up, 7 messages were dropped in the last minute."),
        (
            State(1, 1, troubles=("the journal cannot be written: disk full", "memory is short")),
            (
                "The journal cannot be written: disk full. Memory is short. "
                "The only subscriber keeps up, nothing was dropped in the last minute."
            ),
        ),
    ],
)
def test_the_sentence(state: State, text: str) -> None:
    assert sentence(state) == text
    assert state.fields()["text"] == text
    assert State.of(state.fields()) == state


def test_hostile_names() -> None:
    names = {"Küche": "Küche", "a\nb\x1b[31m": "a\\nb\\x1b[31m", "\u202etxt": "\\u202etxt", "`": "`"}
    for label, shown in names.items():
        assert sentence(State(9, 9, 1, 5, ((label, 5),), 1)).endswith(f"all by `{shown}`.")


def test_processes_are_put_together() -> None:
    one = State(10, 5, 1, 30, (("a", 20), ("b", 10)), 2, (4,), ("the hub is stopping",))
    other = State(1, 1, 1, 15, (("b", 15),), 1, (7,), ("the hub is stopping",))
    assert one.plus(other) == State(11, 6, 2, 45, (("b", 25), ("a", 20)), 3, (4, 7), ("the hub is stopping",))


def test_who_has_lost_what() -> None:
    by, droppers = droppers_of(Losers(30, {1: 5, 2: 8, 3: 7}, {1: "a", 2: "b", 3: "a"}, 10))
    assert by == (("a", 12), ("b", 8))
    assert droppers == 4


def source() -> Handler:
    return Handler(FakeOutlet(), role=Role.CLIENT, limits=QueueLimits())


def sampled(seed: int = 1) -> TopicRates:
    return TopicRates(draw=Random(seed).random)  # noqa: S311 -- a test


def publish(counted: TopicRates, handler: Handler, *parts: tuple[str, int]) -> None:
    messages = sum(count for _, count in parts)
    batch = Batch(b"".join(frame([1] * count, topic=topic) for topic, count in parts), messages)
    handler.published_messages += messages
    if handler.published_messages >= handler.look_at:
        counted.look(handler, batch)


def messages_of(counted: TopicRates) -> dict[str, float]:
    return {one.name: one.messages + one.new_messages for one in counted}


parts = st.lists(st.tuples(st.sampled_from(["/a", "/b", "/b/c", "/ü"]), st.integers(1, 9)), min_size=1, max_size=9)


@given(st.lists(parts, max_size=9))
def test_few_messages_are_counted_exactly(reads: list[list[tuple[str, int]]]) -> None:
    counted, handler, expected = sampled(), source(), Counter[str]()
    for read in reads:
        publish(counted, handler, *read)
        for topic, count in read:
            expected[topic] += count
    assert messages_of(counted) == expected


def test_rates() -> None:
    counted, handler = sampled(), source()
    for second in range(8):
        counted.tick(second, [handler])
        publish(counted, handler, ("/a", 4))
    counted.tick(8, [handler])
    (one,) = counted
    assert (one.messages_per_s, one.bytes_per_s, one.messages) == (4, 4 * len(frame([1] * 4, topic="/a")) / 4, 32)
    for second in range(9, 60):
        counted.tick(second, [handler])
    assert 0 < one.messages_per_s < 0.1


@pytest.mark.parametrize("big", [1, 50])
def test_many_messages_are_estimated(big: int) -> None:
    counted, handler, published = sampled(), source(), Counter[str]()
    turns = Random(2)  # noqa: S311 -- a test
    counted.tick(0, [handler])
    for second in range(1, 13):
        for _ in range(4_000):
            topic, count = ("/big", big) if turns.random() < 0.3 else (f"/small/{turns.randrange(3)}", 1)
            publish(counted, handler, (topic, count))
            published[topic] += count
        assert counted._work < 4 * WORK_PER_S
        counted.tick(second, [handler])
    assert counted.every > 1
    estimated = messages_of(counted)
    assert estimated.keys() == published.keys()
    for topic, messages in published.items():
        assert 0.6 * messages < estimated[topic] < 1.5 * messages


def test_a_flood_that_is_over_hides_nothing() -> None:
    counted, flood, quiet = sampled(), source(), source()
    for _ in range(5_000):
        publish(counted, flood, ("/flood", 1))
    publish(counted, quiet, ("/quiet", 1))
    assert counted.every > 1
    for second in range(1, 30):
        counted.tick(second, [flood, quiet])
    before = messages_of(counted).get("/quiet", 0.0)
    for _ in range(3):
        publish(counted, quiet, ("/quiet", 1))
    assert messages_of(counted)["/quiet"] - before >= 3


def test_what_another_process_passes_on_is_counted_there() -> None:
    counted, inner = sampled(), source()
    inner.is_inner = True
    for _ in range(3):
        publish(counted, inner, ("/a", 1))
    assert messages_of(counted) == {}


def test_the_quietest_topics_lose_their_counters() -> None:
    memory = Memory()
    counted, handler = TopicRates(memory.account("topics")), source()
    counted.tick(0, [handler])
    for number in range(TOPICS + 10):
        publish(counted, handler, (f"/{number}", 9 if number < KEPT_TOPICS else 1))
        counted._work = 0
    assert len(counted) == TOPICS
    charged = memory.charged_bytes
    assert charged == counted.size_bytes > 0
    counted.tick(1, [handler])
    assert len(counted) == TOPICS * 3 // 4
    freed = counted.forget()
    assert set(messages_of(counted)) == {f"/{number}" for number in range(KEPT_TOPICS)}
    assert counted.size_bytes == memory.charged_bytes < charged - freed
    publish(counted, handler, ("/1", 5), ("/new", 1))
    assert (messages_of(counted)["/1"], messages_of(counted)["/new"]) == (14, 1)


def test_labels_do_not_make_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_rates, "KEYS_BYTES", 1_000)
    counted, handler = sampled(), source()
    for number in range(20):
        key, flags = key_of("/door", (f"room={number}",))
        handler.published_messages += 1
        counted.look(handler, Batch(encode_frame(KIND_MESSAGES, b"\1", key=key, flags=flags), 1))
        assert counted._keys_bytes <= 1_000
    assert messages_of(counted) == {"/door": 20}


RATES = {"/zeek/dns/a": 5, "/zeek/dns/b": 3, "/zeek/conn": 1, "/zeek": 2, "plain": 7, "plain/x": 0.5}
SOME = [Rate(topic, rate, 10 * rate, 1000 * rate) for topic, rate in RATES.items()]


@pytest.mark.parametrize(
    ("under", "nodes"),
    [
        ("", [("/zeek/", False, 3, 9), ("plain", True, 1, 7), ("/zeek", True, 1, 2), ("plain/", False, 1, 0.5)]),
        ("/zeek/", [("/zeek/dns/", False, 2, 8), ("/zeek/conn", True, 1, 1)]),
        ("/zeek/dns/", [("/zeek/dns/a", True, 1, 5), ("/zeek/dns/b", True, 1, 3)]),
        ("/nothing/", []),
    ],
)
def test_levels(under: str, nodes: list[tuple[str, bool, int, float]]) -> None:
    found = nodes_under(under, SOME)
    assert [(node.prefix, node.is_topic, node.topics, node.messages_per_s) for node in found] == nodes


def test_what_there_is_no_room_for_is_told_together() -> None:
    nodes = nodes_under("", SOME)
    assert first_of(nodes, 4) == (nodes, None)
    assert first_of(nodes, 2) == (nodes[:2], Others(2, 2, 2.5, 25))


@given(topics=st.lists(nasty_texts.filter(bool), unique=True), under=nasty_texts)
def test_every_topic_is_under_exactly_one_node(topics: list[str], under: str) -> None:
    nodes = nodes_under(under, [Rate(topic, 1, 1, 1) for topic in topics])
    for topic in topics:
        above = [node for node in nodes if (topic == node.prefix if node.is_topic else topic.startswith(node.prefix))]
        assert len(above) == (1 if topic.startswith(under) else 0) or any(node.is_topic for node in above)
    assert sum(node.topics for node in nodes) == sum(topic.startswith(under) for topic in topics)
    for node in nodes:
        assert node.prefix.startswith(under)
        assert node.is_topic or (node.prefix.endswith("/") and len(node.prefix) > len(under))
