"""Hubs that were told of one other each stay in one piece, whatever fails; and they come to rest."""

from __future__ import annotations

from random import Random

import pytest

from tests.mesh_simulation.spares import SparesWorld

SETTLE_S = 15.0
"""Until then every hub has dialled whom it needs: a random while, some seconds for whom it is not to dial first."""

REST_S = 300.0
"""Until then spares that nobody needs are gone."""


def chain(hubs: int) -> tuple[tuple[int, int], ...]:
    """Each is told of the one before."""
    return tuple((number, number - 1) for number in range(1, hubs))


def star(hubs: int) -> tuple[tuple[int, int], ...]:
    """All are told of the first."""
    return tuple((number, 0) for number in range(1, hubs))


def tree(hubs: int, seed: int) -> tuple[tuple[int, int], ...]:
    """Each is told of one of those before it."""
    chance = Random(seed)  # noqa: S311 -- the same each time
    return tuple((number, chance.randrange(number)) for number in range(1, hubs))


SHAPES = {
    **{f"chain {hubs}": chain(hubs) for hubs in (3, 4, 7, 12)},
    **{f"star {hubs}": star(hubs) for hubs in (3, 4, 7, 12)},
    **{f"tree {hubs}": tree(hubs, hubs) for hubs in (5, 9, 16)},
}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("told", SHAPES.values(), ids=SHAPES.keys())
def test_any_hub_and_any_link_may_fail(told: tuple[tuple[int, int], ...], seed: int) -> None:
    """One after the other, until three are left: those that are left are in one piece at once, and heal again."""
    world = SparesWorld(told, seed=seed)
    world.run_for(SETTLE_S)
    while len(world.alive) > 3:
        assert world.survives_any_failure()
        if world.chance.random() < 0.5:
            one, other = world.chance.choice(world.linked())
            world.cut(one.number, other.number)
            assert world.is_in_one_piece()
            world.run_for(SETTLE_S)
            world.heal()
        else:
            world.crash(world.chance.choice(world.alive).number)
            assert world.is_in_one_piece()
        world.run_for(SETTLE_S)


def test_a_planted_defect_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hubs that always see ways enough: otherwise the histories here would prove nothing."""
    monkeypatch.setattr("hub.mesh.spares.has_ways", lambda *_, **__: True)
    world = SparesWorld(chain(7), seed=1)
    world.run_for(REST_S)
    assert not world.survives_any_failure()


@pytest.mark.parametrize("told", SHAPES.values(), ids=SHAPES.keys())
def test_they_come_to_rest(told: tuple[tuple[int, int], ...]) -> None:
    """With about as many links as are needed; nobody dials any more, and nobody lets anybody go."""
    world = SparesWorld(told, seed=1)
    world.run_for(REST_S)
    assert world.survives_any_failure()
    dialled, links = world.dialled, set(world.links)
    world.run_for(REST_S)
    world.linked()
    assert (world.dialled, set(world.links)) == (dialled, links)
    hubs = len(world.members)
    assert len(links) <= 2 * hubs - 2
    assert dialled <= 3 * hubs
    assert all(len(member.spares.hubs) <= member.spares.limit for member in world.members)


def test_without_degree_nobody_is_dialled() -> None:
    """That is how hubs are set up."""
    world = SparesWorld(chain(6), degree=0)
    world.run_for(60.0)
    assert (world.dialled, len(world.linked())) == (0, 5)


def test_nobody_is_dialled_where_there_are_ways_enough() -> None:
    """A ring of links survives any failure as it is."""
    world = SparesWorld((*chain(6), (0, 5)))
    world.run_for(REST_S)
    assert world.dialled == 0


@pytest.mark.parametrize("seed", range(3))
def test_three_ways(seed: int) -> None:
    """Two hubs may fail at once."""
    world = SparesWorld(star(9), degree=3, seed=seed)
    world.run_for(2 * SETTLE_S)
    for number in world.chance.sample(range(9), 2):
        world.crash(number)
    assert world.is_in_one_piece()


def test_hubs_that_advertise_nothing_dial_those_that_do() -> None:
    """Nobody can dial them, so they see to it themselves."""
    world = SparesWorld(star(8), seed=2, silent=frozenset({3, 5, 6}))
    world.run_for(2 * SETTLE_S)
    assert world.survives_any_failure()


def test_a_mesh_that_fell_apart_is_one_again() -> None:
    """Half of the hubs lose all ways to the others, for longer than these are known; nobody was told of them."""
    world = SparesWorld(chain(8), seed=3)
    world.run_for(REST_S)
    for one in range(4):
        for other in range(4, 8):
            world.cut(one, other)
    world.run_for(120.0)
    assert not world.is_in_one_piece()
    world.crash(3)  # hub 4 was told of it, and of nobody else
    world.heal()
    world.run_for(90.0)
    assert world.is_in_one_piece()


def test_addresses_where_nobody_is() -> None:
    """Others take the place of a hub that nobody can dial, and it is dialled about once a minute."""
    world = SparesWorld(star(8), seed=4)
    world.members[2].address = "tcp://elsewhere:7400"  # so nobody answers where it says that it is
    world.run_for(REST_S)
    assert world.is_in_one_piece(without=0)
    dialled = world.dialled
    world.run_for(600.0)
    assert world.dialled - dialled < 60


def test_whom_a_hub_does_not_trust_it_does_not_dial() -> None:
    """It takes others in its place."""
    world = SparesWorld(star(8), seed=5)
    for member in world.members:
        member.may_dial = lambda address: address != "tcp://2:7400"
    world.run_for(2 * SETTLE_S)
    assert world.is_in_one_piece(without=0)
    assert all(other.number != 2 or near.number == 0 for near, other in world.linked())
