"""How a hub does, in one sentence."""

from __future__ import annotations

import pytest

from hub.losses import Losers, State, droppers_of, sentence


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (State(), "Nobody subscribes to anything, nothing was dropped in the last minute."),
        (State(2, 1), "The only subscriber keeps up, nothing was dropped in the last minute."),
        (State(2, 1, 1), "The only subscriber is slow, nothing was dropped in the last minute."),
        (State(3000, 2140), "All 2,140 subscribers keep up, nothing was dropped in the last minute."),
        (State(300, 214, 1), "1 of 214 subscribers is slow, nothing was dropped in the last minute."),
        (
            State(300, 214, 3, 12_400, (("sensor-7", 12_400),), 1),
            "3 of 214 subscribers are slow, 12,400 messages were dropped in the last minute, all by `sensor-7`.",
        ),
        (
            State(300, 214, 3, 1, (("sensor-7", 1),), 1),
            "3 of 214 subscribers are slow, 1 message was dropped in the last minute, by `sensor-7`.",
        ),
        (
            State(300, 214, 3, 100, (("a", 50), ("b", 30), ("c", 20)), 3),
            "3 of 214 subscribers are slow, 100 messages were dropped in the last minute, most of them by `a`.",
        ),
        (
            State(300, 214, 3, 100, (("a", 40), ("b", 35), ("c", 25)), 3),
            "3 of 214 subscribers are slow, 100 messages were dropped in the last minute by 3 of them, most by `a`.",
        ),
        (State(300, 214, 0, 7, (), 1), "All 214 subscribers keep up, 7 messages were dropped in the last minute."),
        (
            State(1, 1, troubles=("the journal cannot be written: disk full", "there is too little memory")),
            (
                "The journal cannot be written: disk full. There is too little memory. "
                "The only subscriber keeps up, nothing was dropped in the last minute."
            ),
        ),
    ],
)
def test_the_sentence(state: State, text: str) -> None:
    assert sentence(state) == text
    assert state.fields()["text"] == text


@pytest.mark.parametrize(
    ("label", "shown"),
    [("Küche", "`Küche`"), ("a\nb\x1b[31m", "`a\\nb\\x1b[31m`"), ("\u202etxt", "`\\u202etxt`"), ("`", "```")],
)
def test_hostile_names(label: str, shown: str) -> None:
    assert sentence(State(9, 9, 1, 5, ((label, 5),), 1)).endswith(f"all by {shown}.")


def test_processes_are_put_together() -> None:
    one = State(10, 5, 1, 30, (("a", 20), ("b", 10)), 2, (4,), ("the hub is stopping",))
    other = State(1, 1, 1, 15, (("b", 15),), 1, (7,), ("the hub is stopping",))
    assert one.plus(other) == State(11, 6, 2, 45, (("b", 25), ("a", 20)), 3, (4, 7), ("the hub is stopping",))


def test_what_is_told_can_be_taken_back() -> None:
    state = State(10, 5, 1, 30, (("a", 20), ("b", 10)), 2, (4,), ("the hub is stopping",))
    assert State.of(state.fields()) == state


def test_who_has_lost_what() -> None:
    by, droppers = droppers_of(Losers(30, {1: 5, 2: 8, 3: 7}, {1: "a", 2: "b", 3: "a"}, 10))
    assert by == (("a", 12), ("b", 8))
    assert droppers == 4
