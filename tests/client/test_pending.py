"""Which requests wait for which answers: against a naive model, and at the ends of the numbers."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from peers.client.requests import Asked, Block, Pending


def block_of(requests: int, deadline_s: float = 0.0) -> tuple[Block[Asked], list[asyncio.Future[Any]]]:
    loop = asyncio.get_running_loop()
    futures: list[asyncio.Future[Any]] = [loop.create_future() for _ in range(requests)]
    asked = Asked()
    asked.futures.extend(futures)
    block = Block(b"/a", 0, 1.0, deadline_s, asked)
    block.requests = requests
    return block, futures


def values(futures: list[asyncio.Future[Any]]) -> list[Any]:
    return [future.result() if future.done() else None for future in futures]


async def test_a_frame_is_answered_at_once_or_in_parts() -> None:
    pending = Pending()
    first, one = block_of(3)
    second, two = block_of(4)
    assert (pending.add(first), pending.add(second), pending.requests) == (1, 4, 7)
    pending.answer(2, ["b"])
    pending.answer(3, ["c", "d", "e"])
    assert (values(one), values(two)) == ([None, "b", "c"], ["d", "e", None, None])
    pending.answer(3, ["again", "again"])
    assert (pending.late, pending.requests) == (2, 3)
    pending.answer(1, ["a"])
    pending.answer(6, ["f", "g", "nobody's"])
    assert (values(one), values(two)) == (["a", "b", "c"], ["d", "e", "f", "g"])
    pending.answer(1, ["late"])
    assert (pending.late, pending.requests, bool(pending)) == (4, 0, False)


async def test_numbers_begin_anew() -> None:
    pending = Pending()
    pending._next = 2**32 - 2
    last, _ = block_of(2)
    first, futures = block_of(3)
    assert (pending.add(last), pending.add(first)) == (2**32 - 2, 1)
    pending.answer(2, ["b"])
    pending.answer(0, ["nobody's", "a"])
    assert values(futures) == ["a", "b", None]
    pending.answer(2**32 - 2, ["y", "z"])
    pending.answer(3, ["c"])
    assert not pending


@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=8),
    st.lists(st.tuples(st.integers(0, 50), st.integers(1, 8)), max_size=40),
)
def test_as_a_dictionary_would(frames: list[int], replies: list[tuple[int, int]]) -> None:
    """Whatever comes in whatever pieces, each request gets the first answer to its number, and no other."""

    async def run() -> None:
        pending = Pending()
        futures: dict[int, asyncio.Future[Any]] = {}
        for requests in frames:
            block, some = block_of(requests)
            first = pending.add(block)
            futures.update(zip(range(first, first + requests), some, strict=True))
        expected: dict[int, str] = {}
        late = 0
        for number, (first, count) in enumerate(replies):
            answers = [f"{number} {place}" for place in range(count)]
            pending.answer(first, answers)
            for place, answer in enumerate(answers):
                if first + place in futures and first + place not in expected:
                    expected[first + place] = answer
                else:
                    late += 1
        assert {number: future.result() for number, future in futures.items() if future.done()} == expected
        assert (pending.requests, pending.late) == (len(futures) - len(expected), late)

    asyncio.run(run())
