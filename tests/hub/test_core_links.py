"""What the core tells: peers its filter, subscribers of `$hub/` who lost messages."""

from __future__ import annotations

from hub.delivery import Role
from hub.filter import Change
from hub.mesh.announcement import Announcement
from hub.overflow import Overflow
from hub.turn import STEPS_PER_TURN
from tests.hub.fakes import FarSide, Turn, handler_of

HERE, THERE = b"h" * 16, b"t" * 16

# Links.


def test_the_mesh_is_told_the_filter_and_its_changes() -> None:
    turn = Turn()
    turn.join("/a/", "/a/b", "/c")
    told = FarSide()
    turn.core.prefixes.asked_of_links.tell(None, told)
    assert told.changes == [Change(("/a/", "/c"))]
    turn.join("/far", role=Role.LINK)
    client, _ = turn.join("/a/x", "/d", "/d")
    turn.core.subscribe(client, ["/"])
    turn.core.unsubscribe(client, ["/", "/d"])
    assert told.changes[1:] == [
        Change(("/d",)),
        Change(("/",), ("/a/", "/c", "/d")),
        Change(("/a/", "/c", "/d"), ("/",)),
    ]
    turn.core.detach(client, "done")
    assert told.changes[4:] == [Change(removed=("/d",))]
    assert told.known == set(turn.core.prefixes.asked_of_links.minimal) == {"/a/", "/c"}


def test_messages_without_a_way() -> None:
    turn = Turn(hub_id=HERE)
    client, _ = turn.join()
    link, _ = turn.join("/a", role=Role.LINK)
    source, _ = turn.join(role=Role.LINK)
    count = turn.core.mesh.statistics
    turn.publish(client, "/a", 1)
    turn.publish(source, "/a", 2, 3)
    turn.core.flush()
    assert count().unreached_messages_total == 0
    turn.core.detach(link, "lost")
    turn.publish(client, "/a", 4)
    turn.publish(client, "/b", 5)
    turn.core.flush()
    assert count().unreached_messages_total == 1
    turn.publish(source, "/a", 6, 7)  # whoever sent it believes that the other hub is reached here
    turn.publish(source, "/b", 8)
    turn.core.flush()
    assert count().unreached_messages_total == 3
    _, reader = turn.join("/a")
    turn.publish(source, "/a", 9)
    turn.core.flush()
    assert reader.values == [9]
    assert count().unreached_messages_total == 3


def test_a_route_that_somebody_keeps_does_not_keep_old_ways() -> None:
    turn = Turn(hub_id=HERE)
    link = handler_of(role=Role.LINK)
    turn.core.attach(link)
    turn.core.link(link, THERE, lambda: None)
    turn.core.mesh.hear(link, Announcement(THERE, 0, 1, "", ((HERE, 1),), ("/a",)))
    turn.core.mesh.check(0.0)
    turn.core.flush()
    kept = turn.core.routes.find("/a")
    assert kept.handlers == (link,)
    assert link not in kept.of_way(THERE)
    turn.core.mesh.hear(link, Announcement(THERE, 1, 2, "", ()))
    assert turn.core.routes.find("/a") is not kept
    assert link not in turn.core.routes.find("/a").handlers


# Losses.


def test_losses_are_reported_once() -> None:
    turn = Turn()
    source, _ = turn.join()
    _, watcher = turn.join("$hub/overflow")
    slow = [turn.join("/a", messages=2, name=f"slow-{number}")[0] for number in range(2)]
    for handler in slow:
        handler.pause()
    assert turn.core.report_drops() == []
    for _ in range(3):
        turn.publish(source, "/a", 1, 2)
    slow[1].resume()
    reported = turn.core.report_drops()
    assert [(event.value["name"], event.value["lost"], event.value["queued"]) for event in reported] == [
        ("slow-0", 4, 2),
        ("slow-1", 4, 0),
    ]
    assert turn.core.report_drops() == []
    turn.publish(source, "/a", 1)
    (again,) = turn.core.report_drops()
    assert (again.value["name"], again.value["lost"], again.value["total"]) == ("slow-0", 1, 5)
    turn.core.flush()
    assert watcher.values == [event.value for event in [*reported, again]]


