"""The keepalive rules, with a clock that the test moves."""

from __future__ import annotations

import math

from peers.transport.liveness import Act, Liveness, Step


def test_nothing_while_the_hub_talks() -> None:
    liveness = Liveness(100.0)
    for now_s in (105.0, 120.0, 139.0):
        liveness.heard_s = now_s
        assert liveness.check(now_s + 1, reading=True) == Step(Act.NOTHING, now_s + 20)


def test_ping_and_lost() -> None:
    liveness = Liveness(100.0)
    assert liveness.check(119.9, reading=True) == Step(Act.NOTHING, 120.0)
    assert liveness.check(120.0, reading=True) == Step(Act.PING, 130.0)
    assert liveness.check(125.0, reading=True) == Step(Act.NOTHING, 130.0)
    assert liveness.check(130.0, reading=True) == Step(Act.LOST, math.inf)


def test_answered() -> None:
    liveness = Liveness(100.0)
    assert liveness.check(120.0, reading=True).act is Act.PING
    liveness.heard_s = 121.0
    assert liveness.check(130.0, reading=True) == Step(Act.NOTHING, 141.0)
    assert liveness.check(141.0, reading=True).act is Act.PING


def test_a_side_that_does_not_read() -> None:
    """Who does not read cannot hear: a sign of life goes out every 10 s, and the silence counts from the reading on."""
    liveness = Liveness(100.0)
    assert liveness.check(120.0, reading=True).act is Act.PING
    for now_s in (130.0, 140.0, 500.0):
        assert liveness.check(now_s, reading=False) == Step(Act.PONG, now_s + 10)
    assert liveness.check(505.0, reading=True) == Step(Act.NOTHING, 520.0)
    assert liveness.check_after_pause_s == 5.0


def test_a_short_interval_is_kept() -> None:
    """The silence is looked at again in time, also when an answer may take longer than the interval."""
    liveness = Liveness(0.0, ping_after_s=1.0, ping_timeout_s=60.0)
    assert liveness.check(1.0, reading=True) == Step(Act.PING, 2.0)
    assert liveness.check(2.0, reading=True) == Step(Act.NOTHING, 61.0)


def test_overslept() -> None:
    liveness = Liveness(100.0)
    assert not liveness.has_overslept(119.0)
    assert liveness.has_overslept(120.0)


def test_who_is_asked_has_overslept() -> None:
    """A side that has asked for a sign of life has overslept at that same time, however the two times are rounded."""
    for milliseconds in range(1000):
        liveness = Liveness(milliseconds / 1000, ping_after_s=0.001)
        now_s = liveness.check(liveness.heard_s, reading=True).next_s
        assert liveness.check(now_s, reading=True).act is Act.PING
        assert liveness.has_overslept(now_s)
