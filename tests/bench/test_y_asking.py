"""Pairs of numbers: how many are asked and outstanding, and what counts as an error."""

from __future__ import annotations

from typing import Any

import pytest

from hub.errors import ConnectionLostError, NoResponderError
from hub.request_frame import Status
from peers.bench.y import OPERATIONS, Ask, Asked, ask_pairs
from tests.bench.askers import Asker

OUTSTANDING = pytest.mark.parametrize("outstanding", [1, 64])


async def asked(asker: Asker, outstanding: int, pairs: int = 1_000) -> Asked:
    """A run."""
    return await ask_pairs(asker, "/y", Ask(pairs, 0, outstanding), late_s=0.01)


@OUTSTANDING
async def test_every_pair_is_asked_once_and_checked(outstanding: int) -> None:
    """As many as were ordered, never more than so many open."""
    asker = Asker()
    found = await asked(asker, outstanding)
    assert (found.pairs, found.wrong, found.failed, found.lost) == (1_000, 0, 0, 0)
    assert len(asker.asked) == 1_000
    assert asker.most_open == outstanding
    assert found.latency.total == (1_000 if outstanding == 1 else 0)


@OUTSTANDING
async def test_wrong_results_and_failures_are_counted(outstanding: int) -> None:
    """Each by itself; the reason of failures is told once."""

    def change(number: int, right: int) -> int:
        if number % 10 == 3:
            return right ^ 1
        if number % 100 == 5:
            raise NoResponderError(Status.NO_RESPONDER, "nobody serves '/y/add'")
        return right

    found = await asked(Asker(change), outstanding)
    assert (found.pairs, found.wrong, found.failed, found.lost) == (1_000, 100, 10, 0)
    assert found.reasons == ["nobody serves '/y/add'"]


@OUTSTANDING
async def test_a_run_ends_when_its_time_is_up(outstanding: int) -> None:
    """What was asked by then is answered and counted."""
    asker = Asker()
    found = await ask_pairs(asker, "/y", Ask(0, 0.01, outstanding))
    assert found.pairs == len(asker.asked) > 0
    assert found.lost == 0


@OUTSTANDING
async def test_a_connection_that_is_lost(outstanding: int) -> None:
    """What cannot be asked has failed, and the run ends all the same."""

    class Lost(Asker):
        async def request(self, topic: str, value: Any, *, timeout_s: float) -> Any:
            if len(self.asked) == 300:
                raise ConnectionLostError(1006, "the hub has gone")
            return await super().request(topic, value, timeout_s=timeout_s)

    found = await asked(Lost(), outstanding)
    assert (found.pairs, found.wrong, found.failed, found.lost) == (1_000, 0, 700, 0)
    assert found.reasons == ["the hub has gone"]


async def test_what_is_never_answered_is_lost() -> None:
    """The run ends all the same."""
    found = await asked(Asker(lambda number, right: None if number == 7 else right), 64)
    assert (found.pairs, found.lost) == (1_000, 1)


async def test_pairs_are_drawn_from_all_numbers() -> None:
    """Both operations, and every bit of both numbers."""
    asker = Asker()
    await asked(asker, 8)
    assert {topic for topic, _ in asker.asked} == {f"/y/{name}" for name in OPERATIONS}
    for place in (0, 1):
        union = ones = 0
        for _, pair in asker.asked:
            assert pair[place] < 2**64
            union |= pair[place]
            ones |= pair[place] ^ (2**64 - 1)
        assert union == ones == 2**64 - 1


def test_operations_are_modulo_two_to_the_64() -> None:
    """As those of machine words."""
    assert OPERATIONS["add"](2**64 - 1, 2) == 1
    assert OPERATIONS["multiply"](2**63, 3) == 2**63
