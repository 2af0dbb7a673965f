"""What waits for the readers of one stream: order, marks, the end, and cancelled waits."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from hub.batch import Batch
from peers.client import ClosedError, ConnectionLostError, Message, MessageStream
from peers.client.values import decode_batch
from tests.hubs.eventually import eventually


class NoSource:
    def __init__(self) -> None:
        self.held: list[bool] = []

    async def open(self, sink: MessageStream, wants: Iterable[Any]) -> list[Any]:  # noqa: ARG002
        return []

    def release(self, sink: MessageStream, claims: list[Any]) -> None:
        pass

    def hold(self, sink: MessageStream) -> None:  # noqa: ARG002
        self.held.append(True)

    def let_go(self, sink: MessageStream) -> None:  # noqa: ARG002
        self.held.append(False)


async def opened(source: NoSource | None = None) -> MessageStream:
    stream = MessageStream(source or NoSource(), ("/a",), lambda batch: decode_batch(batch)[0], 1000)
    await stream.open()
    return stream


def batch(*values: object) -> Batch:
    return Batch.of("/a", values)


def values_of(messages: list[Message]) -> list[Any]:
    return [message.value for message in messages]


async def test_marks_stand_where_they_belong() -> None:
    stream = await opened()
    stream.put(batch(1, 2))
    stream.put(batch(3))
    stream.put_gap(5)
    stream.put_gap(2)
    stream.put(batch(4))
    stream.put_break()
    stream.put(batch(5))
    seen = [(values_of(await stream.batch()), stream.lost_messages, stream.breaks) for _ in range(3)]
    assert seen == [([1, 2, 3], 0, 0), ([4], 7, 0), ([5], 7, 1)]


async def test_a_mark_alone_wakes_nobody() -> None:
    """A reader is not woken for a loss alone; it learns of it with the next message, or at the end."""
    stream = await opened()
    reading = asyncio.ensure_future(stream.batch())
    await asyncio.sleep(0)
    stream.put_gap(3)
    await asyncio.sleep(0)
    assert not reading.done()
    stream.finish(None)
    assert await reading == []
    assert stream.lost_messages == 3


async def test_one_by_one_and_in_bulk() -> None:
    stream = await opened()
    stream.put(batch(1, 2, 3))
    stream.put(batch(4))
    assert (await stream.receive()).value == 1
    stream.put(batch(5))
    assert values_of(stream.batch_nowait()) == [2, 3, 4]
    assert await stream.receive() == Message("/a", 5)
    assert stream.batch_nowait() == []


async def test_the_end() -> None:
    stream = await opened()
    stream.put(batch(1))
    stream.finish(ConnectionLostError(1006, "gone"))
    stream.finish(None)
    stream.put(batch(2))
    assert (await stream.receive()).value == 1
    for _ in range(2):
        with pytest.raises(ConnectionLostError, match="gone"):
            await stream.receive()
        with pytest.raises(ConnectionLostError):
            await stream.batch()
    other = await opened()
    other.finish(None)
    assert await other.batch() == []
    with pytest.raises(ClosedError):
        await other.receive()


async def test_several_readers() -> None:
    stream = await opened()
    reading = [asyncio.ensure_future(stream.receive()) for _ in range(3)]
    await asyncio.sleep(0)
    stream.put(batch(1))
    stream.put(batch(2))
    await eventually(lambda: sum(task.done() for task in reading) == 2)
    stream.finish(None)
    results = await asyncio.gather(*reading, return_exceptions=True)
    assert sorted(result.value for result in results if isinstance(result, Message)) == [1, 2]
    assert [type(result) for result in results if not isinstance(result, Message)] == [ClosedError]


async def test_cancelled_waits() -> None:
    stream = await opened()
    reading = asyncio.ensure_future(stream.batch())
    await asyncio.sleep(0)
    stream.put(batch(1))
    reading.cancel()
    await asyncio.wait([reading])
    assert reading.cancelled()
    assert values_of(await stream.batch()) == [1]


async def test_what_it_holds() -> None:
    source = NoSource()
    stream = await opened(source)
    one, other = batch(bytes(200_000)), batch(bytes(100_000))
    for each in (one, other, one):
        stream.put(each)
    assert source.held == [True]
    assert stream.buffered_bytes == 2 * one.size_bytes + other.size_bytes
    assert len(stream.batch_nowait()) == 2, "about 256 KiB at once"
    assert (stream.buffered_bytes, source.held) == (one.size_bytes, [True])
    stream.close_nowait()
    assert (stream.buffered_bytes, source.held, stream.ended) == (0, [True, False], True)
