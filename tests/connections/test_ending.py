"""How long whoever is closed may take to read why."""

from __future__ import annotations

import math

from hub.settings.sections import Limits
from peers.connections.limits import LINGER_S, Lingering

LIMITS = Limits(linger_s=80, linger_unread_s=14)


def test_who_has_everything_is_let_go() -> None:
    assert Lingering(100.0, 0, LIMITS).check(100.0 + LINGER_S, 0) == math.inf


def test_who_reads_slowly_is_waited_for() -> None:
    lingering, now_s, unread = Lingering(100.0, 1_000_000, LIMITS), 100.0, 1_000_000
    looks = 0
    while math.isfinite(next_s := lingering.check(now_s, unread)):
        assert next_s == now_s + LINGER_S
        now_s, unread, looks = next_s, unread - 1000, looks + 1
    assert looks == LIMITS.linger_s / LINGER_S
    assert unread > 0


def test_who_reads_nothing_is_let_go_earlier() -> None:
    lingering = Lingering(100.0, 5000, LIMITS)
    assert lingering.check(102.0, 5000) == 104.0
    assert lingering.check(104.0, 4000) == 106.0
    assert lingering.check(104.0 + LIMITS.linger_unread_s - 1, 4000) < math.inf
    assert lingering.check(104.0 + LIMITS.linger_unread_s, 4000) == math.inf


def test_who_catches_up_is_let_go() -> None:
    lingering = Lingering(100.0, 5000, LIMITS)
    assert lingering.check(102.0, 10) == 104.0
    assert lingering.check(104.0, 0) == math.inf
