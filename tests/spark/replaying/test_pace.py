"""When the messages of a replay are due."""

from __future__ import annotations

import numpy as np
import pytest

from peers.spark.replaying.pace import FullSpeed, Pace, Rate, Recorded

S = 1_000_000


def due(pace: Pace, *windows: list[float]) -> list[float]:
    """When messages are due that were recorded at these seconds, in several windows."""
    return [
        at for times in windows for at in pace.due_s(np.array([time * S for time in times], dtype=np.int64)).tolist()
    ]


def test_full_speed() -> None:
    """At once."""
    assert due(FullSpeed(), [5, 900]) == [0, 0]


def test_rate() -> None:
    """Evenly, whatever was recorded, over all windows."""
    assert due(Rate(2), [5, 900, 901], [902]) == [0, 0.5, 1, 1.5]


@pytest.mark.parametrize("windows", [[[100, 101, 103.5]], [[100], [101], [103.5]], [[], [100, 101], [], [103.5]]])
def test_recorded(windows: list[list[float]]) -> None:
    """The pauses of the recording, over all windows."""
    assert due(Recorded(), *windows) == [0, 1, 3.5]


def test_faster() -> None:
    """Divided by a factor."""
    assert due(Recorded(10), [100, 101, 103.5]) == pytest.approx([0, 0.1, 0.35])


def test_long_pauses() -> None:
    """Are cut, as they pass here."""
    assert due(Recorded(1, 60), [0, 3600, 3601]) == [0, 60, 61]
    assert due(Recorded(100, 60), [0, 3600]) == [0, 36]


def test_a_clock_that_was_set_back() -> None:
    """Messages follow without a pause until it has caught up."""
    assert due(Recorded(), [100, 101, 50, 51], [52, 102]) == [0, 1, 1, 1, 1, 2]
