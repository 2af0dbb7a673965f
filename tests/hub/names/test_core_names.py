"""Service names in the core: what subscribers hear, and what becomes of the names of those who leave."""

from __future__ import annotations

from hub.delivery import Role
from hub.limits import CoreLimits, NameLimits
from hub.names.claim import Announced, Wish
from hub.turn import STEPS_PER_TURN
from tests.hub.fakes import Turn


def test_subscribers_hear_of_names() -> None:
    turn = Turn(hub_id=b"\x01" * 16)
    _, listener = turn.join("$hub/names/")
    one, _ = turn.join(name="one")
    two, _ = turn.join(name="two")
    turn.core.names.claim(one, Wish("a.b", ["x"]), 1)
    turn.core.names.claim(two, Wish("a.b", [], queue=True), 2)
    turn.core.detach(one, "lost")
    turn.core.flush()
    of_one = {"name": "a.b", "labels": ["x"], "owner": one.id, "hub": "01" * 16}
    of_two = {"name": "a.b", "labels": [], "owner": two.id, "hub": "01" * 16}
    assert listener.messages == [
        ("$hub/names/appeared", of_one),
        ("$hub/names/gone", of_one),
        ("$hub/names/appeared", of_two),
    ]


def test_limits_are_those_that_the_core_was_given() -> None:
    assert Turn(CoreLimits(names=NameLimits(total=7))).core.names.limits.total == 7


def test_a_link_with_many_names_is_taken_out_in_turns() -> None:
    turn = Turn()
    link, _ = turn.join(role=Role.LINK)
    turn.core.names.link(link, b"\x02" * 16, lambda *_: None)
    turn.core.names.hear(link, [Announced(f"a.n{number}", (), 1, 1) for number in range(2500)], [])
    turn.core.detach(link, "lost")
    turns = 0
    while turn.wakes > turns:
        turns += 1
        turn.core.flush()
    assert turns == 2 * 2500 // STEPS_PER_TURN - 1  # the first share was there when it left
    assert turn.core.names.register.list() == []
