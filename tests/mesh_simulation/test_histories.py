"""Many random histories of many hubs, and whatever can happen to three to six of them, in any order.

`tests/soak/hub.py` has larger meshes, up to 1,000 hubs; `tests/suite/planted` has defects that must be found.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from hub.limits import MeshLimits
from hub.mesh.link_state import FORGET_S
from tests.mesh_simulation.histories import PREFIXES, SHAPES, TOPICS, Plan, large_plan, run
from tests.mesh_simulation.world import Cable, Ending, World

COSTS = ((1,), (1,), (1, 2), (1, 2, 3, 10))  # Of links: in half of the meshes all cost the same

GROUPS = 6  # Of histories: each is one test

# How many hubs, in turn: defects show in small meshes, long ways only in large ones
SIZES = (5, 8, 12, 20, 5, 8, 30, 5, 8, 12, 20, 8)

HISTORIES = len(SIZES) * len(SHAPES)

# How many hubs a full mesh has at most, for what it costs grows with the third power; those of the soak have 15
LINKED_WITH_ALL = 8


def _plan(seed: int) -> Plan:
    shape = SHAPES[seed // len(SIZES) % len(SHAPES)]
    hubs = SIZES[seed % len(SIZES)]
    if shape == "full":
        hubs = min(hubs, LINKED_WITH_ALL)
    return Plan(seed, hubs, shape, even=seed % 3 == 0, costs=COSTS[seed % len(COSTS)])


@pytest.mark.parametrize("group", range(GROUPS))
def test_whatever_happens_the_mesh_does_what_it_promises(group: int) -> None:
    seeds = range(group * HISTORIES // GROUPS, (group + 1) * HISTORIES // GROUPS)
    assert sum(run(_plan(seed)).delivered for seed in seeds)


def test_hubs_that_cannot_keep_what_others_want() -> None:
    limits = MeshLimits(), MeshLimits(prefixes=1), MeshLimits(prefixes=2), MeshLimits(prefixes_total=9)
    for seed in range(16):
        plan = _plan(seed)._replace(hubs=5 + seed % 8, shape=SHAPES[seed % len(SHAPES)], limits=limits)
        plan = plan._replace(rounds=4, events=40, subscribers=4)
        assert run(plan).delivered


def test_many_hubs_do_so_too() -> None:
    assert run(large_plan(80)).delivered


# A mesh that lives for long, while hubs come and go.


SITES = 6
RESTARTS = 60


def test_hubs_that_are_gone_are_forgotten_however_often_others_come() -> None:
    chance = Random(5)  # noqa: S311 -- the same each time
    ring = [(site, (site + 1) % SITES, 0.01) for site in range(SITES)]
    world = World(SITES, [*ring, (0, 3, 0.01), (1, 4, 0.01)])
    gone_s: list[float] = []
    for _ in range(RESTARTS):
        site = chance.randrange(SITES)
        world.crash(site, Ending.CLOSED)
        gone_s.append(world.clock.now_s)
        world.run_for(1.0)
        world.restart(site)
        world.run_for(chance.uniform(5.0, 25.0))
        remembered = sum(world.clock.now_s - at_s < FORGET_S + 5.0 for at_s in gone_s)
        assert max(len(hub.mesh.records) for hub in world.sites) <= SITES + remembered
    world.settle(range(SITES), ["/a/1"])


# Small meshes: the shortest history that breaks one is shown.


_NUMBERS = st.integers(0, 14)  # Of sites and cables: what is over is counted from the start again

_SIDES = st.integers(0, 1)
_WHILES_S = st.sampled_from([0.0, 0.005, 0.02, 0.1, 0.3, 1.0, 2.5, 11.0])
_DELAYS_S = st.sampled_from([0.001, 0.01, 0.011, 0.1])


class SmallMesh(RuleBasedStateMachine):
    """A mesh that is asked at the end to be quiet, and to do then all that it has promised."""

    def __init__(self) -> None:
        super().__init__()
        self.world: World

    @initialize(
        hubs=st.integers(3, 6),
        pairs=st.lists(st.tuples(_NUMBERS, _NUMBERS, _DELAYS_S), max_size=9),
        tree=st.lists(st.tuples(_NUMBERS, _DELAYS_S), min_size=5, max_size=5),
        costs=st.sampled_from([(1,), (1, 2, 3)]),
        limits=st.sampled_from([(MeshLimits(),), (MeshLimits(), MeshLimits(prefixes=1), MeshLimits(prefixes_total=3))]),
    )
    def begin(
        self,
        hubs: int,
        pairs: list[tuple[int, int, float]],
        tree: list[tuple[int, float]],
        costs: tuple[int, ...],
        limits: tuple[MeshLimits, ...],
    ) -> None:
        cables = {(before % site, site): delay_s for site, (before, delay_s) in enumerate(tree[: hubs - 1], 1)}
        for a, b, delay_s in pairs:
            if a % hubs < b % hubs:
                cables.setdefault((a % hubs, b % hubs), delay_s)
        between = [(a, b, delay_s) for (a, b), delay_s in cables.items()]
        self.world = World(hubs, between, costs=costs, limits=limits)
        self.world.subscribe(0, "/a/")
        self.world.subscribe(hubs - 1, "/")

    @rule(site=_NUMBERS, topic=st.sampled_from(TOPICS), publisher=_SIDES)
    def publish(self, site: int, topic: str, publisher: int) -> None:
        self.world.publish(self._site(site), topic, publisher)

    @rule(site=_NUMBERS, topic=st.sampled_from(TOPICS), times=st.integers(2, 20), every_s=_DELAYS_S)
    def publish_for_a_while(self, site: int, topic: str, times: int, every_s: float) -> None:
        for _ in range(times):
            self.world.publish(self._site(site), topic)
            self.world.run_for(every_s)

    @rule(time_s=_WHILES_S)
    def wait(self, time_s: float) -> None:
        self.world.run_for(time_s)

    @rule(cable=_NUMBERS, ending=st.sampled_from(Ending), side=_SIDES)
    def cut(self, cable: int, ending: Ending, side: int) -> None:
        self.world.cut(self._cable(cable), ending, side)

    @rule(cable=_NUMBERS)
    def connect(self, cable: int) -> None:
        self.world.connect(self._cable(cable))

    @rule(cable=_NUMBERS, ending=st.sampled_from(Ending), side=_SIDES)
    def reconnect(self, cable: int, ending: Ending, side: int) -> None:
        self.world.cut(self._cable(cable), ending, side)
        self.world.connect(self._cable(cable))

    @rule()
    def heal(self) -> None:
        self.world.heal()

    @rule(cable=_NUMBERS, side=_SIDES, time_s=_WHILES_S)
    def stall(self, cable: int, side: int, time_s: float) -> None:
        self.world.stall(self._cable(cable), side, min(time_s, 3.0))

    @rule(cable=_NUMBERS, side=_SIDES, time_s=_WHILES_S)
    def fill(self, cable: int, side: int, time_s: float) -> None:
        self.world.fill(self._cable(cable), side, min(time_s, 3.0))

    @rule(site=_NUMBERS, prefix=st.sampled_from(PREFIXES))
    def subscribe(self, site: int, prefix: str) -> None:
        self.world.subscribe(self._site(site), prefix)

    @rule(number=_NUMBERS)
    def unsubscribe(self, number: int) -> None:
        self.world.unsubscribe(number)

    @rule(site=_NUMBERS, ending=st.sampled_from([Ending.CLOSED, Ending.RESET, Ending.SILENT]))
    def crash(self, site: int, ending: Ending) -> None:
        self.world.crash(self._site(site), ending)

    @rule(site=_NUMBERS)
    def restart(self, site: int) -> None:
        self.world.restart(self._site(site))

    @rule()
    def settle(self) -> None:
        self.world.settle(range(len(self.world.sites)), TOPICS)

    def teardown(self) -> None:
        self.settle()

    def _site(self, number: int) -> int:
        return number % len(self.world.sites)

    def _cable(self, number: int) -> Cable:
        return self.world.cables[number % len(self.world.cables)]


TestSmallMeshes = SmallMesh.TestCase
TestSmallMeshes.settings = settings(max_examples=max(40, settings().max_examples // 2))
