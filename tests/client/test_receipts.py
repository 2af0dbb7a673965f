"""Receipts: who published learns the offset of its message, by the order of the answers."""

from __future__ import annotations

import asyncio

import pytest

from hub.errors import ClosedError, ConnectionLostError, HubError, RejectedError
from peers.client.publications import Receipt, Receipts
from peers.wire.control import Notice


async def settled(receipt: Receipt) -> int | HubError:
    """What a receipt says, which it must say already."""
    async with asyncio.timeout(0):
        try:
            return await receipt.wait()
        except HubError as error:
            return error


async def waits(receipt: Receipt) -> bool:
    """Whether a receipt has nothing to say yet."""
    return not receipt._future.done()


@pytest.fixture
async def receipts() -> tuple[Receipts, list[Receipt]]:
    """Five that are awaited: frames of one, three and one message."""
    awaited = Receipts()
    mine = [Receipt() for _ in range(5)]
    awaited.expect(mine[:1])
    awaited.expect(mine[1:4])
    awaited.expect(mine[4:])
    return awaited, mine


async def test_offsets(receipts: tuple[Receipts, list[Receipt]]) -> None:
    """One frame's messages have offsets behind one another."""
    awaited, mine = receipts
    assert len(awaited) == 5
    awaited.answer(Notice("recorded", count=1, offset=7))
    assert await settled(mine[0]) == 7
    assert await waits(mine[1])
    awaited.answer(Notice("recorded", count=3, offset=20))
    awaited.answer(Notice("recorded", count=1, offset=0))
    assert [await settled(receipt) for receipt in mine[1:]] == [20, 21, 22, 0]
    assert len(awaited) == 0


async def test_refusals(receipts: tuple[Receipts, list[Receipt]]) -> None:
    """Each message of the frame gets the cause; those behind it are not touched."""
    awaited, mine = receipts
    awaited.answer(Notice("unrecorded", count=1, code=1008, text="not recorded here"))
    awaited.answer(Notice("unrecorded", count=3, code=4012, text="full"))
    errors = [await settled(receipt) for receipt in mine[:4]]
    assert all(isinstance(error, RejectedError) for error in errors)
    assert [str(error) for error in errors] == ["not recorded here (1008)", *["full (4012)"] * 3]
    assert await waits(mine[4])


@pytest.mark.parametrize("notice", [Notice("recorded", count=99, offset=3), Notice("recorded", count=2**40, offset=3)])
async def test_more_than_is_awaited(receipts: tuple[Receipts, list[Receipt]], notice: Notice) -> None:
    """A hub that says too much costs nothing."""
    awaited, mine = receipts
    awaited.answer(notice)
    assert [await settled(receipt) for receipt in mine] == [3, 4, 5, 6, 7]
    awaited.answer(notice)


async def test_recorded_without_an_offset(receipts: tuple[Receipts, list[Receipt]]) -> None:
    """Is not taken for an offset."""
    awaited, mine = receipts
    awaited.answer(Notice("recorded", count=1))
    assert isinstance(await settled(mine[0]), RejectedError)


async def test_a_lost_connection(receipts: tuple[Receipts, list[Receipt]]) -> None:
    """Nobody knows what has become of what was sent; what is sent later is not concerned."""
    awaited, mine = receipts
    awaited.answer(Notice("recorded", count=1, offset=7))
    awaited.disconnected()
    assert await settled(mine[0]) == 7
    for receipt in mine[1:]:
        error = await settled(receipt)
        assert isinstance(error, ConnectionLostError)
        assert "may be recorded or not" in error.text
    later = Receipt()
    awaited.expect([later])
    awaited.answer(Notice("recorded", count=1, offset=8))
    assert await settled(later) == 8


async def test_who_does_not_wait_any_more() -> None:
    """Is passed over, and keeps nobody else's."""
    awaited = Receipts()
    gone, other = Receipt(), Receipt()
    awaited.expect([gone, other])
    waiting = asyncio.ensure_future(gone.wait())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    awaited.answer(Notice("recorded", count=1, offset=1))
    awaited.answer(Notice("recorded", count=1, offset=2))
    assert await settled(other) == 2


@pytest.mark.parametrize("outcome", [5, ClosedError("the client is closed")], ids=["offset", "error"])
async def test_the_first_outcome_counts(outcome: int | HubError) -> None:
    """What is said later does not change it."""
    receipt = Receipt()
    receipt.settle(outcome)
    receipt.settle(99)
    assert await settled(receipt) is outcome
