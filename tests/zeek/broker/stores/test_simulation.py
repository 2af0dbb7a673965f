"""A master and its clones over a network that loses, doubles, swaps and cuts: in the end all hold the same."""

from __future__ import annotations

import random

import pytest

from peers.values import Count, encode
from peers.zeek.broker.stores.channel import HEARTBEAT_TICKS, SILENT_TICKS
from peers.zeek.broker.stores.master import MasterLimits
from tests.zeek.broker.stores.simulated import Faults, Simulation, any_wish

BAD = Faults(lost=0.2, doubled=0.2, delayed=0.3)


def disturb(simulation: Simulation, seed: int, ticks: int) -> int:
    chance = random.Random(seed)  # noqa: S311 -- to be repeatable
    wishes = 0
    for _ in range(ticks):
        for cloned in simulation.clones:
            if chance.random() < 0.3:
                cloned.wish(any_wish(chance, cloned.clone._own))
                wishes += 1
        if chance.random() < 0.3:
            simulation.served.wish(any_wish(chance, simulation.served.own))
            wishes += 1
        simulation.tick()
    return wishes


@pytest.mark.parametrize("seed", range(10))
def test_all_is_equal_in_the_end(seed: int) -> None:
    simulation = Simulation(seed)
    simulation.network.faults = BAD
    assert disturb(simulation, seed, 200) > 150
    simulation.settle()
    assert simulation.network.spoiled > 500
    assert simulation.is_idle()
    assert simulation.is_equal()
    assert not any(cloned.lost for cloned in simulation.clones)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("ticks", [SILENT_TICKS // 2, SILENT_TICKS - 2 * HEARTBEAT_TICKS])
def test_a_cut_of_less_than_50_s(seed: int, ticks: int) -> None:
    simulation = Simulation(seed)
    simulation.tick(10)
    simulation.network.cut.add("clone 1")
    disturb(simulation, seed, ticks)
    for _ in range(10):
        simulation.clones[0].add("sum", 1)
    assert not simulation.is_equal()
    simulation.settle()
    assert simulation.is_idle()
    assert simulation.is_equal()
    assert simulation.clones[0].lost == []
    assert simulation.served.counters.channel.silent == 0


@pytest.mark.parametrize("seed", range(5))
def test_a_cut_of_more_than_50_s(seed: int) -> None:
    simulation = Simulation(seed)
    simulation.tick(10)
    simulation.network.cut.add("clone 1")
    for _ in range(SILENT_TICKS + 50):
        simulation.clones[0].add("sum", 1)
        simulation.clones[1].add("other", 1)
        simulation.tick()
    assert simulation.served.master.clones == 2
    assert simulation.served.master.waiting_bytes < 10_000
    simulation.settle()
    assert simulation.is_idle()
    assert simulation.is_equal()
    assert simulation.served.store.content == {encode("other"): encode(Count(SILENT_TICKS + 50))}
    assert simulation.clones[0].lost == ["the master was silent for too long"]
    assert simulation.clones[0].states.count("") == 2


def test_a_clone_that_was_forgotten_is_told() -> None:
    simulation = Simulation(1, clones=1)
    simulation.tick(10)
    cloned = simulation.clones[0]
    simulation.served.master._clones.clear()
    simulation.served.put("k", 1)
    simulation.tick(2 * HEARTBEAT_TICKS)
    assert cloned.lost == ["change 2 is lost for good"]
    assert simulation.is_equal()
    assert simulation.served.master.clones == 1


def test_a_clone_that_lags_too_far_behind() -> None:
    simulation = Simulation(1, clones=2, limits=MasterLimits(log_actions=50))
    simulation.tick(10)
    simulation.network.cut.add("clone 1")
    for number in range(200):
        simulation.served.put(f"k{number}", number)
        simulation.tick()
    simulation.settle()
    assert simulation.is_equal()
    assert len(simulation.clones[0].lost) == 1


@pytest.mark.parametrize("seed", range(3))
def test_put_unique_by_two_at_once(seed: int) -> None:
    simulation = Simulation(seed)
    simulation.tick(10)
    simulation.network.faults = BAD
    results: dict[int, list[bool | None]] = {}
    for number in range(50):
        results[number] = []
        for cloned in simulation.clones:
            cloned.put_unique(f"k{number}", number, results[number])
        simulation.tick()
    simulation.settle()
    assert all(sorted(map(str, told)) == ["False", "False", "True"] for told in results.values())
    assert simulation.is_equal()


def test_another_master() -> None:
    simulation = Simulation(1)
    simulation.tick(10)
    results: list[bool | None] = []
    simulation.network.cut.add("master")
    simulation.clones[0].add("sum", 5)
    simulation.clones[0].put_unique("k", "v", results)
    simulation.make_master(number=2)
    simulation.served.put("new", 1)
    simulation.settle(SILENT_TICKS + 20)
    assert simulation.is_equal()
    assert simulation.served.store.content == {encode("new"): encode(Count(1))}
    assert results == [None]
    assert all(cloned.lost for cloned in simulation.clones)


@pytest.mark.parametrize("seed", range(3))
def test_clones_come_and_masters_come_later(seed: int) -> None:
    simulation = Simulation(seed, clones=1)
    simulation.network.cut.add("master")
    simulation.tick(20)
    simulation.network.cut.clear()
    simulation.network.faults = BAD
    for number in range(2, 6):
        disturb(simulation, seed, 20)
        simulation.add_clone(number)
    simulation.settle()
    assert simulation.is_idle()
    assert simulation.is_equal()
