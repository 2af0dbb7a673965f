"""How much topics bring, and topics as a tree by their components."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub import topic_rates
from hub.batch import Batch
from hub.delivery import Role
from hub.frame import KIND_MESSAGES, encode_frame
from hub.handler import Handler
from hub.memory import Memory
from hub.overflow import QueueLimits
from hub.tags.envelope import key_of
from hub.topic_rates import KEPT_TOPICS, TOPICS, WORK_PER_S, Others, Rate, TopicRates, first_of, nodes_under
from tests.hub.fakes import FakeOutlet, frame, nasty_texts


def source() -> Handler:
    return Handler(FakeOutlet(), role=Role.CLIENT, limits=QueueLimits())


def counters(seed: int = 1) -> TopicRates:
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
    counted, handler, expected = counters(), source(), Counter[str]()
    for read in reads:
        publish(counted, handler, *read)
        for topic, count in read:
            expected[topic] += count
    assert messages_of(counted) == expected


def test_rates() -> None:
    counted, handler = counters(), source()
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
    counted, handler, published = counters(), source(), Counter[str]()
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
    counted, flood, quiet = counters(), source(), source()
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
    counted, inner = counters(), source()
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
    counted, handler = counters(), source()
    for number in range(20):
        key, flags = key_of("/door", (f"room={number}",))
        handler.published_messages += 1
        counted.look(handler, Batch(encode_frame(KIND_MESSAGES, b"\1", key=key, flags=flags), 1))
        assert counted._keys_bytes <= 1_000
    assert messages_of(counted) == {"/door": 20}


def rates(**topics: float) -> list[Rate]:
    return [Rate(topic, rate, 10 * rate, 1000 * rate) for topic, rate in topics.items()]


SOME = rates(**{"/zeek/dns/a": 5, "/zeek/dns/b": 3, "/zeek/conn": 1, "/zeek": 2, "plain": 7, "plain/x": 0.5})


def shown(under: str) -> list[tuple[str, bool, int, float]]:
    return [(node.prefix, node.is_topic, node.topics, node.messages_per_s) for node in nodes_under(under, SOME)]


def test_levels() -> None:
    assert shown("") == [
        ("/zeek/", False, 3, 9),
        ("plain", True, 1, 7),
        ("/zeek", True, 1, 2),
        ("plain/", False, 1, 0.5),
    ]
    assert shown("/zeek/") == [("/zeek/dns/", False, 2, 8), ("/zeek/conn", True, 1, 1)]
    assert shown("/zeek/dns/") == [("/zeek/dns/a", True, 1, 5), ("/zeek/dns/b", True, 1, 3)]
    assert shown("/nothing/") == []


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