def test_what_the_far_side_cannot_read_is_no_overflow() -> None:
    turn = Turn()
    source, _ = turn.join()
    _, watcher = turn.join("$hub/")
    slow, _ = turn.join("/a", messages=2, name="slow")
    slow.lose(5)
    (event,) = turn.core.report_drops()
    assert event.topic == "$hub/unreadable"
    assert (event.value["name"], event.value["lost"], event.value["total"]) == ("slow", 5, 5)
    slow.pause()
    turn.publish(source, "/a", 1, 2, 3)
    slow.lose(1)
    overflowed, unread = turn.core.report_drops()
    assert (overflowed.topic, overflowed.value["lost"], overflowed.value["total"]) == ("$hub/overflow", 1, 1)
    assert (unread.topic, unread.value["lost"], unread.value["total"]) == ("$hub/unreadable", 1, 6)
    assert turn.core.report_drops() == []
    turn.core.flush()
    assert [value for value in watcher.values if "lost" in value] == [event.value, overflowed.value, unread.value]


def test_a_handler_that_lost_and_left_is_still_reported() -> None:
    turn = Turn()
    source, _ = turn.join()
    slow, outlet = turn.join("/a", messages=2, overflow=Overflow.DISCONNECT)
    outlet.on_close = lambda: turn.core.detach(slow, "overflow")
    slow.pause()
    turn.publish(source, "/a", 1, 2, 3)
    (event,) = turn.core.report_drops()
    assert (event.value["id"], event.value["lost"], event.value["overflow"]) == (slow.id, 3, "disconnect")


def test_leaves_are_told_what_clients_and_links_want() -> None:
    turn = Turn(asked_of_leaves=("/always/",))
    turn.join("/a/", "/a/b")
    link, _ = turn.join("/far", role=Role.LINK)
    told = FarSide()
    leaf = handler_of(role=Role.LEAF)
    turn.core.attach(leaf, told)
    assert told.known == {"/a/", "/always/", "/far"}
    turn.core.subscribe(leaf, ["/leaf"])
    client, _ = turn.join("/always/this", "/")
    assert told.known == {"/"}
    turn.core.detach(client, "done")
    turn.core.mesh.hear(link, Announcement(link.id.to_bytes(16), 1, 2, removed=("/far",)))
    turn.core.flush()
    assert told.known == {"/a/", "/always/"}
    assert set(turn.core.prefixes.asked_of_links.minimal) == {"/a/", "/leaf"}


def test_leaves_are_not_asked_for_what_is_not_theirs() -> None:
    turn = Turn(may_ask_leaves=lambda prefix: prefix != "")
    turn.join("$hub/peers/", "", "/a/b")
    told, leaf = FarSide(), handler_of(role=Role.LEAF)
    turn.core.attach(leaf, told)
    assert told.known == {"/a/b"}
    client, _ = turn.join("/a/", "", "$hub/")
    assert told.known == {"/a/"}
    assert set(turn.core.prefixes.asked_of_links.minimal) == {""}
    turn.core.detach(client, "done")
    turn.core.flush()
    assert told.known == {"/a/b"}


def test_leaves_that_come_and_go_find_the_filter_as_it_is() -> None:
    turn = Turn()
    many, _ = turn.join(*(f"/{number}" for number in range(1_500)), role=Role.LOCAL)
    told = FarSide()
    first = handler_of(role=Role.LEAF)
    turn.core.attach(first, told)
    turn.core.detach(first, "lost")
    turn.core.detach(many, "done")
    again = FarSide()
    turn.core.attach(handler_of(role=Role.LEAF), again)
    assert again.known
    for _ in range(1_500 // STEPS_PER_TURN):
        turn.core.flush()
    assert again.known == set()


def test_what_leaves_would_be_told_follows_the_subscribers() -> None:
    turn = Turn()
    turn.join("/a/")
    assert turn.core.minimal_filter_for_leaves == ("/a/",)
    client, _ = turn.join("/b", "/a/c")
    known = turn.core.prefixes.of_leaves(())._filters
    assert turn.core.minimal_filter_for_leaves == ("/a/", "/b")
    turn.core.detach(client, "done")
    leaf = handler_of(role=Role.LEAF)
    turn.core.attach(leaf, FarSide())
    turn.core.detach(leaf, "lost")
    assert turn.core.minimal_filter_for_leaves == ("/a/",)
    assert turn.core.prefixes.of_leaves(())._filters is known
