"""The core: who gets what, once, in order; what peers are told; and that nothing is left of who leaves."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from functools import partial

import pytest

from hub.delivery import Role
from hub.errors import CloseCode, ClosedError, InvalidTopicError, RejectedError
from hub.handler import Handler
from hub.limits import CoreLimits, HandlerLimits, NameLimits, RouteLimits
from hub.memory import Memory
from hub.names.claim import Wish
from hub.overflow import Overflow, QueueLimits
from hub.tags.rules import Rule
from hub.turn import STEPS_PER_TURN
from tests.hub.fakes import FakeOutlet, FarSide, Turn, at_once, handler_of
from tests.hub.requests.party import FakePoster

# Messages.


def test_each_handler_writes_once_a_turn_and_the_shell_is_woken_once() -> None:
    turn = Turn()
    source, _ = turn.join()
    outlets = [turn.join("/a")[1] for _ in range(3)]
    turn.publish(source, "/b", 0)
    assert turn.wakes == 0
    for number in range(5):
        turn.publish(source, "/a", number)
    assert turn.wakes == 1
    assert [outlet.writes for outlet in outlets] == [0, 0, 0]
    turn.core.flush()
    assert [outlet.writes for outlet in outlets] == [1, 1, 1]
    assert all(outlet.values == [0, 1, 2, 3, 4] for outlet in outlets)
    turn.core.flush()
    assert [outlet.writes for outlet in outlets] == [1, 1, 1]
    turn.publish(source, "/a", 5)
    assert turn.wakes == 2


def test_a_read_is_one_offer_and_one_write_for_each_handler() -> None:
    turn = Turn()
    source, _ = turn.join()
    wants = [turn.join("/a")[1], turn.join("/b")[1], turn.join("/a", "/b")[1], turn.join("/c")[1]]
    turn.read(source, [("/a", "known"), ("/b", "known")])
    before = [len(outlet.batches) for outlet in wants]
    turn.read(source, [(f"/{'ab'[number % 2]}", number) for number in range(10)])
    assert [outlet.values[1:] for outlet in wants[:2]] == [[0, 2, 4, 6, 8], [1, 3, 5, 7, 9]]
    assert wants[2].values[2:] == list(range(10))
    assert [len(outlet.batches) - now for outlet, now in zip(wants, before, strict=True)] == [1, 1, 1, 0]
    assert source.published_messages == 12
    assert turn.wakes == 0


def test_what_is_published_within_the_write_of_a_read_wakes() -> None:
    turn = Turn()
    source, _ = turn.join()
    _, questions = turn.join("/question")
    _, answers = turn.join("/answer")
    questions.act = lambda: turn.publish(source, "/answer", "so")
    turn.read(source, [("/question", "what?")])
    assert (questions.values, answers.values, turn.wakes) == (["what?"], [], 1)
    turn.core.flush()
    assert answers.values == ["so"]
    turn.publish(source, "/answer", "later")
    assert turn.wakes == 2


def test_a_paused_handler_wakes_nobody() -> None:
    turn = Turn()
    source, _ = turn.join()
    slow, outlet = turn.join("/a")
    slow.pause()
    turn.publish(source, "/a", 1)
    assert turn.wakes == 0
    turn.core.flush()
    assert outlet.told == []
    slow.resume()
    assert outlet.values == [1]


def test_publishing_from_within_a_write() -> None:
    turn = Turn()
    asker, answers = turn.join("/answer")
    _, questions = turn.join("/question")
    todo = ["first", "second"]

    def answer() -> None:
        if todo:
            turn.publish(asker, "/answer", todo.pop(0))
            turn.publish(asker, "/question", "and this?")

    questions.act = answer
    turn.publish(asker, "/question", "what?")
    turn.core.flush()
    assert (questions.values, answers.values, turn.wakes) == (["what?"], [], 2)
    turn.core.flush()
    assert (questions.values, answers.values, turn.wakes) == (["what?", "and this?"], ["first"], 3)
    turn.core.flush()
    assert (questions.values, answers.values) == (["what?", "and this?", "and this?"], ["first", "second"])
    assert not turn.core.offered


# Subscriptions.


def test_all_prefixes_or_none() -> None:
    turn = Turn()
    handler, _ = turn.join("/kept")
    with pytest.raises(InvalidTopicError):
        turn.core.subscribe(handler, ["/a", "/b\x00"])
    assert handler.prefixes == {"/kept": 1}
    assert turn.core.statistics().routing.subscriptions == 1
    assert turn.core.prefixes.asked_of_links.minimal == ("/kept",)


def test_the_number_of_prefixes_of_a_client_is_limited() -> None:
    turn = Turn(CoreLimits(HandlerLimits(prefixes=3)))
    handler, _ = turn.join("/1", "/2")
    turn.core.subscribe(handler, ["/1", "/2", "/1", "/2"])
    with pytest.raises(RejectedError, match="4 prefixes, the limit for a client is 3") as refused:
        turn.core.subscribe(handler, ["/3", "/4"])
    assert refused.value.code == CloseCode.NOT_ALLOWED
    assert handler.prefixes == {"/1": 3, "/2": 3}
    turn.core.subscribe(handler, ["/3", "/3"])
    turn.core.unsubscribe(handler, ["/1"] * 3)
    turn.core.subscribe(handler, ["/4"])
    assert set(handler.prefixes) == {"/2", "/3", "/4"}


def test_peers_have_limits_of_their_own() -> None:
    turn = Turn(CoreLimits(HandlerLimits(1, 1, 1), peer_prefixes=2))
    leaf, _ = turn.join("/1", "/2", role=Role.LEAF)
    with pytest.raises(RejectedError, match="3 prefixes, the limit for a peer is 2"):
        turn.core.subscribe(leaf, ["/3"])
    assert turn.core.refused_for_limits() == {"prefixes": 1, "rules": 0, "services": 0}


def test_local_subscribers_have_no_limit() -> None:
    turn = Turn(CoreLimits(HandlerLimits(prefixes=1), peer_prefixes=1))
    handler, _ = turn.join("/1", "/2", role=Role.LOCAL)
    assert len(handler.prefixes) == 2


def test_many_prefixes_are_subscribed_to_in_steps() -> None:
    turn = Turn()
    handler, _ = turn.join("/0")
    steps = turn.core.subscribing(handler, [f"/{number}" for number in range(100)])
    for _ in range(10):
        next(steps)
        assert handler.prefixes == {"/0": 1}
    for added in range(1, 100):
        next(steps)
        assert turn.core.statistics().routing.subscriptions == 1 + added
    assert list(steps) == []
    assert len(list(turn.core.unsubscribing(handler, [f"/{number}" for number in range(10)]))) == 9


def test_only_attached_handlers_subscribe() -> None:
    turn = Turn()
    handler, _ = turn.join("/a")
    turn.core.detach(handler, "gone")
    for late in (handler, handler_of()):
        with pytest.raises(ClosedError):
            turn.core.subscribe(late, ["/a"])
        turn.core.unsubscribe(late, ["/a"])
    assert turn.core.statistics().routing.subscriptions == 0


# Leaving.


def test_nothing_is_left_of_a_handler_that_leaves() -> None:
    turn = Turn()
    source, _ = turn.join()
    handler, outlet = turn.join("", "/a", "/a", "/a/b/c", "é", name="leaving")
    turn.publish(source, "/a/b/c/d", 1)
    turn.core.detach(handler, "done")
    turn.core.detach(handler, "done twice")
    turn.publish(source, "/a/b/c/d", 2)
    turn.core.flush()
    assert outlet.told == []
    assert handler.closed
    assert list(turn.core.handlers.values()) == [source]
    seen = turn.core.statistics()
    assert (seen.clients, seen.routing.subscriptions, seen.routing.filter_prefixes) == (1, 0, 0)
    assert not turn.core.prefixes._multimap._trie
    assert not any(each._counts for each in turn.core.prefixes.asked_of_links._filters or ())
    gone = weakref.ref(outlet)
    del handler, outlet
    gc.collect()
    assert gone() is None


def test_a_handler_with_many_prefixes_leaves_over_several_turns() -> None:
    turn = Turn()
    source, _ = turn.join()
    many, outlet = turn.join(*(f"/{number}/" for number in range(4500)), role=Role.LOCAL)
    few, _ = turn.join("/few")
    told = FarSide()
    turn.core.attach(handler_of(role=Role.LINK), told)
    assert len(told.known) == 4501

    wakes = turn.wakes
    turn.core.detach(many, "lost")
    assert turn.wakes > wakes
    turn.core.detach(few, "done")
    left = turn.core.statistics().routing.subscriptions
    assert 1000 < left < 4500
    for number in (0, 2250, 4499):
        turn.publish(source, f"/{number}/x", number)
    while left:
        wakes = turn.wakes
        turn.core.flush()
        before, left = left, turn.core.statistics().routing.subscriptions
        assert before - left in range(1, 2000)
        assert (turn.wakes > wakes) == (left > 0), "woken as long as something is left to do"
    assert outlet.told == []
    assert told.known == set()
    assert not turn.core.prefixes._multimap._trie


def test_all_that_leave_at_once_have_one_share_of_a_turn_together() -> None:
    turn = Turn()
    many = [turn.join(*(f"/{who}/{number}/" for number in range(100)))[0] for who in range(90)]
    for handler in many:
        turn.core.detach(handler, "the network is gone")
    assert turn.core.statistics().routing.subscriptions >= 9000 - STEPS_PER_TURN
    turns = 0
    while left := turn.core.statistics().routing.subscriptions:
        turn.core.flush()
        turns += 1
        assert left - turn.core.statistics().routing.subscriptions <= STEPS_PER_TURN
    assert turns <= 9000 // STEPS_PER_TURN + 1


def test_long_prefixes_take_more_steps() -> None:
    turn = Turn()
    handler, _ = turn.join(*(f"/{number:0999}" for number in range(900)))
    turn.core.detach(handler, "lost")
    while left := turn.core.statistics().routing.subscriptions:
        turn.core.flush()
        assert left - turn.core.statistics().routing.subscriptions <= STEPS_PER_TURN // 3
    asked = turn.core.subscribing(turn.join()[0], ["/" * 1000])
    assert len(list(asked)) == 4


def test_queues_of_all_that_leave_at_once_have_a_share_of_a_turn() -> None:
    turn = Turn()
    source, _ = turn.join()
    readers = [turn.join("/a", overflow=overflow)[0] for overflow in Overflow for _ in range(10)]
    for reader in readers:
        reader.pause()
    for number in range(1000):
        turn.publish(source, "/a", number)
    account = turn.core.memory.accounts["queues"]
    for reader in readers:
        turn.core.detach(reader, "the network is gone")
    dropped = turn.core.statistics().dropped_messages_total
    held = turn.core._queue_memory.batches
    turns = 0
    while waiting := sum(map(len, held._abandoned)):
        turn.core.flush()
        turns += 1
        assert waiting - sum(map(len, held._abandoned)) <= 20 * STEPS_PER_TURN
    assert turns >= 30_000 // (20 * STEPS_PER_TURN)
    assert account.size_bytes == 0
    assert not held._holders
    assert turn.core.statistics().dropped_messages_total == dropped


def test_queues_that_go_for_want_of_memory_are_let_go_at_once() -> None:
    memory = Memory(1 << 20, lambda: 2 << 20)
    turn = Turn(memory=memory)
    source, _ = turn.join()
    slow, outlet = turn.join("/a", overflow=Overflow.DISCONNECT)
    slow.pause()
    turn.publish(source, "/a", "x" * 100_000)
    memory.look()
    assert outlet.closed
    assert memory.accounts["queues"].size_bytes == 0


def test_the_shell_is_woken_once_a_turn_whoever_asks_for_it() -> None:
    turn = Turn(CoreLimits(HandlerLimits(3000, 3000, 3000), names=NameLimits(per_client=3000)))
    outlet = FakePoster()
    client = Handler(outlet, role=Role.CLIENT, limits=QueueLimits(), poster=outlet)
    core = turn.core
    core.attach(client)
    core.subscribe(client, [f"/{number}/" for number in range(3000)])
    core.subscribe_rules(client, [Rule(("a", f"b{number}")) for number in range(3000)])
    at_once(core.requests.serving(client, [f"/{number}/" for number in range(3000)]))
    for number in range(3000):
        core.names.claim(client, Wish(f"a.n{number}"), 1)
    core.flush()
    woken = turn.wakes
    core.detach(client, "lost")
    while turn.wakes > woken:
        assert turn.wakes == woken + 1
        woken = turn.wakes
        core.flush()
    routing = core.statistics().routing
    assert (routing.subscriptions, routing.rules, core.requests.statistics().services) == (0, 0, 0)
    assert core.names.statistics().names == 0


def test_what_a_handler_counted_stays() -> None:
    turn = Turn()
    source, _ = turn.join()
    slow, _ = turn.join("/a", messages=1)
    slow.pause()
    turn.publish(source, "/a", 1, 2, 3)
    slow.resume()
    before = turn.core.statistics()
    assert before.dropped_messages_total == {"drop-oldest": 2}
    for handler in (source, slow):
        turn.core.detach(handler, "")
    after = turn.core.statistics()
    assert after.published_messages_total == before.published_messages_total == 3
    assert after.delivered_messages_total == before.delivered_messages_total == 1
    assert after.delivered_bytes_total == before.delivered_bytes_total > 0
    assert after.dropped_messages_total == before.dropped_messages_total
    assert turn.core.handlers == {}


# Looking at it.


def test_statistics() -> None:
    turn = Turn(CoreLimits(routes=RouteLimits(2)))
    source, _ = turn.join("/a", "/a/b")
    turn.join("/c", role=Role.LINK)
    slow, _ = turn.join("/a", role=Role.LOCAL)
    slow.pause()
    for topic in ("/a", "/b", "/c", "/a"):
        turn.publish(source, topic, topic)
    turn.core.flush()
    seen = turn.core.statistics()
    assert (seen.clients, seen.links, seen.paused_handlers) == (1, 1, 1)
    assert seen.routing._asdict() == {
        "subscriptions": 4,
        "routes": 2,
        "misses_total": 4,
        "clears_total": 1,
        "filter_prefixes": 1,
        "rules": 0,
        "tagged": 0,
        "size_bytes": 524,
    }
    assert seen.published_messages_total == 4
    assert seen.delivered_messages_total == 3
    assert seen.queued_messages == 2
    handlers = [handler.statistics() for handler in turn.core.handlers.values()]
    assert [(one.id, one.role, one.prefixes) for one in handlers] == [(1, "client", 2), (2, "link", 1), (3, "local", 1)]
    assert turn.core.prefixes.asked_of_links.minimal == ("/a",)


def test_ids_are_given_once() -> None:
    turn = Turn()
    ids = []
    for _ in range(3):
        handler, _ = turn.join()
        ids.append(handler.id)
        turn.core.detach(handler, "")
    assert ids == [1, 2, 3]


@pytest.mark.parametrize("leave", [True, False])
def test_a_handler_may_leave_while_a_turn_is_written(leave: bool) -> None:  # noqa: FBT001
    turn = Turn()
    source, _ = turn.join()
    joined: list[tuple[Handler, FakeOutlet]] = [turn.join("/a") for _ in range(3)]
    (first, first_outlet), (second, second_outlet), (_, third_outlet) = joined
    gone: Callable[[], None] = lambda: turn.core.detach(first if leave else second, "broke")  # noqa: E731
    first_outlet.act = gone
    turn.publish(source, "/a", 1)
    turn.core.flush()
    assert first_outlet.values == third_outlet.values == [1]
    assert second_outlet.values == ([1] if leave else [])


def test_far_sides_that_go_together_are_given_back_a_share_a_turn() -> None:
    turn = Turn()
    gone: list[int] = []
    turn.core.flush()
    turn.core.depart(lambda: gone.append(0))
    assert gone == [0]
    for number in range(1, 1000):
        turn.core.depart(partial(gone.append, number))
    at_once = len(gone)
    assert 0 < at_once < 1000
    turns = 0
    while len(gone) < 1000:
        before, wakes = len(gone), turn.wakes
        turn.core.flush()
        turns += 1
        assert 0 < len(gone) - before <= at_once
        assert turn.wakes == wakes + (len(gone) < 1000)
    assert turns > 1
    assert gone == list(range(1000))


def test_what_is_done_in_steps_ends_when_its_handler_leaves() -> None:
    turn = Turn()
    outlet = FakePoster()
    handler = Handler(outlet, role=Role.CLIENT, limits=QueueLimits(), poster=outlet)
    turn.core.attach(handler)
    works = [
        turn.core.subscribing(handler, ["/a", "/b"]),
        turn.core.rules.subscribing(handler, [Rule(("a",)), Rule(("b",))]),
        turn.core.requests.serving(handler, ["/a", "/b"]),
    ]
    for steps in works:
        next(steps)
    turn.core.detach(handler, "gone")
    for steps in works:
        assert list(steps) == []
    routing = turn.core.statistics().routing
    assert (routing.subscriptions, routing.rules, turn.core.requests.statistics().services) == (0, 0, 0)
