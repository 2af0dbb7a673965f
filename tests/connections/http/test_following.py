"""When a stream reads the journal."""

from __future__ import annotations

from peers.connections.http.stream import LEAST_PAUSE_S, MOST_PAUSE_S, Looks


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
