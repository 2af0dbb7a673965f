"""The core: who gets what, once, in order; what far sides are told; and that nothing is left of who leaves."""

from __future__ import annotations

import gc
import weakref
from functools import partial

import pytest

from hub.errors import ClosedError, RejectedError
from hub.handlers.delivery import Role
from hub.handlers.handler import Handler
from hub.labels.envelope import Envelope, tagged
from hub.labels.rules import Rule
from hub.limits import CoreLimits, HandlerLimits, Overflow
from hub.mesh.announcement import Announcement, Interest
from hub.mesh.link_state import FORGET_S, LOOK_S
from hub.messages.frame import Origin
from hub.routing.subscriptions import Asked
from hub.scheduling.memory import Memory
from hub.scheduling.scheduler import STEPS_PER_TURN
from tests.hub.fakes import FakeOutlet, Replies, Turn, handler_of


def test_peers_have_limits_of_their_own() -> None:
    turn = Turn(CoreLimits(HandlerLimits(1, 1, 1), peer_prefixes=2))
    leaf, _ = turn.join("/1", "/2", role=Role.LEAF)
    with pytest.raises(RejectedError, match="3 prefixes, the limit for a peer is 2"):
        turn.core.subscribe(leaf, ["/3"])
    assert turn.core.refused_for_limits() == {"prefixes": 1, "rules": 0, "services": 0}


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
    for reason in ("done", "done twice"):
        turn.core.detach(handler, reason)
    turn.publish(source, "/a/b/c/d", 2)
    turn.core.flush()
    assert (outlet.told, handler.closed, list(turn.core.handlers.values())) == ([], True, [source])
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
    told = Replies()
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


@pytest.mark.parametrize("leave", [True, False])
def test_a_handler_may_leave_while_a_turn_is_written(leave: bool) -> None:  # noqa: FBT001
    turn = Turn()
    source, _ = turn.join()
    joined: list[tuple[Handler, FakeOutlet]] = [turn.join("/a") for _ in range(3)]
    (first, first_outlet), (second, second_outlet), (_, third_outlet) = joined
    first_outlet.act = lambda: turn.core.detach(first if leave else second, "broke")
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
        assert 0 < len(gone) - before <= at_once + 1
        assert turn.wakes == wakes + (len(gone) < 1000)
    assert turns > 1
    assert gone == list(range(1000))


def test_what_is_done_in_steps_ends_when_its_handler_leaves() -> None:
    turn = Turn()
    outlet = FakeOutlet()
    handler = handler_of(outlet)
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


HERE, THERE = b"h" * 16, b"t" * 16


# Links.


def test_messages_without_a_way() -> None:
    turn = Turn(hub_id=HERE)
    client, _ = turn.join()
    link, _ = turn.join("/a", role=Role.LINK)
    source, _ = turn.join(role=Role.LINK)

    def unreached(*messages: tuple[Handler, str, int]) -> int:
        for sender, topic, count in messages:
            turn.publish(sender, topic, *range(count))
        turn.core.flush()
        return turn.core.mesh.statistics().unreached_messages_total

    assert unreached((client, "/a", 1), (source, "/a", 2)) == 0
    turn.core.detach(link, "lost")
    assert unreached((client, "/a", 1), (client, "/b", 1)) == 1
    assert unreached((source, "/a", 2), (source, "/b", 1)) == 3, (
        "whoever sent it believes that the other hub is reached"
    )
    _, reader = turn.join("/a")
    assert unreached((source, "/a", 1)) == 3
    assert reader.values == [0]


def test_a_route_that_somebody_keeps_does_not_keep_old_ways() -> None:
    turn = Turn(hub_id=HERE)
    link = handler_of(role=Role.LINK)
    turn.core.attach(link)
    turn.core.link(link, THERE, lambda: None)
    turn.core.mesh.hear(link, Announcement(THERE, 0, 1, "", ((HERE, 1),), ("/a", Rule(("x",)))))
    turn.core.mesh.check(0.0)
    turn.core.flush()
    assert turn.core.routes.find_tagged(tagged("/b", ["x"])).handlers == (link,)
    turn.core.mesh.hear(link, Announcement(THERE, 1, 2, removed=(Rule(("x",)),)))
    turn.core.flush()
    assert turn.core.routes.find_tagged(tagged("/b", ["x"])).handlers == ()
    kept = turn.core.routes.find("/a")
    assert kept.handlers == (link,)
    assert link not in kept.of_way(THERE)
    turn.core.mesh.hear(link, Announcement(THERE, 2, 3, "", ()))
    assert turn.core.routes.find("/a") is not kept
    assert link not in turn.core.routes.find("/a").handlers


FINE = [f"/a/{number}/" for number in range(2 * STEPS_PER_TURN)]
RULES = [Rule(("x",), prefix) for prefix in FINE]


@pytest.mark.parametrize(("many", "one"), [(FINE, "/a/"), (RULES, "/a/"), (RULES, Rule(("x",)))])
def test_no_message_falls_between_interests_of_a_hub_and_those_that_replace_them(
    many: list[Interest], one: Interest
) -> None:
    turn, sent = Turn(hub_id=HERE), 0
    client, _ = turn.join()
    link, outlet = turn.join(*many, role=Role.LINK)
    for seq, (added, removed) in enumerate([([one], many), (many, [one])], 2):
        change = tuple(added), tuple(removed)
        turn.core.mesh.hear(link, Announcement(link.id.to_bytes(16), seq - 1, seq, "", None, *change))
        while turn.core.scheduler.is_busy:
            turn.core.flush()
            turn.read(client, [(Envelope(f"{prefix}x", ("x",)), prefix) for prefix in (FINE[0], FINE[-1])])
            sent += 2
    turn.core.flush()
    assert len(outlet.values) == sent > 8


