"""When messages of a replay are due."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peers.cli.replay import MAX_PAUSE_S, FieldError, Rate, Recorded, Schedule, time_s

T0 = 1521911720.0


def pauses(pace: Recorded, *times: float) -> list[float]:
    """The pauses of records with these times."""
    return [pace.pause_s({"ts": at}) for at in times]


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("2018-03-24T17:15:20.600725Z", 1521911720.600725),
        ("2018-03-24T17:15:20.600725123Z", 1521911720.600725),
        ("2018-03-24T18:15:20+01:00", 1521911720.0),
        ("2018-03-24T17:15:20", 1521911720.0),
        ("1521911720.5", 1521911720.5),
        (1521911720, 1521911720.0),
        (1521911720.25, 1521911720.25),
    ],
)
def test_times_are_texts_or_numbers(value: object, seconds: float) -> None:
    """RFC 3339 text (UTC where it names no offset) and seconds since 1970, as a number or text, are times."""
    assert time_s(value, "ts") == pytest.approx(seconds, abs=1e-6)


@pytest.mark.parametrize("value", ["yesterday", "", "nan", "inf", True, [], {}])
def test_what_is_no_time_is_named(value: object) -> None:
    """Anything else is an error that names the field."""
    with pytest.raises(FieldError, match="field 'ts' is no time"):
        time_s(value, "ts")


def test_recorded_pauses_are_divided_by_the_speed() -> None:
    """The first record is due at once, the others after their recorded pause, divided by the factor."""
    assert pauses(Recorded(speed=2), T0, T0 + 1, T0 + 4) == [0, 0.5, 1.5]


def test_late_records_follow_at_once() -> None:
    """A record from before the latest one has no pause, and does not lengthen the pause after it."""
    assert pauses(Recorded(), T0, T0 + 10, T0 + 3, T0 + 9, T0 + 12) == [0, 10, 0, 0, 2]


def test_a_single_pause_is_capped() -> None:
    """No pause is longer than the cap, whatever the recording says; the recording goes on from there."""
    assert pauses(Recorded(max_pause_s=5), T0, T0 + 3600, T0 + 3601) == [0, 5, 1]
    assert pauses(Recorded(), T0, T0 + 1e9) == [0, MAX_PAUSE_S]


def test_a_clock_that_jumped_ahead_is_set_back() -> None:
    """One record of the far future does not make all that follow count as late: after a few it is found out."""
    found = pauses(Recorded(), T0 + 1e8, *(T0 + at for at in range(20)))
    assert found[:9] == [0.0] * 9
    assert found[9:] == [1.0] * 12


def test_a_few_records_of_the_far_past_change_nothing() -> None:
    """Single records from long ago stand between others, and the pace stays as it is."""
    assert pauses(Recorded(), T0, T0 - 1e8, T0 + 1, T0 - 1e8, T0 + 2) == [0, 0, 1, 0, 1]


def test_the_first_time_field_that_is_there_counts() -> None:
    """By default that is `ts`, else `_write_ts`; a name of one's own replaces both."""
    pace = Recorded()
    assert [pace.pause_s({"_write_ts": T0}), pace.pause_s({"ts": T0 + 1, "_write_ts": T0 + 5})] == [0, 1]
    own = Recorded(fields=("at",))
    assert [own.pause_s({"at": T0, "ts": 0}), own.pause_s({"at": T0 + 2, "ts": 0})] == [0, 2]


def test_a_record_without_time_is_an_error() -> None:
    """It says which field is missing and how to name another."""
    with pytest.raises(FieldError, match=r"field 'ts' is missing.*--time-field"):
        Recorded().pause_s({"_path": "dns"})


def test_a_recording_can_begin_anew() -> None:
    """After `restart` the first record is due at once again."""
    pace = Recorded()
    assert pauses(pace, T0, T0 + 1) == [0, 1]
    pace.restart()
    assert pauses(pace, T0, T0 + 1) == [0, 1]


def test_a_rate_spaces_evenly() -> None:
    """Four messages a second are a quarter of a second apart, whatever stands in them."""
    assert [Rate(4).pause_s({}), Rate(4).pause_s({"ts": "x"})] == [0.25, 0.25]


def test_delays_do_not_add_up() -> None:
    """A message that was sent late does not put off the next one: the schedule is kept."""
    schedule = Schedule(100.0)
    assert schedule.wait_s(0.25, 100.0) == 0.25
    assert schedule.wait_s(0.25, 100.4) == pytest.approx(0.1)
    assert schedule.wait_s(0.25, 100.9) == pytest.approx(-0.15)
    assert schedule.wait_s(0.25, 100.9) == pytest.approx(0.1)


def test_a_long_stall_is_not_caught_up() -> None:
    """After a stall of minutes at most one second's worth of messages follows at once."""
    schedule = Schedule(0.0)
    waits = [schedule.wait_s(0.25, 600.0) for _ in range(8)]
    assert [wait_s for wait_s in waits if wait_s <= 0] == pytest.approx([-1.0, -0.75, -0.5, -0.25, 0.0])
    assert waits[5:] == pytest.approx([0.25, 0.5, 0.75])


@given(st.lists(st.floats(-1e10, 1e10)), st.floats(0.1, 1000), st.floats(0.1, 100))
def test_no_pause_is_negative_or_over_the_cap(times: list[float], speed: float, cap_s: float) -> None:
    """Whatever the recording holds, each pause lies between nothing and the cap."""
    assert all(0 <= pause_s <= cap_s for pause_s in pauses(Recorded(speed, max_pause_s=cap_s), *times))
