"""Which of several connections to one Broker endpoint stays."""

from __future__ import annotations

from peers.connections.broker_peerings import Registry, Verdict

ID, OTHER = bytes(16), bytes(range(16))


class Connection:
    def __init__(self) -> None:
        self.told: list[str] = []

    def proceed(self) -> None:
        self.told.append("proceed")

    def give_way(self) -> None:
        self.told.append("give way")


def test_the_first_goes_on_and_later_ones_wait_or_are_redundant() -> None:
    registry = Registry()
    first, second, third, elsewhere = (Connection() for _ in range(4))
    assert registry.claim(ID, first) is Verdict.PROCEED
    assert registry.claim(ID, first) is Verdict.PROCEED
    assert registry.claim(ID, second) is Verdict.WAIT
    assert registry.claim(OTHER, elsewhere) is Verdict.PROCEED
    assert ID not in registry
    registry.settle(ID)
    assert ID in registry
    assert second.told == ["give way"]
    assert registry.claim(ID, third) is Verdict.REDUNDANT
    assert first.told == third.told == elsewhere.told == []
    assert len(registry) == 1


def test_who_waits_takes_the_place_of_one_that_failed() -> None:
    registry = Registry()
    first, gone, second, third = (Connection() for _ in range(4))
    for connection in (first, gone, second, third):
        registry.claim(ID, connection)
    registry.release(ID, gone)
    registry.release(ID, first)
    assert (gone.told, second.told, third.told) == ([], ["proceed"], [])
    registry.settle(ID)
    assert third.told == ["give way"]


def test_nothing_is_left_behind() -> None:
    registry = Registry()
    first, second = Connection(), Connection()
    registry.release(ID, first)
    registry.claim(ID, first)
    registry.settle(ID)
    registry.release(ID, second)
    assert ID in registry
    registry.release(ID, first)
    assert ID not in registry
    assert len(registry) == 0
    assert registry.claim(ID, second) is Verdict.PROCEED
