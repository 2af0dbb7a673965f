"""`Epoch`: which positions hold, after any lives of a journal that end with a loss of what came last."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hub.journal.epoch import EPOCHS_LIMIT, Epoch, begun, end_of

lives = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 20), st.integers(0, 8)), min_size=1, max_size=12)
"""Of each: how far the clock goes, how many records it adds, how many of the last records it loses at its end."""


@given(lives)
def test_a_position_holds_as_far_as_what_was_read_is_there(lives: list[tuple[int, int, int]]) -> None:
    """Each life has its records; a position that was told anywhere is cut back to the records that are the same."""
    epochs: tuple[Epoch, ...] = ()
    kept: list[int] = []  # of each record, in which life it was added
    told: list[tuple[int, list[int]]] = []  # epoch, and what was there
    now_s = 100
    for life, (later_s, added, lost) in enumerate(lives):
        now_s += later_s
        before = epochs
        epochs = begun(before, len(kept), now_s)
        assert epochs[-1].number > max([one.number for one in before], default=0)
        for number, seen in told:
            end = end_of(epochs, number)
            assert end is not None
            held = min(end, len(seen))
            assert seen[:held] == kept[:held]
        for _ in range(added):
            kept.append(life)
            told.append((epochs[-1].number, kept.copy()))
        del kept[max(epochs[-1].first, len(kept) - lost) :]
    assert end_of(epochs, epochs[-1].number) is None


def test_what_is_not_lost_is_not_cut() -> None:
    """A hub that is only killed begins epochs, too; positions up to there hold."""
    epochs = begun(begun((), 0, 100), 50, 200)
    assert epochs == ((100, 0), (200, 50))
    assert end_of(epochs, 100) == 50
    assert end_of(epochs, 0) == 0


def test_a_clock_that_was_set_back() -> None:
    """Numbers grow nevertheless."""
    assert begun((Epoch(200, 0),), 5, 100) == ((200, 0), (201, 5))


def test_lives_without_records_leave_nothing() -> None:
    """So that a hub that is started again and again does not fill its journal."""
    epochs = begun((), 0, 1)
    for now_s in range(2, 100):
        epochs = begun(epochs, 7, now_s)
    assert epochs == ((1, 0), (99, 7))


def test_the_oldest_are_forgotten() -> None:
    """Beyond the limit."""
    epochs: tuple[Epoch, ...] = ()
    for number in range(EPOCHS_LIMIT + 10):
        epochs = begun(epochs, number, number + 1)
    assert len(epochs) == EPOCHS_LIMIT
    assert epochs[-1] == (EPOCHS_LIMIT + 10, EPOCHS_LIMIT + 9)
    assert end_of(epochs, 1) == epochs[0].first
