"""Three to six hubs, and whatever can happen to them, in any order: the shortest history that breaks it is shown."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from hub.limits import MeshLimits
from tests.mesh_simulation.histories import PREFIXES, TOPICS
from tests.mesh_simulation.world import Cable, Ending, World

_NUMBERS = st.integers(0, 14)
"""Of sites and cables: what is over is counted from the start again."""

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
