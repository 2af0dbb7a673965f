"""Whether a frame that has begun gets on."""

from __future__ import annotations

from hub.settings.sections import Limits
from peers.connections.limits import Progress

LIMITS = Limits()
FRAME_S = LIMITS.frame_s


def test_a_drip_is_noticed() -> None:
    progress = Progress()
    looks = [progress.is_stuck(100.0 + 10 * number, 20 + number, LIMITS) for number in range(8)]
    assert looks == [False] * 6 + [True, True]


def test_a_slow_line_is_not() -> None:
    progress = Progress()
    for number in range(1000):
        assert not progress.is_stuck(100.0 + 10 * number, 20 + 10 * number * LIMITS.frame_bytes_per_s, LIMITS)


def test_without_an_incomplete_frame_nothing_is_stuck() -> None:
    progress = Progress()
    assert not any(progress.is_stuck(100.0 + FRAME_S * number, 0, LIMITS) for number in range(5))


def test_each_frame_has_its_time() -> None:
    for renew in (Progress.forget, lambda progress: progress.go_on(0)):
        progress = Progress()
        for number in range(5):
            renew(progress)
            assert not progress.is_stuck(100.0 + FRAME_S * number, 20, LIMITS)


def test_frames_within_a_message_are_no_progress_of_it() -> None:
    progress = Progress()
    assert not progress.is_stuck(100.0, 20, LIMITS, 1)
    progress.go_on(1)
    assert progress.is_stuck(100.0 + FRAME_S, 21, LIMITS, 1)
    progress.go_on(2)
    assert not progress.is_stuck(100.0 + FRAME_S, 20, LIMITS, 2)
    progress.go_on(2)
    assert progress.is_stuck(100.0 + 2 * FRAME_S, 21, LIMITS, 2)


def test_the_limits_are_those_of_the_settings() -> None:
    progress, limits = Progress(), Limits(frame_s=5, frame_bytes_per_s=2)
    assert not progress.is_stuck(100.0, 10, limits)
    assert not progress.is_stuck(104.0, 11, limits)
    assert not progress.is_stuck(105.0, 20, limits)
    assert progress.is_stuck(106.0, 21, limits)
