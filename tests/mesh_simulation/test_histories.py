"""Many random histories of many hubs, and one of hundreds; `tests/soak/hub.py` has larger ones, up to 1,000 hubs."""

from __future__ import annotations

import pytest

from hub.limits import MeshLimits
from tests.mesh_simulation.histories import SHAPES, Plan, large_plan, run

HISTORIES = 200
COSTS = ((1,), (1,), (1, 2), (1, 2, 3, 10))
"""Of links: in half of the meshes all cost the same."""

GROUPS = 20
"""Of histories: each is one test."""

SIZES = (5, 8, 12, 20, 60, 5, 8, 12, 20, 8, 5, 8, 12, 20, 40, 5, 8, 12, 20, 8)
"""How many hubs, in turn: defects show in small meshes, long ways only in large ones."""

LARGE = 20
"""Of more hubs there is one mesh of each size and shape: a twentieth of the histories, and a third of the work."""

LINKED_WITH_ALL = 8
"""How many hubs a full mesh has at most, for what it costs grows with the third power; those of the soak have 15."""


def _plan(seed: int) -> Plan:
    shape = SHAPES[seed // len(SIZES) % len(SHAPES)]
    hubs = SIZES[seed % len(SIZES)]
    if seed >= len(SIZES) * len(SHAPES):
        hubs = min(hubs, LARGE)
    if shape == "full":
        hubs = min(hubs, LINKED_WITH_ALL)
    return Plan(seed, hubs, shape, even=seed % 3 == 0, costs=COSTS[seed % len(COSTS)])


@pytest.mark.parametrize("group", range(GROUPS))
def test_whatever_happens_the_mesh_does_what_it_promises(group: int) -> None:
    seeds = range(group * HISTORIES // GROUPS, (group + 1) * HISTORIES // GROUPS)
    assert sum(run(_plan(seed)).delivered for seed in seeds)


def test_hubs_that_cannot_keep_what_others_want() -> None:
    limits = MeshLimits(), MeshLimits(prefixes=1), MeshLimits(prefixes=2), MeshLimits(prefixes_total=9)
    for seed in range(60):
        plan = _plan(seed)._replace(hubs=5 + seed % 8, shape=SHAPES[seed % len(SHAPES)], limits=limits)
        plan = plan._replace(rounds=4, events=40, subscribers=4)
        assert run(plan).delivered


def test_hundreds_of_hubs_do_so_too() -> None:
    assert run(large_plan(200)).delivered
