"""What a connection may hold, how long its end may take, and whether a frame that has begun gets on."""

from __future__ import annotations

import math

import pytest

from hub.memory import Memory
from hub.quotas.quotas import FREE_BYTES
from hub.quotas.resource import Resource
from hub.quotas.usage import Usage, Whole
from hub.settings.sections import Limits
from peers.connections.limits import LINGER_S, Holding, Lingering, Progress


def test_what_is_small_is_free() -> None:
    account = Memory().account("connections")
    holding = Holding(account)
    assert not holding.begin(FREE_BYTES)
    holding.leave_unwritten(FREE_BYTES)
    assert account.size_bytes == 0


def test_a_frame_is_charged_as_it_grows_until_it_is_complete() -> None:
    account = Memory().account("connections")
    holding = Holding(account)
    assert holding.begin(FREE_BYTES + 1)
    assert holding.begin(1_000_000)
    assert account.size_bytes == 1_000_000
    assert not holding.begin(1_000_000)
    assert not holding.begin(100)
    assert account.size_bytes == 0


def test_both_directions_of_all_connections_are_one_sum() -> None:
    account = Memory().account("connections")
    one, other = Holding(account), Holding(account)
    one.begin(1_000_000)
    one.leave_unwritten(200_000)
    other.leave_unwritten(300_000)
    assert account.size_bytes == 1_500_000
    one.give_back()
    assert account.size_bytes == 300_000
    other.leave_unwritten(0)
    assert account.size_bytes == 0


def test_the_user_pays_from_when_he_is_known() -> None:
    account = Memory().account("connections")
    usage = Usage(Whole(Resource.QUEUED_BYTES, 10_000_000), "alice", 1_000_000, lambda: None)
    holding = Holding(account)
    holding.begin(600_000)
    holding.charge(usage, 10_000)
    assert usage.held == 600_000
    holding.leave_unwritten(700_000)
    assert (usage.held, holding.refusal) == (1_300_000, "")
    holding.leave_unwritten(10_000)
    assert usage.held == 600_000, "what is free is not charged"
    holding.leave_unwritten(300_000)
    holding.begin(700_000)
    assert (usage.held, holding.refusal) == (1_000_000, "")
    assert holding.begin(700_001)
    assert usage.held == account.size_bytes == 1_000_001
    assert holding.refusal.startswith("user alice has 1000000 bytes waiting, 1 more are too many")
    assert holding.refusal.endswith("the limit for this user is 1000000")
    holding.give_back()
    assert usage.held == account.size_bytes == 0


@pytest.mark.parametrize("room_bytes", [0, 1_000_000])
def test_a_frame_that_grows_while_memory_is_over_is_refused(room_bytes: int) -> None:
    resident_bytes = 2_000_000
    memory = Memory(1_000_000, lambda: resident_bytes)
    holding = Holding(memory.account("connections"))
    memory.look()
    resident_bytes -= room_bytes
    refusal = holding.grow(FREE_BYTES + 1, memory)
    assert refusal == ("" if room_bytes else "this hub has no memory left for more: 1000000 bytes are its limit")
    assert not holding.grow(FREE_BYTES + 1, memory)
    assert memory.statistics().refused_total == (not room_bytes)


def test_what_waits_for_its_turn_is_charged_until_all_of_it_was_acted_on() -> None:
    memory = Memory()
    account = memory.account("connections")
    holding = Holding(account)
    assert not holding.grow(200_000, memory, waits=True)
    assert not holding.grow(100_000, memory, waits=True)
    assert account.size_bytes == 200_000
    assert not holding.grow(100_000, memory)
    assert account.size_bytes == 100_000


@pytest.mark.parametrize("rest_bytes", [0, 250_000])
def test_a_user_without_room_is_refused_what_is_incomplete(rest_bytes: int) -> None:
    memory = Memory()
    usage = Usage(Whole(Resource.QUEUED_BYTES, 400_000), "alice", 240_000, lambda: None)
    holding = Holding(memory.account("connections"))
    holding.charge(usage, FREE_BYTES)
    assert not holding.grow(300_000, memory, waits=True)
    assert usage.held == 300_000
    assert holding.grow(rest_bytes, memory).startswith("user alice has") is bool(rest_bytes)
    assert not holding.grow(rest_bytes, memory)
    assert usage.held == rest_bytes


def test_without_memory_a_read_that_waits_is_refused_too() -> None:
    memory = Memory(1_000_000, lambda: 2_000_000)
    holding = Holding(memory.account("connections"))
    assert not holding.grow(FREE_BYTES, memory, waits=True)
    assert "no memory left" in holding.grow(FREE_BYTES + 1, memory, waits=True)


# How long whoever is closed may take to read why.


LINGERING = Limits(linger_s=80, linger_unread_s=14)


def test_who_has_everything_is_let_go() -> None:
    assert Lingering(100.0, 0, LINGERING).check(100.0 + LINGER_S, 0) == math.inf


def test_who_reads_slowly_is_waited_for() -> None:
    lingering, now_s, unread = Lingering(100.0, 1_000_000, LINGERING), 100.0, 1_000_000
    looks = 0
    while math.isfinite(next_s := lingering.check(now_s, unread)):
        assert next_s == now_s + LINGER_S
        now_s, unread, looks = next_s, unread - 1000, looks + 1
    assert looks == LINGERING.linger_s / LINGER_S
    assert unread > 0


def test_who_reads_nothing_is_let_go_earlier() -> None:
    lingering = Lingering(100.0, 5000, LINGERING)
    assert lingering.check(102.0, 5000) == 104.0
    assert lingering.check(104.0, 4000) == 106.0
    assert lingering.check(104.0 + LINGERING.linger_unread_s - 1, 4000) < math.inf
    assert lingering.check(104.0 + LINGERING.linger_unread_s, 4000) == math.inf


def test_who_catches_up_is_let_go() -> None:
    lingering = Lingering(100.0, 5000, LINGERING)
    assert lingering.check(102.0, 10) == 104.0
    assert lingering.check(104.0, 0) == math.inf


# Whether a frame that has begun gets on.


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
