"""What a peer subscribes to is brought into the core bit by bit, and in order."""

from __future__ import annotations

from collections.abc import Callable

from hub.delivery import Role
from hub.errors import CloseCode
from hub.limits import CoreLimits
from peers.connections.broker import STEP_PREFIXES, FarSubscriptions
from tests.hub.fakes import Turn


class Stage:
    """A core with one peer, and a loop that goes round when the test says so."""

    def __init__(self, limits: CoreLimits = CoreLimits()) -> None:  # noqa: B008 -- frozen
        self.turn = Turn(limits)
        self.handler, self.outlet = self.turn.join(role=Role.LEAF)
        self.due: list[Callable[[], object]] = []
        self.far = FarSubscriptions(self.turn.core, self.handler, self.due.append)

    @property
    def prefixes(self) -> set[str]:
        return set(self.handler.prefixes)

    def go_round(self) -> int:
        turns = 0
        while self.due:
            self.due.pop(0)()
            turns += 1
        return turns


def test_a_small_filter_is_taken_at_once() -> None:
    stage = Stage()
    stage.far.replace(("/a", "/b", "$hub/"))
    assert stage.prefixes == {"/a", "/b"}
    stage.far.replace(("/b", "/c"))
    assert stage.prefixes == {"/b", "/c"}
    stage.far.replace(())
    assert stage.prefixes == set()
    assert stage.due == []


def test_a_large_filter_takes_turns() -> None:
    stage = Stage()
    large = tuple(f"/p/{number}/" for number in range(20_000))
    stage.far.replace(large)
    assert stage.prefixes == set()
    stage.due.pop(0)()
    assert len(stage.prefixes) <= STEP_PREFIXES
    stage.far.replace(("/p/7/", "/last"))
    assert stage.go_round() >= 2 * 20_000 // STEP_PREFIXES - 2
    assert stage.prefixes == {"/p/7/", "/last"}


def test_a_peer_that_is_gone() -> None:
    stage = Stage()
    stage.far.replace(tuple(f"/p/{number}/" for number in range(20_000)))
    stage.turn.core.detach(stage.handler, "lost")
    stage.go_round()
    assert not stage.handler.prefixes
    assert stage.turn.core.statistics().routing.subscriptions == 0


def test_a_filter_of_too_many_prefixes_ends_the_peering() -> None:
    stage = Stage(CoreLimits(peer_prefixes=3))
    stage.far.replace(tuple(f"/{number}" for number in range(4)))
    assert stage.outlet.closed == [(CloseCode.NOT_ALLOWED, "4 prefixes, the limit for a peer is 3")]
    assert stage.prefixes == set()
