"""How late a link is: round trips, and how long what waits has waited."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hub.overflow import Overflow
from peers.links.link import PING_EVERY_S, Lag


def test_a_link_is_measured_now_and_then() -> None:
    lag = Lag(Overflow.DROP_OLDEST)
    assert lag.lag_s(10.0) is None
    first = lag.ask(10.0)
    assert first
    assert not lag.ask(10.0 + PING_EVERY_S)
    lag.answer(first, 10.25)
    assert lag.round_trip_s == 0.25
    assert not lag.ask(9.0 + PING_EVERY_S)
    second = lag.ask(10.0 + PING_EVERY_S)
    assert second not in {b"", first}


def test_an_answer_that_is_late_is_a_lag_already() -> None:
    lag = Lag(Overflow.DROP_OLDEST)
    token = lag.ask(0.0)
    assert lag.lag_s(3.0) == 3.0
    lag.answer(token, 4.0)
    assert lag.lag_s(100.0) == 4.0
    token = lag.ask(100.0)
    assert lag.lag_s(101.0) == 4.0
    assert lag.lag_s(107.0) == 7.0
    lag.answer(token, 108.0)
    lag.answer(token, 120.0)  # once more
    assert lag.lag_s(130.0) == 8.0


def test_answers_to_other_pings_mean_nothing() -> None:
    lag = Lag(Overflow.DROP_OLDEST)
    lag.ask(0.0)
    for token in (b"", b"\0" * 4, b"\0" * 7 + b"\1"):
        lag.answer(token, 1.0)
    assert lag.round_trip_s is None


def test_a_queue_that_stands_still_grows_old() -> None:
    lag = Lag(Overflow.DROP_NEWEST)
    for now_s in range(200):
        lag.look(5, 0, 3, now_s)
    assert lag.waiting_s(5, 0, 3, 200.0) == 200.0
    for now_s in range(200, 400):
        lag.look(5, now_s, 3 + now_s, now_s)  # something comes all the time
    assert lag.waiting_s(5, 400, 403, 400.0) == 60.0
    assert lag.waiting_s(408, 400, 0, 400.0) == 0.0


@given(
    overflow=st.sampled_from([Overflow.DROP_OLDEST, Overflow.DROP_NEWEST]),
    steps=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=50),
)
def test_the_age_of_the_oldest(overflow: Overflow, steps: list[tuple[int, int]]) -> None:
    lag, room = Lag(overflow), 20
    queue: list[float] = []
    written = dropped = 0
    for second, (offered, read) in enumerate(steps):
        came_s = float(second)
        for _ in range(offered):
            if len(queue) == room:
                dropped += 1
                if overflow is Overflow.DROP_NEWEST:
                    continue
                del queue[0]
            queue.append(came_s)
        lag.look(written, dropped, len(queue), came_s)
        written += len(queue[:read])
        del queue[:read]
        age_s = came_s + 1.0 - queue[0] if queue else 0.0
        assert lag.waiting_s(written, dropped, len(queue), came_s + 1.0) == age_s
