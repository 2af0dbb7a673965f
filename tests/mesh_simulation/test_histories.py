"""Many random histories of many hubs, and one of very many."""

from __future__ import annotations

import gc

import pytest

from tests.mesh_simulation.histories import SHAPES, Plan, large_plan, run

HISTORIES = 200
COSTS = ((1,), (1,), (1, 2), (1, 2, 3, 10))
"""Of links: in half of the meshes all cost the same."""

GROUPS = 20
"""Of histories: each is one test."""

SIZES = (5, 8, 12, 20, 100, 5, 8, 12, 20, 8, 5, 8, 12, 20, 40, 5, 8, 12, 20, 8)
"""How many hubs, in turn: defects show in small meshes, long ways only in large ones; `tests/soak/mesh.py` has more."""


def _plan(seed: int) -> Plan:
    shape = SHAPES[seed // len(SIZES) % len(SHAPES)]
    return Plan(seed, SIZES[seed % len(SIZES)], shape, even=seed % 3 == 0, costs=COSTS[seed % len(COSTS)])


@pytest.mark.parametrize("group", range(GROUPS))
def test_whatever_happens_the_mesh_does_what_it_promises(group: int) -> None:
    """No message twice, none out of order; once it is quiet all agree, and all arrives."""
    seeds = range(group * HISTORIES // GROUPS, (group + 1) * HISTORIES // GROUPS)
    assert sum(run(_plan(seed)).delivered for seed in seeds)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_thousand_hubs_do_so_too() -> None:
    """In one history, in which a few links and hubs come and go."""
    gc.disable()  # there are millions of records, and nothing that goes in a circle
    try:
        assert run(large_plan(1_000)).delivered
    finally:
        gc.enable()
