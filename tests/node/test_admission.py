"""Who has a place, and who gives way."""

from __future__ import annotations

from hub.settings.sections import Limits
from peers.node.admission import Admission

FAR = "198.51.100.7:5000"
LOCAL = "127.0.0.1:5000"


class Connection:
    def __init__(self) -> None:
        self.aborted = False

    def abort(self) -> None:
        self.aborted = True


def places(*, connections: int = 100, newcomers: int = 100, per_address: int = 100) -> Admission:
    return Admission(Limits(connections=connections, newcomers=newcomers, connections_per_address=per_address))


def arrive(admission: Admission, count: int, address: str = LOCAL, *, settle: bool = False) -> list[Connection]:
    connections = [Connection() for _ in range(count)]
    for connection in connections:
        assert admission.admit(connection, address) == ""
        if settle:
            admission.settle(connection)
    return connections


def test_the_silent_never_keep_others_out() -> None:
    admission = places(connections=10, newcomers=5)
    settled = arrive(admission, 9, settle=True)
    silent = arrive(admission, 1000)
    assert [one.aborted for one in silent] == [True] * 999 + [False]
    assert not any(one.aborted for one in settled)
    assert (admission.evicted, admission.refused, len(admission.connections)) == (999, 0, 10)


def test_newcomers_have_a_limit_of_their_own() -> None:
    admission = places(newcomers=3)
    first, second, third, fourth = arrive(admission, 4)
    assert [one.aborted for one in (first, second, third, fourth)] == [True, False, False, False]
    assert admission.newcomers == len(admission.connections) == 3


def test_an_address_that_floods_gives_way_itself() -> None:
    admission = places(newcomers=8)
    (honest,) = arrive(admission, 1, "192.0.2.1:1")
    flood = arrive(admission, 500, FAR)
    assert not honest.aborted
    assert sum(one.aborted for one in flood) == 500 - 7


def test_many_addresses_give_way_in_their_order() -> None:
    admission = places(newcomers=8)
    each = [arrive(admission, 1, f"198.51.100.{number}:1")[0] for number in range(10)]
    assert [one.aborted for one in each] == [True, True] + [False] * 8


def test_all_places_are_settled() -> None:
    admission = places(connections=2, newcomers=2)
    first, _ = arrive(admission, 2, settle=True)
    late = [Connection() for _ in range(3)]
    assert {admission.admit(one, LOCAL) for one in late} == {"2 connections are open, which is the limit"}
    assert [one.aborted for one in late] == [True, False, False]
    assert (admission.newcomers, len(admission.connections), admission.refused) == (2, 2, 3)
    admission.release(first)
    for one in late:
        admission.release(one)
    assert admission.newcomers == 0
    arrive(admission, 1)


def test_one_address_does_not_take_all_places() -> None:
    admission = places(per_address=2)
    first, _ = arrive(admission, 2, FAR, settle=True)
    assert admission.admit(Connection(), FAR) == "2 connections from this address are open, which is the limit"
    arrive(admission, 1, "198.51.100.8:1")
    arrive(admission, 5, LOCAL)
    admission.release(first)
    arrive(admission, 1, FAR)


def test_nothing_is_kept_of_who_has_gone() -> None:
    admission = places(newcomers=2)
    each = arrive(admission, 5, FAR)
    for one in each:
        admission.release(one)
        admission.release(one)
    assert not admission.connections
    assert not admission._newcomers
    assert not admission._newcomers._of
    assert not admission._connections_of


def test_links_of_this_hub_are_no_newcomers() -> None:
    admission = places(connections=1, newcomers=1)
    arrive(admission, 1, settle=True)
    link = Connection()
    admission.enter(link)
    for _ in range(5):
        admission.admit(Connection(), FAR)
    assert link in admission.connections
    assert not link.aborted
    admission.release(link)
    assert len(admission.connections) == 1
