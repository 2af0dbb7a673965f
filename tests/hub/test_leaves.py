"""Leaves that several hubs have: whoever knows the same takes the same hub for the gateway."""

from __future__ import annotations

from itertools import permutations

import pytest

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


def test_alone() -> None:
    leaves = Leaves(_B)
    assert leaves.claim(_LEAF, 10, lambda _: None) == _B
    told: list[Interests] = []
    leaves.tell(told.append)
    leaves.release(_LEAF)
    assert told == [Interests((Leaf(_LEAF, 10),)), Interests(removed=(Leaf(_LEAF, 10),))]
    assert leaves.gateway_of(_LEAF) == b""


@pytest.mark.parametrize("held", [*permutations([(_A, 7), (_B, 5), (_C, 5)])])
def test_the_first_one(held: list[tuple[bytes, int]]) -> None:
    leaves = Leaves(_A)
    for hub, since_us in held:
        leaves.hear(hub, [(_LEAF, since_us)], [])
    assert leaves.gateway_of(_LEAF) == _B
    leaves.hear(_B, [], [_LEAF])
    assert leaves.gateway_of(_LEAF) == _C


def test_who_comes_later_is_no_gateway() -> None:
    party = Party()
    party.leaves.hear(_C, [(_LEAF, 1_000)], [])
    assert party.claim() == _C
    assert party.announced[1:] == [Interests((Leaf(_LEAF, 1_001),))]
    assert party.leaves.left == 1


def test_turns() -> None:
    party = Party()
    assert party.claim() == _B
    party.leaves.hear(_C, [(_LEAF, 12), (_ELSE, 1)], [])
    assert party.gateways == []
    party.leaves.hear(_A, [(_LEAF, 8)], [])
    party.leaves.hear(_C, [(_LEAF, 6)], [])
    party.leaves.hear(_A, [], [_LEAF, _ELSE])
    party.leaves.hear(_C, [], [_LEAF])
    party.leaves.hear(_C, [], [_LEAF])
    assert party.gateways == [_A, _C, _B]
    party.leaves.release(_LEAF)
    party.leaves.hear(_C, [(_LEAF, 1)], [])
    assert party.gateways == [_A, _C, _B]


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
