"""Pairs one by one: how many are asked and outstanding, and what counts as an error."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hub.errors import ConnectionLostError, NoResponderError
from hub.request_frame import Status
from peers.bench.board import Board
from peers.bench.orders import Ask, Asked
from peers.bench.y.operation import Mode
from peers.bench.y.score import Score
from peers.bench.y.singly import ask_many, ask_one, draw
from tests.bench.y.askers import Asker, Change


async def asked(board: Board, asker: Asker, mode: Mode, pairs: int = 1_000) -> Asked:
    """A run."""
    order = Ask(mode, pairs, 0, 1 if mode == "one" else 64, 0)
    score = Score(order, board)
    if mode == "one":
        await ask_one(asker, "/y", score)
    else:
        await ask_many(asker, "/y", order, score)
    return score.asked()


MODES = pytest.mark.parametrize("mode", ["one", "many"])


@MODES
async def test_every_pair_is_asked_once_and_checked(board: Board, mode: Mode) -> None:
    """As many as were ordered, never more than so many open; the board tells how far it is."""
    asker = Asker()
    found = await asked(board, asker, mode)
    assert (found.pairs, found.wrong, found.failed, found.lost) == (1_000, 0, 0, 0)
    assert len(asker.asked) == 1_000
    assert asker.most_open == (1 if mode == "one" else 64)
    assert board.published == 1_000
    assert sum(count for _, count in found.latency[0]) == (1_000 if mode == "one" else 0)


@MODES
async def test_wrong_results_and_failures_are_counted(board: Board, mode: Mode) -> None:
    """Each by itself; the reason of failures is told once."""

    def change(number: int, right: int) -> int:
        if number % 10 == 3:
            return right ^ 1
        if number % 100 == 5:
            raise NoResponderError(Status.NO_RESPONDER, "nobody serves '/y/add'")
        return right

    found = await asked(board, Asker(change), mode)
    assert (found.pairs, found.wrong, found.failed, found.lost) == (1_000, 100, 10, 0)
    assert found.reasons == ["nobody serves '/y/add'"]


@MODES
async def test_a_run_ends_when_its_time_is_up(board: Board, mode: Mode) -> None:
    """What was asked by then is answered and counted."""
    score = Score(Ask(mode, 0, 0.01, 8, 0), board)
    asker = Asker()
    if mode == "one":
        await ask_one(asker, "/y", score)
    else:
        await ask_many(asker, "/y", Ask(mode, 0, 0.01, 8, 0), score)
    found = score.asked()
    assert found.pairs == len(asker.asked) > 0
    assert found.lost == 0


@MODES
async def test_a_connection_that_is_lost(board: Board, mode: Mode) -> None:
    """What cannot be asked has failed, and the run ends all the same."""

    class Lost(Asker):
        def request_nowait(self, topic: str, value: Any, *, timeout_s: float) -> asyncio.Future[Any]:
            if len(self.asked) == 300:
                raise ConnectionLostError(1006, "the hub has gone")
            return super().request_nowait(topic, value, timeout_s=timeout_s)

    found = await asked(board, Lost(), mode)
    assert (found.pairs, found.wrong, found.failed, found.lost) == (1_000, 0, 700, 0)
    assert found.reasons == ["the hub has gone (1006)"]


async def test_what_is_never_answered_is_lost(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run ends all the same."""
    monkeypatch.setattr("peers.bench.y.singly.TIMEOUT_S", 0.001)
    monkeypatch.setattr("peers.bench.y.singly.LATE_S", 0.001)
    silent: Change = lambda number, right: None if number == 7 else right  # noqa: E731
    found = await asked(board, Asker(silent), "many")
    assert (found.pairs, found.lost) == (1_000, 1)


def test_pairs_are_drawn_from_all_numbers() -> None:
    """Both operations, and every bit of both numbers."""
    drawn = list(draw(500))
    assert len(drawn) == 500
    assert len({operation for operation, _, _ in drawn}) == 2
    for place in (1, 2):
        numbers: list[Any] = [one[place] for one in drawn]
        assert max(numbers) < 2**64
        union = ones = 0
        for number in numbers:
            union |= number
            ones |= number ^ (2**64 - 1)
        assert union == ones == 2**64 - 1
