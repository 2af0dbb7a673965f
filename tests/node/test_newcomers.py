"""Who gives way: the oldest, or one of an address that holds much."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from peers.node.admission import Newcomers


def crowd(limit: int, *hosts: str) -> Newcomers[int]:
    places: Newcomers[int] = Newcomers(limit)
    for number, host in enumerate(hosts):
        come(places, number, host)
    return places


def come(places: Newcomers[int], number: int, host: str) -> None:
    going = places.giving_way(host)
    if going is not None:
        places.remove(going)
    places.add(number, host)


def test_there_is_room() -> None:
    assert crowd(3, "a", "b").giving_way("c") is None


def test_the_oldest_goes() -> None:
    assert crowd(4, "a", "b", "c", "d").giving_way("e") == 0


def test_an_address_that_holds_much_gives_way() -> None:
    places = crowd(8, "honest", *["flood"] * 100)
    assert 0 in places
    assert places.giving_way("flood") == places.giving_way("late") == 94
    come(places, 200, "late")
    assert (0 in places, 94 in places, len(places)) == (True, False, 8)


def test_of_several_that_hold_much_each_gives_way_to_itself() -> None:
    places = crowd(8, *["one"] * 4, *["other"] * 4)
    assert places.giving_way("one") == 0
    assert places.giving_way("other") == 4


@given(st.lists(st.tuples(st.integers(0, 30), st.sampled_from("abcde"), st.booleans()), max_size=200))
def test_nothing_is_kept_of_who_has_gone(steps: list[tuple[int, str, bool]]) -> None:
    places: Newcomers[int] = Newcomers(8)
    for number, host, comes in steps:
        if comes and number not in places:
            come(places, number, host)
        else:
            places.remove(number)
        assert len(places) <= 8
        assert len(places) == sum(len(theirs) for theirs in places._of.values())
        assert set(places._crowding) == {one for one, theirs in places._of.items() if len(theirs) > 2}
    for number in list(places):
        places.remove(number)
    assert not places._of
    assert not places._crowding
