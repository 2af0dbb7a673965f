"""A mesh that lives for long, while hubs come and go."""

from __future__ import annotations

from random import Random

from hub.mesh.knowledge import FORGET_S
from tests.mesh_simulation.world import Ending, World

HUBS = 6
RESTARTS = 120


def test_hubs_that_are_gone_are_forgotten_however_often_others_come() -> None:
    chance = Random(5)  # noqa: S311 -- the same each time
    ring = [(site, (site + 1) % HUBS, 0.01) for site in range(HUBS)]
    world = World(HUBS, [*ring, (0, 3, 0.01), (1, 4, 0.01)])
    gone_s: list[float] = []
    for _ in range(RESTARTS):
        site = chance.randrange(HUBS)
        world.crash(site, Ending.CLOSED)
        gone_s.append(world.clock.now_s)
        world.run_for(1.0)
        world.restart(site)
        world.run_for(chance.uniform(5.0, 25.0))
        remembered = sum(world.clock.now_s - at_s < FORGET_S + 5.0 for at_s in gone_s)
        assert max(len(hub.mesh.records) for hub in world.sites) <= HUBS + remembered
    world.settle(range(HUBS), ["/a/1"])
