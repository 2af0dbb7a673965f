"""What is followed of what is published, and what is told of it."""

from __future__ import annotations

from collections import Counter
from itertools import count
from random import Random

import pytest

from hub.batch import Batch, encode_value
from hub.delivery import Role
from hub.frame import FLAG_TAGGED, KIND_MESSAGES, encode_frame
from hub.handler import Handler
from hub.limits import CoreLimits
from hub.spans import Span, SpanTap
from hub.stretch import Stretch, find_runs
from hub.tags.envelope import Envelope
from hub.traceparent import TraceParent
from hub.writers import FEW
from tests.hub.fakes import Turn

TRACE = "0af7651916cd43dd8448eb211c80319c"
SECOND_NS = 1_000_000_000


def parent(span: int, flags: str = "01") -> str:
    """A label that says the trace, and a span of it."""
    return f"traceparent=00-{TRACE}-{span:016x}-{flags}"


class Followed:
    """A core of which some messages are followed, with a clock that moves on by 10 ns whenever it is asked."""

    def __init__(self, every: int = 0, per_s: int = 1_000, *, limits: CoreLimits = CoreLimits(), seed: int = 1) -> None:  # noqa: B008 -- frozen
        self.turn = Turn(limits, hub_id=b"h" * 16)
        self.spans: list[Span] = []
        self.clock = count(50 * SECOND_NS, 10)
        self.tap = SpanTap(every, per_s, self.spans.append, lambda: next(self.clock), Random(seed).random)  # noqa: S311 -- a test
        self.turn.core.follow(self.tap)

    def publish(self, source: Handler, *labelled: tuple[str, tuple[str, ...]]) -> None:
        """Do what a connection does with a read of messages with labels, each its topic and its labels."""
        core = self.turn.core
        data = b"".join(
            encode_frame(KIND_MESSAGES, encode_value(1), key=Envelope(topic, labels).encode(), flags=FLAG_TAGGED)
            for topic, labels in labelled
        )
        for key in {Envelope(topic, labels).routing_key for topic, labels in labelled}:
            core.routes.of(key)
        core.write_is_due = True
        core.publish_stretch(source, Stretch(data, 0, find_runs(data, 0, core.routes.table, len(data))))
        core.end_read()


def test_each_message_is_followed_where_that_is_asked_for() -> None:
    """With who has published it, how many got it, and the three times in their order."""
    followed = Followed(every=1)
    source, _ = followed.turn.join(name="sensor")
    _, outlet = followed.turn.join("/a")
    followed.turn.join("/a/b")
    followed.turn.read(source, [("/a/b", 1), ("/a/b", 2)])
    [span] = followed.spans
    assert (span.topic, span.parent, span.messages, span.subscribers, span.links) == ("/a/b", None, 2, 2, 0)
    assert span.size_bytes == sum(batch.frames_bytes for batch in outlet.batches)
    assert span.source is not None
    assert (span.source.id, span.source.name, span.source.role) == (source.id, "sensor", Role.CLIENT)
    assert (span.waiting, span.dropped) == (0, 0)
    assert span.began_ns < span.routed_ns < span.written_ns


@pytest.mark.parametrize("size", [1, 7])
def test_one_of_so_many_messages_is_followed(size: int) -> None:
    """On average, and each topic as often as it comes; of several in one read the read is followed, once."""
    reads = 20_000 // size
    followed = Followed(every=20, per_s=100_000)
    source, _ = followed.turn.join()
    for number in range(reads):
        followed.turn.publish(source, "/often" if number % 4 else "/seldom", *range(size))
        followed.turn.core.flush()
        if number % 500 == 0:
            followed.turn.core.census.tick(number, [source])
    seen = Counter(span.topic for span in followed.spans)
    expected = reads * (1 - (1 - 1 / 20) ** size)
    assert 0.88 * expected < seen.total() < 1.12 * expected
    assert 0.7 < seen["/often"] / seen.total() < 0.8


def test_of_what_is_only_looked_at_now_and_then_as_many_are_followed() -> None:
    """A look stands for as many messages as it was drawn among."""
    followed = Followed(every=2_000, per_s=100_000)
    census = followed.turn.core.census
    census.every, census._draw = 64, Random(1).random  # noqa: S311 -- a test
    source, _ = followed.turn.join()
    for _ in range(200_000):
        followed.turn.publish(source, "/a", 1)
    followed.turn.core.flush()
    assert census.every >= 64
    assert 60 < len(followed.spans) < 145