@pytest.mark.parametrize("one", ["/a/", Rule(("x",), "/a/")])
def test_an_interest_that_is_removed_and_added_at_once_stays(one: Interest) -> None:
    turn = Turn(hub_id=HERE)
    client, _ = turn.join()
    link, outlet = turn.join(one, role=Role.LINK)
    turn.core.mesh.hear(link, Announcement(link.id.to_bytes(16), 1, 2, "", None, (one,), (one,)))
    turn.core.flush()
    turn.read(client, [(Envelope("/a/x", ("x",)), 1)])
    turn.core.flush()
    assert outlet.values == [1]


def test_no_message_of_a_forgotten_hub_is_taken() -> None:
    turn = Turn(hub_id=HERE)
    link, _ = turn.join(role=Role.LINK)
    _, reader = turn.join("/a")
    turn.core.mesh.hear(link, Announcement(THERE, 0, 1, "there", ()))  # and nothing leads to it
    link.bring_from(Origin(THERE, 1))
    for number, now_s in enumerate((0.0, LOOK_S, FORGET_S)):
        turn.core.mesh.check(now_s)
        turn.publish(link, "/a", number)
    turn.core.flush()
    assert THERE not in turn.core.mesh.records
    assert reader.values == [0, 1]


# Losses.


def test_what_the_far_side_cannot_read_is_no_overflow() -> None:
    turn = Turn()
    source, _ = turn.join()
    _, watcher = turn.join("$hub/")
    slow, _ = turn.join("/a", messages=2, name="slow")
    slow.lose(5)
    told = turn.core.report_drops()
    slow.pause()
    turn.publish(source, "/a", 1, 2, 3)
    slow.lose(1)
    told += turn.core.report_drops()
    assert [(one.topic, *(one.value[key] for key in ("name", "lost", "total"))) for one in told] == [
        ("$hub/unreadable", "slow", 5, 5),
        ("$hub/overflow", "slow", 1, 1),
        ("$hub/unreadable", "slow", 1, 6),
    ]
    assert turn.core.report_drops() == []
    turn.core.flush()
    assert [value for value in watcher.values if "lost" in value] == [one.value for one in told]
    turn.core.detach(slow, "gone")
    assert turn.core.statistics().unreadable_messages_total == 6


def test_a_handler_that_lost_and_left_is_still_reported() -> None:
    turn = Turn()
    source, _ = turn.join()
    slow, outlet = turn.join("/a", messages=2, overflow=Overflow.DISCONNECT)
    outlet.on_close = lambda: turn.core.detach(slow, "overflow")
    slow.pause()
    turn.publish(source, "/a", 1, 2, 3)
    (event,) = turn.core.report_drops()
    assert (event.value["id"], event.value["lost"], event.value["overflow"]) == (slow.id, 3, "disconnect")


def test_leaves_are_told_what_clients_and_links_want(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what is always asked of them, but nothing that is not theirs: here, everything."""
    monkeypatch.setattr(Turn, "may_ask_leaves", lambda _, prefix: prefix != "")
    turn = Turn(asked_of_leaves=("/always/",))
    core = turn.core
    turn.join("/a/", "/a/b", "$hub/peers/", "")
    link, _ = turn.join("/far", role=Role.LINK)
    assert core.minimal_filter_for_leaves == ("/a/", "/always/", "/far")
    told = Replies()
    leaf = handler_of(role=Role.LEAF)
    core.attach(leaf, told)
    assert told.known == {"/a/", "/always/", "/far"}
    core.subscribe(leaf, ["/leaf"])
    known = core.prefixes.of_leaves(())._filters
    client, _ = turn.join("/always/this", "/", "$hub/")
    assert told.known == {"/"}
    core.detach(client, "done")
    core.mesh.hear(link, Announcement(link.id.to_bytes(16), 1, 2, removed=("/far",)))
    core.flush()
    assert told.known == {"/a/", "/always/"}
    assert set(core.prefixes.asked_of_links.minimal) == {""}
    core.detach(leaf, "lost")
    assert core.minimal_filter_for_leaves == ("/a/", "/always/")
    assert core.prefixes.of_leaves(())._filters is known


def test_what_counts_is_asked_for() -> None:
    """Beside what is always asked for; and each far side hears only what changes the fewest prefixes."""
    asked = Asked(lambda _, prefix: not prefix.startswith("!"), ["/always"])
    handler, later = handler_of(), handler_of()
    handler.prefixes = {"/a/": 1, "!b": 1}
    assert asked.minimal == ()
    asked.add(later, "/not-yet-kept")
    asked.begin([handler])
    assert asked.minimal == ("/a/", "/always")
    assert len(asked) == 2
    far = Replies()
    asked.tell(handler, far)
    for prefix in ("/a/b", "!c", "/c"):
        asked.add(later, prefix)
    assert far.known == {"/a/", "/always", "/c"}
    assert len(far.changes) == 2
    asked.discard(handler, "/a/")
    assert far.known == {"/a/b", "/always", "/c"}
    handler.prefixes = {"": 1, "$store/s/changes": 1}
    stores = Asked(lambda _, __: True)
    stores.begin([handler])
    assert stores.minimal == ("", "$store/s/changes"), "what is wanted of stores is asked for beside everything"
    stores.discard(handler, "")
    assert stores.minimal == ("$store/s/changes",)
    asked.begin([])
    asked.forget(handler)
    asked.forget(later)
    asked.discard(later, "/c")
    assert "/c" in far.known
    assert asked.minimal == ("/a/b", "/always")
