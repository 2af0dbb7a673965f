"""Connections are charged to their users; one that is too many is closed as the turn ends."""

from __future__ import annotations

from hub.admission import Admission
from hub.delivery import Role
from hub.errors import CloseCode
from hub.handler import Handler
from hub.policy.grants import User
from hub.quotas.limits import QuotaLimits, SetLimits
from hub.quotas.quotas import Quotas
from hub.quotas.resource import Resource
from hub.turn import Turn
from tests.hub.fakes import ROOMY, FakeOutlet

ALICE = User("alice", frozenset())


class Entrance:
    """An admission of users who may have one connection."""

    def __init__(self) -> None:
        self.wakes: list[None] = []
        self.quotas = Quotas(limits=QuotaLimits(users={"alice": SetLimits({Resource.CONNECTIONS: 1})}))
        self.admission = Admission(self.quotas, Turn(lambda: self.wakes.append(None)))

    def enter(self) -> tuple[Handler, FakeOutlet]:
        """Let one more connection of alice in."""
        outlet = FakeOutlet()
        handler = Handler(outlet, role=Role.CLIENT, limits=ROOMY)
        self.admission.enter(handler, ALICE)
        return handler, outlet


def test_one_too_many() -> None:
    """It has no share, asks for the end of the turn, and is closed once then; who was there before stays."""
    entrance = Entrance()
    first, stays = entrance.enter()
    assert first.share is not None
    assert not entrance.wakes
    second, goes = entrance.enter()
    assert second.share is None
    assert len(entrance.wakes) == 1
    assert not goes.closed
    entrance.admission.turn_away()
    entrance.admission.turn_away()
    assert [code for code, _ in goes.closed] == [CloseCode.TRY_AGAIN_LATER]
    assert not stays.closed


def test_who_leaves_makes_room() -> None:
    """Whoever was turned away, or has no user, gives nothing back."""
    entrance = Entrance()
    first, _ = entrance.enter()
    second, _ = entrance.enter()
    entrance.admission.turn_away()
    entrance.admission.leave(second)
    assert len(entrance.quotas) == 1
    entrance.admission.leave(first)
    assert len(entrance.quotas) == 0
    assert entrance.enter()[0].share is not None
