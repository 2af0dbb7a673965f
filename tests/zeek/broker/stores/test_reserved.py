"""Numbers that are noted before they are used."""

from __future__ import annotations

from peers.zeek.broker.stores.reserved import STEP, Reserved


def test_more_is_noted_before_the_rest_is_used() -> None:
    """Each life begins behind all numbers that the one before may have used."""
    notes: list[bytes] = []
    first = Reserved(b"", notes.append)
    assert (first.began, len(notes)) == (0, 1)
    for number in range(1, 3 * STEP):
        first.reach(number)
        assert Reserved(notes[-1], lambda _: None).began >= number + STEP // 2 - 1
    assert len(notes) == 6
    second = Reserved(notes[-1], notes.append)
    assert second.began >= 3 * STEP
    assert Reserved(notes[-1], notes.append).began == second.began + STEP


def test_a_note_that_is_none() -> None:
    """It is as if there were none."""
    assert Reserved(b"x", lambda _: None).began == 0
