"""The prefixes of handlers: one place for the multimap, what routes forget, and what far sides are asked for."""

from __future__ import annotations

import pytest

from hub.delivery import Role
from hub.errors import InvalidTopicError, RejectedError
from hub.handler import Handler
from hub.holdings import Allowance
from hub.memory import Memory
from hub.multimap import PrefixMultimap
from hub.prefixes import Asked, PrefixSubscriptions
from hub.quotas.resource import Resource
from hub.turn import STEPS_PER_TURN, Turn
from tests.hub.fakes import FarSide, handler_of


class Desk:
    def __init__(self) -> None:
        self.multimap: PrefixMultimap[Handler] = PrefixMultimap()
        self.forgotten: list[str] = []
        self.attached: set[int] = set()
        allowed = Allowance("prefixes", Resource.PREFIXES, 3, 3, Memory(), len)
        leaves = Asked(lambda delivery, prefix: delivery.asks_leaves(prefix))
        self.prefixes = PrefixSubscriptions(self.multimap, self.forgotten.append, allowed, self.attached, leaves)

    def join(self, role: Role = Role.CLIENT) -> Handler:
        handler = handler_of(role=role)
        handler.id = len(self.attached) + 1
        self.attached.add(handler.id)
        return handler

    def subscribe(self, handler: Handler, *prefixes: str) -> None:
        for _ in self.prefixes.subscribing(handler, prefixes):
            pass

    def wanting(self, topic: str) -> set[Handler]:
        return set(self.multimap.find(topic))


def test_what_is_subscribed_several_times() -> None:
    """It stands in the multimap once, until it was taken back as often; routes forget each change, and no more."""
    desk = Desk()
    handler = desk.join()
    desk.subscribe(handler, "/a", "/a")
    assert (len(desk.prefixes), desk.forgotten, desk.wanting("/a/b")) == (1, ["/a"], {handler})
    list(desk.prefixes.unsubscribing(handler, ["/a", "/never"]))
    assert (desk.forgotten, desk.wanting("/a/b")) == (["/a"], {handler})
    list(desk.prefixes.unsubscribing(handler, ["/a"]))
    assert (len(desk.prefixes), desk.forgotten, desk.wanting("/a/b")) == (0, ["/a", "/a"], set())


@pytest.mark.parametrize(
    ("wanted", "error"), [(["/b", "x" * 70_000], InvalidTopicError), (["/b", "/c", "/d", "/e"], RejectedError)]
)
def test_all_or_none(wanted: list[str], error: type[Exception]) -> None:
    desk = Desk()
    handler = desk.join()
    desk.subscribe(handler, "/a")
    with pytest.raises(error):
        desk.subscribe(handler, *wanted)
    assert handler.prefixes == {"/a": 1}
    assert desk.forgotten == ["/a"]


def test_who_leaves_meanwhile_gets_no_more() -> None:
    desk = Desk()
    handler = desk.join()
    steps = desk.prefixes.subscribing(handler, ["/a", "/b"])
    next(steps)
    desk.attached.clear()
    assert list(steps) == []
    assert handler.prefixes == {"/a": 1}


def test_what_is_taken_away_goes_at_once() -> None:
    desk = Desk()
    handler = desk.join()
    desk.subscribe(handler, "/a", "/a", "/b")
    desk.prefixes.take_away(handler, "/a")
    desk.prefixes.take_away(handler, "/never")
    assert handler.prefixes == {"/b": 1}
    assert desk.forgotten == ["/a", "/b", "/a"]


def test_who_has_left_is_taken_out_in_steps() -> None:
    desk = Desk()
    handler = desk.join(Role.LOCAL)
    desk.subscribe(handler, *(f"/{number}/{'x' * 256}" for number in range(STEPS_PER_TURN)))
    turn = Turn(lambda: None)
    assert not desk.prefixes.forget(handler, turn)
    assert len(handler.prefixes) == len(desk.prefixes) == STEPS_PER_TURN // 2
    turn.begin()
    assert desk.prefixes.forget(handler, turn)
    assert len(desk.prefixes) == 0


def test_links_and_leaves_hear_what_they_are_asked_for() -> None:
    """A link from the beginning; a leaf from the first one on, with what everybody had before. No more after that."""
    desk = Desk()
    client, link, leaf = desk.join(), desk.join(Role.LINK), desk.join(Role.LEAF)
    to_link, to_leaf = FarSide(), FarSide()
    desk.prefixes.tell(link, to_link, ())
    desk.subscribe(client, "/a")
    desk.prefixes.tell(leaf, to_leaf, [client])
    desk.subscribe(client, "/b")
    assert to_link.known == to_leaf.known == {"/a", "/b"}
    kept = desk.prefixes.of_leaves(())
    assert kept.minimal == desk.prefixes.asked_of_links.minimal == ("/a", "/b")
    desk.prefixes.tell_no_more(link)
    desk.prefixes.take_away(client, "/a")
    assert to_link.known == {"/a", "/b"}
    assert to_leaf.known == {"/b"}
