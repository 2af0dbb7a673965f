"""Leaves that several hubs have: whoever knows the same takes the same hub for the gateway."""

from __future__ import annotations

from hub.delivery import Role
from hub.handler import Handler
from hub.leaves import Leaves
from hub.mesh.announcement import Interests, Leaf
from hub.names.claim import LATEST_US
from hub.overflow import QueueLimits
from tests.hub.fakes import FakeOutlet

_LEAF, _ELSE = b"leaf" * 4, b"else" * 4
_A, _B, _C = (letter * 16 for letter in (b"a", b"b", b"c"))


class Party:
    def __init__(self) -> None:
        self.leaves = Leaves(_B)
        self.gateways: list[bytes] = []
        self.announced: list[Interests] = []
        self.leaves.tell(self.announced.append)

    def claim(self, now_us: int = 10) -> bytes:
        return self.leaves.claim(_LEAF, now_us, self.gateways.append)


def test_the_latest_time() -> None:
    party = Party()
    party.leaves.hear(_C, [(_LEAF, LATEST_US)], [])
    assert party.claim() == _B
    assert party.announced[1:] == [Interests((Leaf(_LEAF, LATEST_US),))]


def test_what_is_not_taken_is_counted() -> None:
    party = Party()
    leaf = Handler(FakeOutlet(), role=Role.LEAF, limits=QueueLimits())
    party.claim()
    leaf.published_messages = 5
    party.leaves.join(_LEAF, leaf)
    assert not leaf.delivery.is_left
    party.leaves.hear(_A, [(_LEAF, 8)], [])
    assert leaf.delivery.is_left
    leaf.published_messages = 7
    assert party.leaves.skipped_messages == 2
    party.leaves.hear(_A, [], [_LEAF])
    leaf.published_messages = 9
    assert not leaf.delivery.is_left
    party.leaves.skip(3)
    party.leaves.hear(_A, [(_LEAF, 8)], [])
    leaf.published_messages = 10
    assert party.leaves.skipped_messages == 6
    party.leaves.release(_LEAF)
    assert party.leaves.skipped_messages == 6
