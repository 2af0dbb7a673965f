"""What is counted by topic, by looking at some of what is published."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from statistics import fmean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.batch import Batch
from hub.census import BACK_S, KEPT_TOPICS, KEY_BYTES_A_PLACE, PLACE_BYTES, WORK_PER_S, Census
from hub.core import Core
from hub.delivery import Role
from hub.frame import FLAG_TAGGED, KIND_MESSAGES, encode_frame
from hub.handler import Handler
from hub.limits import CoreLimits
from hub.memory import Memory
from hub.overflow import QueueLimits
from hub.tags.envelope import key_of
from tests.hub.fakes import FakeOutlet, frame


def source() -> Handler:
    """Somebody who publishes."""
    return Handler(FakeOutlet(), role=Role.CLIENT, limits=QueueLimits())


def draws(seed: int) -> Callable[[], float]:
    """Random numbers, the same each time."""
    return Random(seed).random  # noqa: S311 -- a test


def publish(census: Census, handler: Handler, batch: Batch) -> None:
    """Publish as the core does."""
    handler.published_messages += batch.messages
    if handler.published_messages >= handler.look_at:
        census.look(handler, batch)


def batch_of(*parts: tuple[str, int]) -> Batch:
    """A batch of frames: of each its topic, and how many values it has."""
    return Batch(b"".join(frame([1] * count, topic=topic) for topic, count in parts), sum(count for _, count in parts))


def counted(census: Census) -> dict[str, float]:
    """Return how many messages of each topic were counted."""
    return {topic.name: topic.messages for topic in census.busiest}


parts = st.lists(st.tuples(st.sampled_from(["/a", "/b", "/b/c", "/ü"]), st.integers(1, 9)), min_size=1, max_size=9)


@given(st.lists(parts, max_size=9))
def test_what_is_little_is_counted_exactly(batches: list[list[tuple[str, int]]]) -> None:
    """Messages and bytes of all topics, however they are put together."""
    census, handler = Census(), source()
    census.draw_for(handler)
    messages, sizes = Counter[str](), Counter[str]()
    for some in batches:
        publish(census, handler, batch_of(*some))
        for topic, count in some:
            messages[topic] += count
            sizes[topic] += len(frame([1] * count, topic=topic))
    assert counted(census) == messages
    assert {topic.name: topic.bytes for topic in census.busiest} == sizes


def test_what_another_process_passes_on_is_not_counted_again() -> None:
    """It was published there: of a link to it nothing is ever looked at, also when others are drawn anew."""
    census, client, inner = Census(), source(), source()
    inner.is_inner = True
    for one in (client, inner):
        census.draw_for(one)
        publish(census, one, batch_of(("/a", 2)))
    census.every = 8
    census.tick(1.0, [client, inner])
    publish(census, inner, batch_of(("/a", 1_000)))
    assert counted(census) == {"/a": 2}


RHYTHMS = {
    "one by one": [batch_of(("/a", 1)), batch_of(("/b", 1))],
    "always the last": [batch_of(("/a", 1)), batch_of(("/a", 1)), batch_of(("/a", 2), ("/b", 1))],
    "a large one and many small ones": [batch_of(("/a", 2000)), *[batch_of(("/b", 1))] * 200],
    "both in one": [batch_of(*[("/a", 1), ("/b", 3)] * 20)],
}


@pytest.mark.parametrize("every", [2, 16, 256, 4096])
@pytest.mark.parametrize("rhythm", RHYTHMS)
def test_what_is_estimated_is_right_on_average(rhythm: str, every: int) -> None:
    """However messages come, no topic is counted too often: the mean of many estimates is what was there."""
    batches = RHYTHMS[rhythm] * (2 * every // sum(batch.messages for batch in RHYTHMS[rhythm]) + 1)
    truth = Counter[str]()
    for batch in batches:
        for part in batch.parts():
            truth[part.topic.decode()] += part.messages
    estimates: dict[str, list[float]] = {topic: [] for topic in truth}
    for seed in range(300):
        census, handler = Census(draw=draws(seed)), source()
        census.every = every
        census._enough = 1 << 60
        census.draw_for(handler)
        for batch in batches:
            publish(census, handler, batch)
        for topic in truth:
            estimates[topic].append(counted(census).get(topic, 0.0))
    for topic, some in estimates.items():
        assert abs(fmean(some) - truth[topic]) <= 4 * stdev(some) / len(some) ** 0.5 + 0.01 * truth[topic]


def test_a_flood_is_looked_at_little_and_estimated_well() -> None:
    """Looking is bounded by work, whatever comes; estimates of busy topics are close, which fixed seeds show."""
    census, handler = Census(draw=draws(1)), source()
    census.draw_for(handler)
    batches = [batch_of(("/busy", 1))] * 8 + [batch_of(("/quiet", 1))] * 2
    for second in range(20):
        before = census.looks_total
        for _ in range(5_000):
            for batch in batches:
                publish(census, handler, batch)
        assert census.looks_total - before < WORK_PER_S
        census.tick(float(second), [handler])
    topics = {topic.name: census.busiest.rates(topic, 19.0)[0] for topic in census.busiest}
    assert topics["/busy"] == pytest.approx(40_000, rel=0.1)
    assert topics["/quiet"] == pytest.approx(10_000, rel=0.2)
    assert census.every > 16


def test_after_a_flood_everything_is_counted_again() -> None:
    """It takes a second for each time that it has doubled, and nobody waits for what was drawn in the flood."""
    census, handler, quiet = Census(draw=draws(2)), source(), source()
    census.draw_for(handler)
    census.tick(0.0, [handler, quiet])
    for _ in range(100_000):
        publish(census, handler, batch_of(("/flood", 1)))
    census.draw_for(quiet)
    assert census.every > 1
    for second in range(1, 64):
        census.tick(float(second), [handler, quiet])
    assert census.every == 1
    for _ in range(3):
        publish(census, quiet, batch_of(("/quiet", 1)))
    assert counted(census)["/quiet"] == 3


@pytest.mark.parametrize("places", [1, 3, 4096])
def test_very_many_topics_are_counted_in_little_memory(places: int) -> None:
    """No more topics are kept, and no more keys than theirs, though each message has a topic of its own."""
    census, handler = Census(places, draw=draws(3)), source()
    census.draw_for(handler)
    frames = [frame([1], topic=f"/new/{number}") for number in range(6_000)]
    for labels in (("a",), ("b",), ("c", "d"), ("e",), ("f",), ("g",)):
        key, _ = key_of("/labelled", labels)
        frames += [encode_frame(KIND_MESSAGES, b"\1", key=key, flags=FLAG_TAGGED)] * 3
    publish(census, handler, Batch(b"".join(frames), len(frames)))
    census.tick(1.0, [handler])
    assert len(census.busiest) <= places
    assert set(census._by_key) == {key for topic in census.busiest for key in topic.keys}
    assert len(census._by_key) <= 8 * places
    # Of 1,000 each is counted, of the others one of 16 for all: the sum is about right.
    if places == 4096:
        assert sum(counted(census).values()) == pytest.approx(4096, rel=0.5)
    assert census.every > 1, "so much work at once is not done again soon"


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), max_size=60), st.integers(1, 6))
def test_what_is_kept_is_charged(frames: list[tuple[int, int]], places: int) -> None:
    """Topics and keys, as long as they are kept, and no longer; keys have no more than their share."""
    memory = Memory()
    census, handler = Census(places, account=memory.account("topics")), source()
    census.draw_for(handler)
    for number, label in frames:
        key, _ = key_of(f"/{number}" * 40, ["x" * 100 + str(each) for each in range(label)])
        flags = FLAG_TAGGED if label else 0
        publish(census, handler, Batch(encode_frame(KIND_MESSAGES, b"\1", key=key, flags=flags), 1))
    kept = list(census.busiest)
    assert memory.charged_bytes == sum(topic.held_bytes for topic in kept)
    keys = memory.charged_bytes - sum(PLACE_BYTES + len(topic.name) for topic in kept)
    assert keys >= sum(map(len, census._by_key))
    assert keys <= places * KEY_BYTES_A_PLACE


def test_a_topic_whose_keys_have_no_room_is_counted() -> None:
    """Long labels that are others each time take no more memory; each message counts all the same."""
    memory = Memory()
    census, handler = Census(2, account=memory.account("topics")), source()
    census.draw_for(handler)
    for number in range(20):
        key, _ = key_of("/door", [f"{number}/{each}" * 20 for each in range(8)])
        publish(census, handler, Batch(encode_frame(KIND_MESSAGES, b"\1", key=key, flags=FLAG_TAGGED), 1))
    assert counted(census) == {"/door": 20}
    assert memory.charged_bytes <= 2 * (PLACE_BYTES + KEY_BYTES_A_PLACE + len("/door"))


def test_where_memory_is_short_the_quietest_topics_go() -> None:
    """As many as give what is wanted, but for the busiest; their places come back, and are not taken at once."""
    memory = Memory()
    census, handler = Census(account=memory.account("topics")), source()
    census.draw_for(handler)
    for number in range(2_000):
        publish(census, handler, batch_of((f"/{number:04}", number)))
    before, all_topics = memory.charged_bytes, list(census.busiest)
    freed = census.forget(100_000)
    assert memory.charged_bytes == before - freed == census.size_bytes
    assert 100_000 <= freed < 120_000
    kept = set(census.busiest)
    assert min(topic.weight for topic in kept) >= max(topic.weight for topic in all_topics if topic not in kept)
    assert census.busiest.places == len(kept)
    assert census.busiest.forgotten_total == len(all_topics) - len(kept)
    publish(census, handler, batch_of(("/new", 5_000)))
    assert len(census.busiest) == len(kept)
    assert census.forget(1 << 40) < before - freed
    assert len(census.busiest) == KEPT_TOPICS
    assert census.forget(1 << 40) == 0
    places = [census.busiest.places]
    for second in range(BACK_S + 1):
        census.tick(float(second), [handler])
        places.append(census.busiest.places)
    assert places == sorted(places)
    assert places[-1] == CoreLimits().counted_topics


def test_the_core_charges_what_is_counted() -> None:
    """To the budget of the process, under a name of its own."""
    core = Core(lambda: None)
    handler = source()
    core.attach(handler)
    core.publish(handler, core.routes.find("/a"), batch_of(("/a", 1)))
    assert core.memory.statistics().charged_bytes["topics"] > PLACE_BYTES


def test_labelled_messages_count_for_their_topic() -> None:
    """With whatever labels they come."""
    census, handler = Census(), source()
    census.draw_for(handler)
    for number in range(20):
        key, _ = key_of("/door", [f"label{number}"])
        publish(census, handler, Batch(encode_frame(KIND_MESSAGES, b"\1", key=key, flags=FLAG_TAGGED), 1))
    publish(census, handler, batch_of(("/door", 2)))
    assert counted(census) == {"/door": 22}


def test_nothing_is_looked_at_where_nothing_is_to_be_counted() -> None:
    """`limits.counted_topics` of 0."""
    core = Core(lambda: None, CoreLimits(counted_topics=0))
    handler = source()
    core.attach(handler)
    core.publish(handler, core.routes.find("/a"), batch_of(("/a", 1)))
    core.tick(1.0)
    assert (core.census.looks_total, len(core.census.busiest)) == (0, 0)
