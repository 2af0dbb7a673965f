"""One answer for all who ask the same."""

from __future__ import annotations

import asyncio
from itertools import pairwise

from hub.errors import CloseCode, RejectedError
from peers.journal.readers import ANSWERED_PER_TURN, Deliver, SharedPieces


def test_who_asks_the_same_is_answered_together() -> None:
    read: list[tuple[bytes, Deliver]] = []
    pieces = SharedPieces(lambda order, deliver, _: read.append((order, deliver)))
    got: list[tuple[str, object]] = []
    for name, order in (("a", b"1"), ("b", b"2"), ("c", b"1")):
        pieces.fetch(order, lambda answer, name=name: got.append((name, answer)))  # type: ignore[misc]
    assert [order for order, _ in read] == [b"1", b"2"]
    read[0][1](b"first")
    assert got == [("a", b"first"), ("c", b"first")]
    pieces.fetch(b"1", lambda answer: got.append(("d", answer)))
    assert len(read) == 3
    error = RejectedError(CloseCode.TRY_AGAIN_LATER, "busy")
    read[1][1](error)
    assert got[-1] == ("b", error)


def test_who_asks_again_as_the_answer_comes() -> None:
    read: list[Deliver] = []
    pieces = SharedPieces(lambda _, deliver, __: read.append(deliver))
    pieces.fetch(b"1", lambda _: pieces.fetch(b"1", lambda _: None))
    read[0](b"")
    assert len(read) == 2


async def test_very_many_are_answered_over_several_turns() -> None:
    read: list[Deliver] = []
    pieces = SharedPieces(lambda _, deliver, __: read.append(deliver))
    total = 2 * ANSWERED_PER_TURN + 3
    got: list[int] = []
    for number in range(total):
        pieces.fetch(b"1", lambda _, number=number: got.append(number))  # type: ignore[misc]
    read[0](b"")
    pieces.fetch(b"1", lambda _: None)
    assert len(read) == 2
    seen = [0, len(got)]
    while len(got) < total:
        await asyncio.sleep(0)
        seen.append(len(got))
    assert max(after - before for before, after in pairwise(seen)) == ANSWERED_PER_TURN
    assert got == list(range(total))
