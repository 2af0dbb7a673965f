"""Overflow over TCP: policies, the queue a client asks for, and the notice in place of what was dropped."""

from __future__ import annotations

from pathlib import Path

import pytest

from hub.errors import CloseCode
from hub.handler import Handler
from hub.overflow import Overflow
from peers.wire.hello import QueueWish
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub
from tests.hubs.raw_client import RawClient, numbered, publication
from tests.hubs.raw_socket import Gap

HELD = 50
TOTAL = 3000
PADDING_BYTES = 1000
ROOMY = QueueWish(messages=1_000_000)


@pytest.fixture(params=["unix", "tcp"])
async def any_hub(request: pytest.FixtureRequest, start_hub: StartHub, tmp_path: Path) -> Hub:
    return await start_hub(f"unix://{tmp_path}/hub.sock" if request.param == "unix" else "tcp://127.0.0.1:0")


async def stalled(hub: Hub, wish: QueueWish) -> tuple[RawClient, Handler]:
    client = await hub.client("/flood", name="stalled", queue=wish, receive_bytes=4096)
    return client, hub.handler("stalled")


async def flood(hub: Hub, start: int = 0, *, together: int = 1, padding: int = PADDING_BYTES) -> int:
    """Publish numbered messages until far more than a queue's worth has come to the stalled client; return the next.

    In chunks, so that the hub sees many reads, with a barrier behind each, so that the socket is full before the end.
    """
    publisher = await hub.client()
    handler = hub.handler("stalled")
    end = start
    spare = TOTAL
    while spare > 0 and not handler.closed:
        chunk = range(end, end + 210)
        await publisher.send(numbered("/flood", chunk, padding=padding, together=together))
        await publisher.ping()
        end = chunk.stop
        if not handler.writable:
            spare -= len(chunk)
    publisher.close()
    return end


@pytest.mark.parametrize("together", [1, 7, 210])
async def test_the_newest_stay(any_hub: Hub, together: int) -> None:
    client, handler = await stalled(any_hub, QueueWish(messages=HELD, overflow=Overflow.DROP_OLDEST))
    total = await flood(any_hub, together=together)
    statistics = handler.statistics()
    assert statistics.queued_messages == HELD
    found = await client.numbers_and_gaps(total)
    *written, gap = found[:-HELD]
    assert found[-HELD:] == list(range(total - HELD, total))
    assert written == list(range(len(written)))
    assert gap == Gap(total - HELD - len(written)) == Gap(statistics.dropped_messages)
    assert handler.statistics().delivered_messages == total - statistics.dropped_messages


@pytest.mark.parametrize("together", [1, 7, 210])
async def test_the_oldest_stay(any_hub: Hub, together: int) -> None:
    client, handler = await stalled(any_hub, QueueWish(messages=HELD, overflow=Overflow.DROP_NEWEST))
    total = await flood(any_hub, together=together)
    statistics = handler.statistics()
    assert statistics.queued_messages == HELD
    found = await client.numbers_and_gaps(total)
    *kept, gap = found
    assert kept == list(range(len(kept)))
    assert gap == Gap(total - len(kept)) == Gap(statistics.dropped_messages)
    publisher = await any_hub.client()
    await publisher.send(publication("/flood", "after"))
    assert await client.values(1) == [("/flood", "after")]


async def test_disconnected(any_hub: Hub) -> None:
    client, handler = await stalled(any_hub, QueueWish(messages=HELD, overflow=Overflow.DISCONNECT))
    total = await flood(any_hub)
    assert handler.closed
    found = await client.numbers_and_gaps(total)
    code, text = await client.end()
    assert found == list(range(len(found)))
    assert code == CloseCode.OVERFLOW
    assert text.startswith(f"queue full ({HELD} messages, {64 << 20} bytes), ")
    lost = int(text.split("), ")[1].split()[0])
    assert lost > HELD
    assert handler.dropped_messages == lost
    assert handler.delivered_messages == len(found) <= total - lost


