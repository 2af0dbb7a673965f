"""Those who leave: what they had is given back in their order, and all of it together takes one share of a turn."""

from __future__ import annotations

from functools import partial

from hub.delivery import Role
from hub.departures import Departures
from hub.handler import Handler
from hub.holdings import Allowance
from hub.memory import Memory
from hub.multimap import PrefixMultimap
from hub.prefixes import Asked, PrefixSubscriptions
from hub.quotas.resource import Resource
from hub.tags.rules import RuleIndex, characters
from hub.tags.subscriptions import RuleSubscriptions
from hub.turn import STEPS_PER_TURN, Turn
from tests.hub.fakes import handler_of


class Exit:
    """Departures with prefixes and rules of their own."""

    def __init__(self) -> None:
        self.turn = Turn(lambda: None)
        memory, index = Memory(), RuleIndex[Handler]()
        self.prefixes = PrefixSubscriptions(
            PrefixMultimap(),
            lambda _: None,
            Allowance("prefixes", Resource.PREFIXES, 10_000, 10_000, memory, len),
            {0},
            Asked(lambda _, __: False),
        )
        rules_allowed = Allowance("rules", Resource.RULES, 10, 10, memory, characters)
        rules = RuleSubscriptions(index, lambda _: None, rules_allowed)
        self.departures = Departures(self.turn, self.prefixes, rules)

    def handler(self, prefixes: int) -> Handler:
        """A handler with so many prefixes."""
        handler = handler_of(role=Role.LOCAL)
        for _ in self.prefixes.subscribing(handler, [f"/{handler.id}/{number}" for number in range(prefixes)]):
            pass
        return handler

    def end_turn(self) -> None:
        """The next turn ends."""
        self.turn.begin()
        self.departures.go_on()


def test_far_sides_are_given_back_in_their_order() -> None:
    """At once while the turn has steps; then all wait, each behind those who went before."""
    way, gone = Exit(), list[int]()
    way.departures.depart(partial(gone.append, 0))
    assert gone == [0]
    assert not way.departures.is_behind
    for number in range(1, STEPS_PER_TURN):
        way.departures.depart(partial(gone.append, number))
    assert way.departures.is_behind
    at_once = len(gone)
    way.turn.begin()
    way.departures.depart(partial(gone.append, STEPS_PER_TURN))
    assert len(gone) == at_once, "who comes when others wait, waits behind them"
    while way.departures.is_behind:
        before = len(gone)
        way.end_turn()
        assert 0 < len(gone) - before <= at_once
    assert gone == list(range(STEPS_PER_TURN + 1))


def test_handlers_stay_in_sight_until_nothing_of_them_is_left() -> None:
    """The one that left first is taken out first; one without prefixes is gone at once."""
    way = Exit()
    way.departures.leave(way.handler(0))
    assert not way.departures.is_behind
    many, few = way.handler(2 * STEPS_PER_TURN), way.handler(1)
    way.departures.leave(many)
    way.departures.leave(few)
    assert list(way.departures) == [many, few]
    assert len(many.prefixes) == STEPS_PER_TURN
    way.end_turn()
    assert way.departures.is_behind
    assert list(way.departures)[-1] is few
    way.end_turn()
    assert list(way.departures) == []
    assert not way.departures.is_behind
    assert len(way.prefixes) == 0
