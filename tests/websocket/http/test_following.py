"""When a stream reads the journal."""

from __future__ import annotations

from peers.websocket.http.following import Following


def test_from_a_place_in_the_past() -> None:
    """Piece by piece up to the end, and then at each ring."""
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
    """It is read behind that piece."""
    stream = Following(0, 5)
    stream.asked()
    assert stream.ring(9)
    assert not stream.is_due
    stream.reached(5)
    assert stream.is_due


def test_a_piece_that_failed() -> None:
    """It is asked for again, from the same place."""
    stream = Following(2, 5)
    stream.asked()
    stream.failed()
    assert (stream.is_due, stream.position) == (True, 2)


def test_a_piece_that_reaches_farther() -> None:
    """What was told already is not told again: a ring for it changes nothing."""
    stream = Following(0, 5)
    stream.asked()
    stream.reached(8)
    assert stream.ring(8)
    assert not stream.is_due


def test_a_journal_that_has_lost_what_it_promised() -> None:
    """Offsets go on where they were given before: nobody knows what a stream would miss."""
    stream = Following(0, 5)
    assert not stream.ring(4)
