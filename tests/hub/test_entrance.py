"""Connections are charged to their users; one that is too many is closed as the turn ends."""

from __future__ import annotations

from hub.delivery import Role
from hub.departures import Entrance
from hub.errors import CloseCode
from hub.handler import Handler
from hub.policy.grants import User
from hub.quotas.limits import QuotaLimits, SetLimits
from hub.quotas.quotas import Quotas
from hub.quotas.resource import Resource
from hub.turn import Turn
from tests.hub.fakes import ROOMY, FakeOutlet

ALICE = User("alice", frozenset())


class Scene:
    """An entrance for users who may have one connection."""

    def __init__(self) -> None:
        self.wakes: list[None] = []
        self.quotas = Quotas(limits=QuotaLimits(users={"alice": SetLimits({Resource.CONNECTIONS: 1})}))
        self.entrance = Entrance(self.quotas, Turn(lambda: self.wakes.append(None)))

    def enter(self) -> tuple[Handler, FakeOutlet]:
        """Let one more connection of alice in."""
        outlet = FakeOutlet()
        handler = Handler(outlet, role=Role.CLIENT, limits=ROOMY)
        self.entrance.enter(handler, ALICE)
        return handler, outlet


def test_one_too_many() -> None:
    """It has no share, asks for the end of the turn, and is closed once then; who was there before stays."""
    scene = Scene()
    first, stays = scene.enter()
    assert first.share is not None
    assert not scene.wakes
    second, goes = scene.enter()
    assert second.share is None
    assert len(scene.wakes) == 1
    assert not goes.closed
    scene.entrance.turn_away()
    scene.entrance.turn_away()
    assert [code for code, _ in goes.closed] == [CloseCode.TRY_AGAIN_LATER]
    assert not stays.closed


def test_who_leaves_makes_room() -> None:
    """Whoever was turned away, or has no user, gives nothing back."""
    scene = Scene()
    first, _ = scene.enter()
    second, _ = scene.enter()
    scene.entrance.turn_away()
    scene.entrance.leave(second)
    assert len(scene.quotas) == 1
    scene.entrance.leave(first)
    assert len(scene.quotas) == 0
    assert scene.enter()[0].share is not None
