"""What waits for one reader: order, marks, the end, and cancelled waits."""

from __future__ import annotations

import asyncio

import pytest

from hub.batch import Batch
from peers.client import ConnectionLostError, Message
from peers.client.stream import Inbox
from peers.client.values import decode_batch
from tests.hubs.eventually import eventually


def inbox_of(taken: list[int] | None = None) -> Inbox:
    """An inbox that notes its size whenever something was taken."""
    sizes = [] if taken is None else taken
    inbox = Inbox(lambda batch: decode_batch(batch)[0], lambda: sizes.append(inbox.size_bytes))
    return inbox


def batch(*values: object) -> Batch:
    """A batch under /a."""
    return Batch.of("/a", values)


async def test_marks_stand_where_they_belong() -> None:
    """What one call returns stands between the same two marks; the counters hold for what was returned last."""
    inbox = inbox_of()
    inbox.put(batch(1, 2))
    inbox.put(batch(3))
    inbox.put_gap(5)
    inbox.put_gap(2)
    inbox.put(batch(4))
    inbox.put_break()
    inbox.put(batch(5))
    seen = []
    for _ in range(3):
        values = [message.value for message in await inbox.wait_batch()]
        seen.append((values, inbox.lost_messages, inbox.breaks))
    assert seen == [([1, 2, 3], 0, 0), ([4], 7, 0), ([5], 7, 1)]


async def test_a_mark_alone_wakes_nobody() -> None:
    """A reader is not woken for a loss alone; it learns of it with the next message, or at the end."""
    inbox = inbox_of()
    reading = asyncio.ensure_future(inbox.wait_batch())
    await asyncio.sleep(0)
    inbox.put_gap(3)
    await asyncio.sleep(0)
    assert not reading.done()
    inbox.finish()
    assert await reading == []
    assert inbox.lost_messages == 3


async def test_one_by_one_and_in_bulk() -> None:
    """Both ways of reading may be mixed: nothing is lost, repeated or out of order."""
    inbox = inbox_of()
    inbox.put(batch(1, 2, 3))
    inbox.put(batch(4))
    assert (await inbox.next_message()).value == 1
    inbox.put(batch(5))
    assert [message.value for message in inbox.take()] == [2, 3, 4]
    assert (await inbox.next_message()) == Message("/a", 5)
    assert inbox.take() == []


async def test_the_end() -> None:
    """What has come is read first, then comes the end, again and again; later messages are not taken."""
    inbox = inbox_of()
    inbox.put(batch(1))
    inbox.finish(ConnectionLostError(1006, "gone"))
    inbox.finish(None)
    inbox.put(batch(2))
    assert (await inbox.next_message()).value == 1
    for _ in range(2):
        with pytest.raises(ConnectionLostError, match="gone"):
            await inbox.next_message()
        with pytest.raises(ConnectionLostError):
            await inbox.wait_batch()
    other = inbox_of()
    other.finish()
    assert await other.wait_batch() == []
    with pytest.raises(StopAsyncIteration):
        await other.next_message()


async def test_several_readers() -> None:
    """Each message goes to one reader, and the end to all."""
    inbox = inbox_of()
    reading = [asyncio.ensure_future(inbox.next_message()) for _ in range(3)]
    await asyncio.sleep(0)
    inbox.put(batch(1))
    inbox.put(batch(2))
    await eventually(lambda: sum(task.done() for task in reading) == 2)
    inbox.finish()
    results = await asyncio.gather(*reading, return_exceptions=True)
    assert sorted(result.value for result in results if isinstance(result, Message)) == [1, 2]
    assert [type(result) for result in results if not isinstance(result, Message)] == [StopAsyncIteration]


async def test_cancelled_waits() -> None:
    """A wait that is cancelled, even in the moment when something comes, loses nothing."""
    inbox = inbox_of()
    reading = asyncio.ensure_future(inbox.wait_batch())
    await asyncio.sleep(0)
    inbox.put(batch(1))
    reading.cancel()
    await asyncio.wait([reading])
    assert reading.cancelled()
    assert [message.value for message in await inbox.wait_batch()] == [1]


async def test_what_it_holds() -> None:
    """The size is that of the batches held; whoever gives is told whenever something was taken."""
    sizes: list[int] = []
    inbox = inbox_of(sizes)
    one, other = batch(bytes(200_000)), batch(bytes(100_000))
    for each in (one, other, one):
        inbox.put(each)
    assert inbox.size_bytes == 2 * one.size_bytes + other.size_bytes
    assert len(inbox.take()) == 2, "about 256 KiB at once"
    assert inbox.size_bytes == one.size_bytes
    inbox.discard()
    assert inbox.size_bytes == 0
    assert inbox.finished
    assert sizes == [one.size_bytes, 0]
