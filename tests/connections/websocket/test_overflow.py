"""A client that does not read: what it loses is what its policy says, told in number and place; others lose nothing."""

from __future__ import annotations

from typing import Any

import pytest

from hub.errors import CloseCode
from hub.handler import Handler
from tests.hubs.eventually import eventually
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub
from tests.hubs.raw_socket import Gap
from tests.hubs.raw_websocket import RawWebSocket, flood, text

HELD = 50
BEYOND = 150


@pytest.fixture(params=["hub.v1.json", "hub.v1.msgpack"])
def subprotocol(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


async def stalled(hub: Hub, subprotocol: str, **queue: Any) -> tuple[RawWebSocket, Handler]:
    client = await hub.websocket("/flood", subprotocol=subprotocol, receive_bytes=4096, name="stalled", queue=queue)
    hub.shrink_buffers()
    return client, hub.handler("stalled")


@pytest.mark.parametrize("together", [1, 7])
async def test_the_newest_stay(hub: Hub, subprotocol: str, together: int) -> None:
    client, handler = await stalled(hub, subprotocol, messages=HELD, overflow="drop-oldest")
    total = await flood(await hub.websocket(), handler, BEYOND, together=together)
    lost = handler.dropped_messages
    assert handler.statistics().queued_messages == HELD
    found = await client.numbers_and_gaps(total)
    *written, gap = found[:-HELD]
    assert found[-HELD:] == list(range(total - HELD, total))
    assert written == list(range(len(written)))
    assert gap == Gap(total - HELD - len(written)) == Gap(lost)
    assert handler.delivered_messages == total - lost


@pytest.mark.parametrize("together", [1, 7])
async def test_the_oldest_stay(hub: Hub, subprotocol: str, together: int) -> None:
    client, handler = await stalled(hub, subprotocol, messages=HELD, overflow="drop-newest")
    total = await flood(await hub.websocket(), handler, BEYOND, together=together)
    lost = handler.dropped_messages
    found = await client.numbers_and_gaps(total)
    assert found == [*range(total - lost), Gap(lost)]
    assert handler.delivered_messages == total - lost


async def test_disconnect(hub: Hub, subprotocol: str) -> None:
    client, handler = await stalled(hub, subprotocol, messages=HELD, overflow="disconnect")
    await flood(await hub.websocket(), handler, BEYOND)
    assert handler.closed
    written = await client.numbers_and_gaps(10**6)
    assert written == list(range(len(written)))
    code, reason = await client.end()
    assert code == CloseCode.OVERFLOW
    assert reason.startswith(f"queue full ({HELD} messages, ")
    assert f" {handler.dropped_messages} messages lost" in reason


async def test_many_that_stall_for_a_while_all_read_why(hub: Hub, subprotocol: str) -> None:
    queue = {"messages": HELD, "overflow": "disconnect"}
    stalled = [
        await hub.websocket("/flood", subprotocol=subprotocol, receive_bytes=4096, name=str(number), queue=queue)
        for number in range(32)
    ]
    hub.shrink_buffers()
    handlers = [hub.handler(str(number)) for number in range(32)]
    publisher = await hub.websocket()
    total = 0
    while not all(handler.closed for handler in handlers):
        for number in range(total, total + 50):
            await publisher.publish("/flood", [number, "x" * 1000])
        await publisher.barrier()
        total += 50
    for _ in range(4):
        hub.later(2.0)
        assert await publisher.barrier() == []
    for client, handler in zip(stalled, handlers, strict=True):
        written = await client.numbers_and_gaps(10**6)
        assert written == list(range(handler.delivered_messages))
        code, reason = await client.end()
        assert code == CloseCode.OVERFLOW
        assert f" {handler.dropped_messages} messages lost" in reason


async def test_a_client_that_disconnects_itself(hub: Hub) -> None:
    client, handler = await stalled(hub, "hub.v1.json", messages=HELD, overflow="disconnect")
    await flood(await hub.websocket(), handler, 1)
    published = handler.published_messages
    assert not handler.closed
    own = text({"type": "publish", "topic": "/flood", "value": [-1, ""], "request": 5})
    await client.send(own * HELD * 2)
    await eventually(lambda: handler.closed)
    assert published < handler.published_messages <= HELD + 1
    assert (await client.end())[0] == CloseCode.OVERFLOW


async def test_it_goes_on_afterwards(hub: Hub, subprotocol: str) -> None:
    client, handler = await stalled(hub, subprotocol, messages=HELD, overflow="drop-oldest")
    publisher = await hub.websocket()
    total = 0
    for _ in range(2):
        start = total
        total = await flood(publisher, handler, BEYOND, start=start)
        found = await client.numbers_and_gaps(total, start)
        assert sum(one.messages if isinstance(one, Gap) else 1 for one in found) == total - start
        assert any(isinstance(one, Gap) for one in found)
        await publisher.publish("/flood", [total, ""])
        assert await client.numbers_and_gaps(total + 1, total) == [total]
        total += 1


async def test_others_lose_nothing(hub: Hub) -> None:
    handlers = []
    for overflow in ("drop-oldest", "drop-newest", "disconnect"):
        name = f"stalled {overflow}"
        queue = {"messages": HELD, "overflow": overflow}
        await hub.websocket("/flood", receive_bytes=4096, name=name, queue=queue)
        hub.shrink_buffers()
        handlers.append(hub.handler(name))
    readers = [await hub.websocket("/flood", subprotocol=kind) for kind in ("hub.v1.json", "hub.v1.msgpack")]
    publisher = await hub.websocket()
    total = 0
    while not all(handler.dropped_messages > BEYOND or handler.closed for handler in handlers):
        for _ in range(20):
            await publisher.publish("/flood", [total, "x" * 1000])
            total += 1
        for reader in readers:
            assert await reader.numbers_and_gaps(total, total - 20) == list(range(total - 20, total))
    assert [handler.closed for handler in handlers] == [False, False, True]


async def test_queued_messages_share_no_memory_with_forms(start_hub: StartHub) -> None:
    hub = await start_hub()
    _, handler = await stalled(hub, "hub.v1.json", messages=10**6)
    reader = await hub.websocket("/flood")
    publisher = await hub.websocket()
    batches = 0
    while handler.statistics().queued_bytes < 12 * 1024 * 1024:
        await publisher.publish("/flood", "x" * 100_000)
        await reader.messages(1)
        batches += 1
    assert handler._waiting is not None
    queue = handler._waiting._queue
    assert queue is not None
    held = [
        batch.form(hub.connections[0].session.codec.form).held_bytes
        for batch in queue._items
        if not isinstance(batch, int)
    ]
    assert len(held) > 100
    assert sum(held) <= 8 * 1024 * 1024
