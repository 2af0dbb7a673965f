"""When a stream reads the journal."""

from __future__ import annotations

from peers.connections.http.stream import LEAST_PAUSE_S, MOST_PAUSE_S, Following, Looks


def test_from_a_place_in_the_past() -> None:
    stream = Following(3, 10)
    assert stream.is_due
    stream.asked()
    assert not stream.is_due
    stream.reached(7)
    assert (stream.is_due, stream.position) == (True, 7)
    stream.asked()
    stream.reached(10)
    assert not stream.is_due
    assert stream.ring(11)
    assert stream.is_due


def test_a_ring_while_it_reads() -> None:
    stream = Following(0, 5)
    stream.asked()
    assert stream.ring(9)
    assert not stream.is_due
    stream.reached(5)
    assert stream.is_due


def test_a_piece_that_failed() -> None:
    stream = Following(2, 5)
    stream.asked()
    stream.failed()
    assert (stream.is_due, stream.position) == (True, 2)


def test_a_piece_that_reaches_farther() -> None:
    stream = Following(0, 5)
    stream.asked()
    stream.reached(8)
    assert stream.ring(8)
    assert not stream.is_due


def test_a_journal_that_has_lost_what_it_promised() -> None:
    stream = Following(0, 5)
    assert not stream.ring(4)


def test_where_nobody_knows_the_end() -> None:
    stream = Following(3, 3)
    assert not stream.is_due
    stream.extend(4)
    assert stream.is_due
    stream.asked()
    stream.reached(3)
    stream.extend(9)
    stream.extend(5)
    assert stream.is_due
    stream.asked()
    stream.reached(9)
    assert not stream.is_due


def test_looks_become_rare_until_something_rings() -> None:
    looks = Looks()
    pauses = []
    for _ in range(20):
        number, pause_s = looks.plan()
        assert looks.take(number)
        pauses.append(pause_s)
    assert pauses[:3] == [LEAST_PAUSE_S, 2 * LEAST_PAUSE_S, 4 * LEAST_PAUSE_S]
    assert pauses[-1] == MOST_PAUSE_S
    look = looks.ring()
    assert look is not None
    assert look[1] == LEAST_PAUSE_S


def test_many_rings_are_one_look() -> None:
    looks = Looks()
    before, _ = looks.plan()
    look = looks.ring()
    assert look is not None
    assert looks.ring() is None
    assert not looks.take(before)
    assert looks.take(look[0])
    assert looks.ring() is not None
