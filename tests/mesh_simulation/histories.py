"""Histories by chance: a graph, and what happens to it for a while, all of it from one seed.

```
shape, hubs ─▶ cables ─▶ World ─▶ churn, publishing meanwhile ─▶ settle ─▶ churn ─▶ settle ─▶ ... ─▶ Counts
```

Here is the only chance in a history; the same plan gives the same history, event for event, so that one that fails can
be run again: `run(Plan(seed=...))`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import combinations
from operator import itemgetter
from random import Random
from typing import NamedTuple

from hub.limits import MeshLimits
from hub.mesh.link_state import FORGET_S
from tests.mesh_simulation.network import SILENT_S
from tests.mesh_simulation.world import Cable, Counts, Ending, World

__all__ = ["SHAPES", "Plan", "cables_of", "large_plan", "run"]

SHAPES = ("chain", "star", "ring", "full", "random")

PREFIXES = ("/", "/a/", "/a/1", "/a/2", "/b/", "/b/1", "/c/")
TOPICS = ("/a/1", "/a/2/x", "/b/1", "/b/2", "/c/", "/d")

_FULL_HUBS_LIMIT = 15  # In a full mesh of more hubs, nothing else happens for very many announcements

# News cross the mesh in this time, about: what is promised of a quiet network is promised where they do
_CROSSING_S = 1.0

_SLOWEST_S = 0.12  # The longest delay of a cable: once around the earth, nearly


class Plan(NamedTuple):
    seed: int
    hubs: int = 100
    shape: str = "random"
    rounds: int = 2  # How often the network is let be quiet, and then asked for what is promised
    churn_s: float = 5.0  # How long things happen in each round
    events: int = 20  # How many things happen to links, hubs and filters in this time
    messages: int = 200  # How many messages are published in this time
    publishers: int = 5  # At how many hubs
    even: bool = False  # Whether all cables take the same time
    costs: tuple[int, ...] = (1,)  # What links may cost
    subscribers: int = 1  # Most subscribers of a hub at the start
    limits: tuple[MeshLimits, ...] = (MeshLimits(),)  # What hubs may keep


def large_plan(hubs: int) -> Plan:
    return Plan(seed=1, hubs=hubs, rounds=1, events=8, messages=100, publishers=3, even=True)


def cables_of(shape: str, hubs: int, chance: Random, *, even: bool = False) -> Iterator[tuple[int, int, float]]:
    """Draw the cables of a graph that is connected."""
    match shape:
        case "chain":
            pairs = [(site, site + 1) for site in range(hubs - 1)]
        case "star":
            pairs = [(0, site) for site in range(1, hubs)]
        case "ring":
            pairs = [(site, (site + 1) % hubs) for site in range(hubs)]
        case "full":
            pairs = list(combinations(range(hubs), 2))
        case _:
            pairs = _random_pairs(hubs, chance)
    # In most meshes all ways are of a kind; in some, the way that has fewer hops is the slower one.
    fastest_s = min(chance.choice((0.0001, 0.005, 0.05)), _CROSSING_S / (1.5 * _longest_way(shape, hubs)))
    for a, b in pairs:
        if even:
            yield a, b, fastest_s
            continue
        yield a, b, min(_SLOWEST_S, fastest_s * chance.uniform(1.0, 20.0 if chance.random() < 0.1 else 1.5))


def _longest_way(shape: str, hubs: int) -> int:
    return {"chain": hubs, "ring": hubs // 2, "star": 2, "full": 1}.get(shape, 3 * hubs.bit_length())


def _random_pairs(hubs: int, chance: Random) -> list[tuple[int, int]]:
    pairs = {(chance.randrange(site), site) for site in range(1, hubs)}
    for _ in range(hubs // 2):
        a, b = sorted(chance.sample(range(hubs), 2))
        pairs.add((a, b))
    return sorted(pairs)


class _Churn:
    def __init__(self, world: World, chance: Random) -> None:
        self._world = world
        self._chance = chance
        self._kinds: tuple[tuple[Callable[[], None], int], ...] = (
            (self._cut, 8),
            (self._connect, 8),
            (self._flap, 2),
            (self._stall, 4),
            (self._fill, 3),
            (self._subscribe, 5),
            (self._unsubscribe, 5),
            (self._crash, 3),
            (self._restart, 3),
            (self._part, 1),
            (self._part_for_long, 1),
            (world.heal, 1),
        )

    def happen(self) -> None:
        acts, weights = zip(*self._kinds, strict=True)
        self._chance.choices(acts, weights)[0]()

    def _cut(self) -> None:
        self._world.cut(self._cable(), self._ending(), self._side())

    def _connect(self) -> None:
        loose = [cable for cable in self._world.cables if cable.link is None or cable.link.is_loose]
        for cable in self._chance.sample(loose, min(3, len(loose))):
            self._world.connect(cable)

    def _flap(self) -> None:
        cable = self._cable()
        for _ in range(self._chance.randint(1, 10)):
            self._world.cut(cable, self._chance.choice((Ending.CLOSED, Ending.RESET)), self._side())
            self._world.connect(cable)
            self._world.run_for(self._chance.choice((0.0, 0.01, 0.1)))

    def _stall(self) -> None:
        self._world.stall(self._cable(), self._side(), self._chance.uniform(0.05, 3.0))

    def _fill(self) -> None:
        self._world.fill(self._cable(), self._side(), self._chance.uniform(0.05, 3.0))

    def _subscribe(self) -> None:
        self._world.subscribe(self._site(), self._chance.choice(PREFIXES))

    def _unsubscribe(self) -> None:
        self._world.unsubscribe(self._chance.randrange(1 << 30))

    def _crash(self) -> None:
        self._world.crash(self._site(), self._chance.choice((Ending.CLOSED, Ending.RESET, Ending.SILENT)))

    def _restart(self) -> None:
        for site, hub in enumerate(self._world.sites):
            if not hub.is_alive and self._chance.random() < 0.5:
                self._world.restart(site)

    def _part(self) -> None:
        count = self._chance.randint(1, len(self._world.sites) // 2)
        self._world.part(self._chance.sample(range(len(self._world.sites)), count), self._ending())

    def _part_for_long(self) -> None:
        self._part()
        self._world.run_for(FORGET_S + self._chance.choice((0.0, SILENT_S)) + self._chance.uniform(-0.5, 0.5))
        self._world.heal()

    def _site(self) -> int:
        return self._chance.randrange(len(self._world.sites))

    def _side(self) -> int:
        return self._chance.randrange(2)

    def _cable(self) -> Cable:
        return self._chance.choice(self._world.cables)

    def _ending(self) -> Ending:
        return self._chance.choice(tuple(Ending))


def run(plan: Plan) -> Counts:
    """Let a history happen, and ask that all holds that must."""
    chance = Random(plan.seed)  # noqa: S311 -- the same each time
    if plan.shape == "full":
        plan = plan._replace(hubs=min(plan.hubs, _FULL_HUBS_LIMIT))
    cables = cables_of(plan.shape, plan.hubs, chance, even=plan.even)
    world = World(plan.hubs, cables, plan.seed, costs=plan.costs, limits=plan.limits)
    for site in range(plan.hubs):
        for _ in range(plan.subscribers):
            if chance.random() < 0.5:
                world.subscribe(site, chance.choice(PREFIXES))
    publishers = [chance.randrange(plan.hubs) for _ in range(plan.publishers)]
    churn = _Churn(world, chance)
    for _ in range(plan.rounds):
        before_s = 0.0
        for at_s, act in _moments(plan, chance, churn.happen, partial(_publish, world, chance, publishers)):
            world.run_for(at_s - before_s)
            before_s = at_s
            act()
        world.settle(publishers, TOPICS)
    return world.truth.counts()


def _publish(world: World, chance: Random, publishers: Sequence[int]) -> None:
    world.publish(chance.choice(publishers), chance.choice(TOPICS))


def _moments(
    plan: Plan, chance: Random, happen: Callable[[], None], publish: Callable[[], None]
) -> list[tuple[float, Callable[[], None]]]:
    events_s = [chance.uniform(0.0, plan.churn_s) for _ in range(plan.events)]
    messages_s = [
        chance.choice(events_s) + chance.uniform(0.0, 3.0 * _SLOWEST_S)
        if events_s and chance.random() < 0.5
        else chance.uniform(0.0, plan.churn_s)
        for _ in range(plan.messages)
    ]
    moments = [(at_s, happen) for at_s in events_s] + [(at_s, publish) for at_s in messages_s]
    return sorted(moments, key=itemgetter(0))
