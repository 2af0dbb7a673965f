"""What one user's connections have in transit: what is free for each, and when each write has to ask."""

from __future__ import annotations

from hub.quotas.resource import Resource
from hub.quotas.transit import FREE_BYTES, RESERVE_BYTES, USUAL_WRITE_BYTES, Carrier, Transit
from hub.quotas.usage import Usage, Whole

MIB = 1024 * 1024


class Told:
    """A connection that remembers what it was told, and may do something about it."""

    def __init__(self, transit: Transit | None = None, adds: int = 0) -> None:
        self.said: list[tuple[int, bool]] = []
        self.transit, self.adds = transit, adds

    def carry(self, free_bytes: int, *, is_tight: bool) -> None:
        """Remember it; where less is free than is held, that is charged."""
        self.said.append((free_bytes, is_tight))
        if self.transit is not None and self.adds:
            self.transit.add(self.adds)


def transit_of(total: int, limit: int | None = None) -> tuple[Transit, list[Transit]]:
    """What one user has in transit, and who has asked to be looked at."""
    changed: list[Transit] = []
    usage = Usage(Whole(Resource.IN_TRANSIT_BYTES, total), "alice", limit, lambda: None)
    return Transit(usage, changed.append), changed


def entered(transit: Transit, count: int) -> list[Told]:
    """So many connections."""
    crowd = [Told() for _ in range(count)]
    for one in crowd:
        transit.enter(one, 0)
    return crowd


def test_few_connections_are_told_nothing() -> None:
    """While all that is free is no more than half of the user's part, and there is room for a write."""
    transit, changed = transit_of(64 * MIB)
    crowd = entered(transit, 128)
    assert not any(one.said for one in crowd)
    assert (transit.free_bytes, transit.is_tight, changed) == (FREE_BYTES, False, [])
    assert transit.room == transit.allowance == 32 * MIB - 2 * 128 * FREE_BYTES - RESERVE_BYTES


def test_one_more_halves_what_is_free() -> None:
    """All are told once, and whoever comes then; all that is free is half of the part at most."""
    transit, changed = transit_of(64 * MIB)
    crowd = entered(transit, 130)
    assert [one.said for one in crowd] == [[(FREE_BYTES // 2, False)]] * 130
    assert changed == [transit]


def test_something_is_free_for_each_of_any_number() -> None:
    """A kilobyte, so that small messages come to those who read."""
    transit, _ = transit_of(MIB)
    entered(transit, 2000)
    assert (transit.free_bytes, transit.room, transit.allowance) == (1024, 0, 1024)


def test_tight_before_a_usual_write_is_too_much() -> None:
    """As less is left than one write may be that does not ask; each is told once, and who comes then, too."""
    transit, changed = transit_of(64 * MIB, limit=4 * MIB)
    crowd = entered(transit, 8)
    transit.add(transit.room - USUAL_WRITE_BYTES)
    assert not transit.is_tight
    transit.add(1)
    transit.add(1)
    assert transit.is_tight
    crowd += entered(transit, 1)
    assert [one.said for one in crowd] == [[(FREE_BYTES, True)]] * 9
    assert changed == [transit]


def test_a_large_write_that_does_not_fit_makes_it_tight() -> None:
    """It is refused, and the refusal counted; one that fits changes nothing."""
    transit, _ = transit_of(4 * MIB)
    (one,) = entered(transit, 1)
    room = transit.room
    assert transit.fits(room)
    assert one.said == []
    assert not transit.fits(room + 1)
    assert one.said == [(FREE_BYTES, True)]
    assert transit.usage.refused_total == 1


def test_what_is_free_always_fits() -> None:
    """Also for a user who has more than his part."""
    transit, _ = transit_of(4 * MIB)
    entered(transit, 1)
    transit.add(10 * MIB)
    assert transit.fits(FREE_BYTES)
    assert not transit.fits(FREE_BYTES + 1)


def test_the_way_back_is_taken_when_it_is_looked() -> None:
    """Once there is room for two writes; what is free again as connections have gone is told then, too."""
    transit, _ = transit_of(64 * MIB, limit=8 * MIB)
    crowd = entered(transit, 64)
    assert transit.free_bytes == FREE_BYTES // 2
    transit.add(transit.room)
    assert transit.look()
    for one in crowd[:60]:
        transit.leave(one)
    assert [one.said[-1] for one in crowd] == [(FREE_BYTES // 2, True)] * 64
    assert not transit.look()
    assert [one.said[-1] for one in crowd[60:]] == [(FREE_BYTES, False)] * 4
    assert crowd[0].said[-1] == (FREE_BYTES // 2, True), "it has left"
    told = len(crowd[63].said)
    assert not transit.look()
    assert len(crowd[63].said) == told


def test_what_a_connection_does_as_it_is_told_is_counted() -> None:
    """It may be charged more then, which makes it tight; all are told the last word."""
    transit, _ = transit_of(4 * MIB)
    others = entered(transit, 7)
    holder: Carrier = Told(transit, adds=3 * MIB // 2)
    transit.enter(holder, 0)
    (last,) = entered(transit, 1)
    assert transit.is_tight
    assert {one.said[-1] for one in (*others, last)} == {(transit.free_bytes, True)}


def test_what_is_charged_and_all_that_is_free_is_the_part() -> None:
    """Taking asks for that; what was refused is told with what is free."""
    transit, _ = transit_of(4 * MIB)
    entered(transit, 2)
    free = 4 * FREE_BYTES + RESERVE_BYTES
    assert transit.take(2 * MIB - free)
    assert not transit.take(1)
    assert transit.rejection(1).text.endswith(
        f"of {2 * MIB}, {free} are for what is not charged to his connections, and for what TLS adds"
    )
    assert "a fair part of what is left" in transit.rejection(free + 1).text