async def test_many_that_stall_for_a_while_all_read_why(any_hub: Hub) -> None:
    names = [f"stalled {number}" for number in range(16)]
    wish = QueueWish(messages=HELD, overflow=Overflow.DISCONNECT)
    clients = [await any_hub.client("/flood", name=name, queue=wish, receive_bytes=4096) for name in names]
    handlers = [any_hub.handler(name) for name in names]
    publisher = await any_hub.client()
    total = 0
    while not all(handler.closed for handler in handlers):
        await publisher.send(numbered("/flood", range(total, total + 200), padding=PADDING_BYTES))
        await publisher.ping()
        total += 200
    for _ in range(4):
        any_hub.later(2.0)
        assert await publisher.ping() == []
    for client, handler in zip(clients, handlers, strict=True):
        found = await client.numbers_and_gaps(total)
        code, text = await client.end()
        assert found == list(range(len(found)))
        assert code == CloseCode.OVERFLOW
        assert f", {handler.dropped_messages} messages lost" in text
        assert len(found) == handler.delivered_messages


async def test_a_disconnected_client_is_announced(any_hub: Hub) -> None:
    watcher = await any_hub.client("$hub/client/left")
    await stalled(any_hub, QueueWish(messages=HELD, overflow=Overflow.DISCONNECT))
    await flood(any_hub)
    ((_, left),) = await watcher.values(1)
    assert left["name"] == "stalled"
    assert left["reason"].startswith("queue full")
    assert left["reason"].endswith("(4008)")


@pytest.mark.parametrize("overflow", Overflow)
async def test_others_get_everything(any_hub: Hub, overflow: Overflow) -> None:
    reader = await any_hub.client("/flood", queue=ROOMY, name="reader")
    await stalled(any_hub, QueueWish(messages=HELD, overflow=overflow))
    total = await flood(any_hub)
    assert await reader.numbers_and_gaps(total) == list(range(total))
    assert any_hub.handler("reader").dropped_messages == 0


@pytest.mark.parametrize("overflow", [Overflow.DROP_OLDEST, Overflow.DROP_NEWEST])
async def test_the_bound_in_bytes(any_hub: Hub, overflow: Overflow) -> None:
    limit_bytes = 30_000
    client, handler = await stalled(any_hub, QueueWish(bytes=limit_bytes, overflow=overflow))
    total = await flood(any_hub)
    statistics = handler.statistics()
    message_bytes = len(numbered("/flood", range(99, 100), padding=PADDING_BYTES))
    assert limit_bytes - 2 * (message_bytes + 200) < statistics.queued_bytes <= limit_bytes
    found = await client.numbers_and_gaps(total)
    gaps = [item for item in found if isinstance(item, Gap)]
    assert gaps == [Gap(statistics.dropped_messages)]
    if overflow is Overflow.DROP_OLDEST:
        assert found[-statistics.queued_messages :] == list(range(total - statistics.queued_messages, total))


@pytest.mark.parametrize("overflow", [Overflow.DROP_OLDEST, Overflow.DROP_NEWEST])
async def test_stalling_again_and_again(any_hub: Hub, overflow: Overflow) -> None:
    client, handler = await stalled(any_hub, QueueWish(messages=HELD, overflow=overflow))
    total = 0
    for _ in range(3):
        assert handler.writable
        before = total
        total = await flood(any_hub, before)
        found = await client.numbers_and_gaps(total, before)
        assert sum(isinstance(item, Gap) for item in found) == 1
    assert handler.statistics().delivered_messages + handler.dropped_messages == total


async def test_overflow_is_announced(any_hub: Hub) -> None:
    watcher = await any_hub.client("$hub/overflow")
    _, handler = await stalled(any_hub, QueueWish(messages=HELD, overflow=Overflow.DROP_OLDEST))
    await flood(any_hub)
    lost = handler.dropped_messages
    assert [event.value["lost"] for event in any_hub.node.core.report_drops()] == [lost]
    assert any_hub.node.core.report_drops() == []
    ((topic, value),) = await watcher.values(1)
    assert topic == "$hub/overflow"
    assert value["name"] == "stalled"
    assert (value["lost"], value["total"], value["queued"]) == (lost, lost, HELD)
    assert value["overflow"] == "drop-oldest"
    assert value["prefixes"] == ["/flood"]


async def test_what_a_stalled_client_asks_for_is_answered(any_hub: Hub) -> None:
    client, handler = await stalled(any_hub, QueueWish(messages=HELD, overflow=Overflow.DROP_OLDEST))
    await flood(any_hub)
    await client.unsubscribe("/flood")
    assert "/flood" not in handler.prefixes
