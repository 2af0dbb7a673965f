"""Whatever comes and goes: once all know the same, each part of a mesh has one gateway for each leaf that it has."""

from __future__ import annotations

from itertools import combinations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from hub.core import Core
from hub.delivery import Role
from hub.handler import Handler
from tests.hub.fakes import handler_of

_HUBS = 4
_LEAVES = [b"leaf" * 4, b"else" * 4]
_QUIET_S = 3.0

_hubs = st.integers(0, _HUBS - 1)
_leaves = st.sampled_from(_LEAVES)


class Party:
    def __init__(self, number: int) -> None:
        self.id = bytes([number + 1]) * 16
        self.core = Core(lambda: None, hub_id=self.id)
        self.links: dict[int, Handler] = {}
        self.gateways: dict[bytes, bytes] = {}

    def claim(self, leaf: bytes, now_us: int) -> None:
        self.gateways[leaf] = self.core.leaves.claim(leaf, now_us, lambda hub: self.gateways.update({leaf: hub}))

    def release(self, leaf: bytes) -> None:
        del self.gateways[leaf]
        self.core.leaves.release(leaf)


class LeavesModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self.parties = [Party(number) for number in range(_HUBS)]

    @rule(one=_hubs, other=_hubs)
    def link(self, one: int, other: int) -> None:
        ends = (one, other), (other, one)
        if one == other:
            return
        for near, far in ends:
            party = self.parties[near]
            if far in party.links:
                party.core.detach(party.links.pop(far), "cut")
            else:
                handler = party.links[far] = handler_of(role=Role.LINK)
                party.core.attach(handler)
                party.core.link(handler, self.parties[far].id, lambda: None)

    @rule(hub=_hubs, leaf=_leaves, now_us=st.integers(0, 3))
    def leaf(self, hub: int, leaf: bytes, now_us: int) -> None:
        party = self.parties[hub]
        if leaf in party.gateways:
            party.release(leaf)
        else:
            party.claim(leaf, now_us)

    @rule()
    def tell(self) -> None:
        self._carry()

    @rule()
    def settle(self) -> None:
        for _ in range(2):
            self.now_s += _QUIET_S
            while self._carry():
                pass
        for part in self._parts():
            for leaf in _LEAVES:
                having = {self.parties[number].id for number in part if leaf in self.parties[number].gateways}
                known = {self.parties[number].core.leaves.gateway_of(leaf) for number in part}
                assert len(known) == 1
                assert known <= (having or {b""})

    @invariant()
    def told(self) -> None:
        for party in self.parties:
            leaves = party.core.leaves
            assert party.gateways == {leaf: leaves.gateway_of(leaf) for leaf in party.gateways}
            assert leaves.left == sum(gateway != party.id for gateway in party.gateways.values())

    def teardown(self) -> None:
        self.settle()

    def _carry(self) -> bool:
        is_busy = False
        for party in self.parties:
            party.core.mesh.check(self.now_s)
        for one, other in combinations(range(_HUBS), 2):
            for near, far in ((one, other), (other, one)):
                if far not in self.parties[near].links:
                    continue
                for told in self.parties[near].core.mesh.take(self.parties[near].links[far]):
                    is_busy = True
                    self.parties[far].core.mesh.hear(self.parties[far].links[near], told)
        for party in self.parties:
            party.core.flush()
        return is_busy

    def _parts(self) -> list[set[int]]:
        parts: list[set[int]] = []
        left = set(range(_HUBS))
        while left:
            part, ahead = set(), {left.pop()}
            while ahead:
                part |= ahead
                ahead = {far for number in ahead for far in self.parties[number].links} - part
            parts.append(part)
            left -= part
        return parts


TestLeavesModel = LeavesModel.TestCase
TestLeavesModel.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
