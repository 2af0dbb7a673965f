"""A few at once, and one a second in the long run."""

from __future__ import annotations

import pytest

from hub.mesh.outgoing import Pace


def test_a_burst_then_one_a_second() -> None:
    pace, said = Pace(3, 1.0), []
    now_s = 100.0
    for _ in range(6):
        now_s = pace.ready_s(now_s)
        pace.use(now_s)
        said.append(now_s)
    assert said == pytest.approx([100, 100, 100, 101, 102, 103])


def test_after_a_quiet_time_there_is_a_burst_again() -> None:
    pace = Pace(2, 1.0)
    for now_s in (0.0, 0.0, 10.0, 10.0):
        assert pace.ready_s(now_s) == now_s
        pace.use(now_s)
    assert pace.ready_s(10.0) == pytest.approx(11.0)