def test_no_more_than_so_many_in_a_second() -> None:
    """The rest is counted."""
    followed = Followed(every=1, per_s=3)
    source, _ = followed.turn.join()
    for second in range(2):
        followed.clock = count((60 + second) * SECOND_NS, 10)
        for _ in range(50):
            followed.turn.publish(source, "/a", 1)
        followed.turn.core.flush()
    assert len(followed.spans) == 6
    assert followed.tap.skipped > 20


def test_what_says_its_trace_is_followed() -> None:
    """Each message with a traceparent by itself, and nothing else; who gets them notices nothing."""
    followed = Followed()
    source, _ = followed.turn.join()
    handler, outlet = followed.turn.join("/a")
    followed.publish(source, ("/a", (parent(1),)), ("/a", (parent(2), "z")), ("/a", ("z",)), ("/a", (parent(3, "00"),)))
    assert [span.parent for span in followed.spans] == [
        TraceParent(TRACE, f"{number:016x}", is_sampled=True) for number in (1, 2)
    ]
    assert {(span.topic, span.messages, span.subscribers, span.links) for span in followed.spans} == {("/a", 1, 1, 0)}
    assert handler.delivered_messages == sum(batch.messages for batch in outlet.batches) == 4


def test_what_is_drawn_and_says_its_trace_is_followed_once() -> None:
    """For its trace; one that is not recorded is no parent of what is drawn."""
    followed = Followed(every=1)
    source, _ = followed.turn.join()
    followed.turn.join("/a")
    followed.publish(source, ("/a", (parent(1),)))
    followed.publish(source, ("/a", (parent(2, "00"),)))
    assert [(span.parent is None, span.source is None) for span in followed.spans] == [(False, True), (True, False)]


def test_what_is_wanted_by_nobody_is_followed_too() -> None:
    """Its span says so."""
    followed = Followed()
    source, _ = followed.turn.join()
    followed.publish(source, ("/nobody", (parent(1),)))
    assert [span.subscribers for span in followed.spans] == [0]


def test_what_waits_and_what_is_lost() -> None:
    """A subscriber that does not read has a full queue, and loses the oldest message."""
    followed = Followed()
    source, _ = followed.turn.join()
    slow, _ = followed.turn.join("/a", messages=1)
    slow.pause()
    for number in (1, 2):
        followed.publish(source, ("/a", (parent(number),)))
    assert [(span.waiting, span.dropped) for span in followed.spans] == [(1, 0), (1, 1)]


def test_many_are_waited_for() -> None:
    """Where more than a few get a message, the span ends when all have written, and each writes once."""
    followed = Followed()
    source, _ = followed.turn.join()
    outlets = [followed.turn.join("/a")[1] for _ in range(FEW + 1)]
    followed.publish(source, ("/a", (parent(1),)))
    assert followed.spans == []
    assert [outlet.writes for outlet in outlets] == [1] * (FEW + 1)
    followed.turn.core.flush()
    assert [span.subscribers for span in followed.spans] == [FEW + 1]


def test_a_few_write_once_all_the_same() -> None:
    """They write a little earlier within the end of the same read."""
    followed = Followed()
    source, _ = followed.turn.join()
    _, outlet = followed.turn.join("/")
    followed.publish(source, ("/a", (parent(1),)), ("/b", ("z",)))
    assert (outlet.writes, len(outlet.batches)) == (1, 1)


def test_a_route_that_is_gone_is_not_followed() -> None:
    """The message itself goes its way."""
    followed = Followed(every=1)
    source, _ = followed.turn.join()
    _, outlet = followed.turn.join("/a")
    core = followed.turn.core
    batch = Batch.of("/a", [1])
    route = core.routes.find("/a")
    core.publish(source, route, batch)
    core.flush()
    assert followed.spans == []
    assert outlet.messages == [("/a", 1)]


def test_without_sampling_nothing_is_looked_at() -> None:
    """The census shows its looks to nobody."""
    followed = Followed(every=0)
    assert followed.turn.core.census.on_look is None
