"""What the core tells: peers its filter, subscribers of `$hub/` who lost messages."""

from __future__ import annotations

import pytest

from hub.delivery import Role
from hub.handler import Handler
from hub.mesh.announcement import Announcement
from hub.mesh.upstream import Upstreams
from hub.origin import Origin
from hub.overflow import Overflow
from hub.turn import STEPS_PER_TURN
from tests.hub.fakes import FarSide, Turn, handler_of

HERE, THERE = b"h" * 16, b"t" * 16

# Links.


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
    assert kept.of_way(THERE) == ()
    turn.core.mesh.hear(link, Announcement(THERE, 1, 2, "", ()))
    assert turn.core.routes.find("/a") is not kept
    assert link not in turn.core.routes.find("/a").handlers


# Messages that are not taken.

FAR = b"f" * 16
OLD, NEW = Origin(FAR, 1), Origin(FAR, 2)


class FakeTraffic:
    """Takes what its upstreams do, of hubs that are all known; remembers what was refused."""

    def __init__(self) -> None:
        self.upstreams: Upstreams[Handler] = Upstreams()
        self.accepts, self.is_lost = self.upstreams.accepts, self.upstreams.is_lost
        self.refused: list[tuple[Origin, int]] = []

    def refuse(self, _: Handler, origin: Origin, messages: int) -> None:
        self.refused.append((origin, messages))

    def way(self, _: Handler, origin: bytes) -> bytes:
        return origin


@pytest.mark.parametrize("in_one_read", [True, False])
def test_messages_that_newer_ones_have_overtaken_are_a_gap(*, in_one_read: bool) -> None:
    """Once a read, where no other link can bring them, and the link may; for the link they have arrived."""
    turn = Turn()
    core = turn.core
    traffic = core._traffic = FakeTraffic()  # type: ignore[assignment]
    core._upstreams = traffic.upstreams
    one, _ = turn.join(role=Role.LINK)
    other, _ = turn.join(role=Role.LINK)
    reader, outlet = turn.join("/a")

    def bring(link: Handler, origin: Origin | None, messages: int = 1) -> bool:
        link.bring_from(origin)  # type: ignore[arg-type]
        before = len(outlet.values)
        if in_one_read:
            turn.read(link, [("/a", 0)] * messages)
        else:
            turn.publish(link, "/a", *[0] * messages)
        core.flush()
        return len(outlet.values) > before

    one.way = FAR
    assert bring(one, None)
    assert one.way is None, "a hub that says nothing of origins is believed, and its messages go no further"
    assert bring(one, OLD)
    assert (one.accepted_at, one.way) == (traffic.upstreams.turnover, FAR)
    assert not bring(other, OLD, 2)
    assert (traffic.refused, outlet.gaps) == ([(OLD, 2)], []), "the first link may bring them still"
    assert bring(other, NEW)
    published = one.published_messages
    assert not bring(one, OLD, 3)
    assert not bring(one, OLD, 4)
    assert (traffic.refused[1:], outlet.gaps, reader.dropped_messages) == ([(OLD, 3), (OLD, 4)], [3, 4], 0)
    assert one.published_messages == published + 7
    one.publishes_in = set()
    assert not bring(one, OLD)
    assert outlet.gaps == [3, 4], "what a link may not bring is missed by nobody"


# Losses.


def test_losses_are_reported_once() -> None:
    """One event for each handler that lost messages since the last report, with that number and the total."""
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
    """It is told under a topic of its own: whoever looks for a queue that is too small would look in vain."""
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
    """Not what leaves want; what is asked for in any case stands there from the beginning and for good."""
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
    turn.core.detach(link, "lost")
    turn.core.flush()
    assert told.known == {"/a/", "/always/"}
    assert set(turn.core.prefixes.asked_of_links.minimal) == {"/a/", "/leaf"}


def test_leaves_are_not_asked_for_what_is_not_theirs() -> None:
    """The hub's own topics, and what a rule forbids; links are told such prefixes, and narrower ones are asked for."""
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
    """Strangers are told it before they are leaves: it is made once, and kept up to date from then on."""
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
