"""A client that does not read: what it loses is what its policy says, told in number and place; others lose nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hub.errors import CloseCode
from hub.handler import Handler
from hub.overflow import Overflow
from peers.wire.hello import QueueWish
from tests.hubs.eventually import eventually
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub
from tests.hubs.raw_client import RawClient
from tests.hubs.raw_socket import Gap
from tests.hubs.raw_websocket import RawWebSocket, flood, text

HELD = 50
BEYOND = 150
KINDS = ["unix", "tcp", "hub.v1.json", "hub.v1.msgpack"]


class Place:
    """A hub, and clients of one kind."""

    def __init__(self, hub: Hub, kind: str) -> None:
        self.hub = hub
        self._kind = kind

    async def connect(self, *prefixes: str, **fields: Any) -> RawClient | RawWebSocket:
        if self._kind.startswith("hub."):
            return await self.hub.websocket(*prefixes, subprotocol=self._kind, **fields)
        if "queue" in fields:
            fields["queue"] = QueueWish(**fields["queue"])
        return await self.hub.client(*prefixes, **fields)

    async def stalled(self, name: str = "stalled", **queue: Any) -> tuple[RawClient | RawWebSocket, Handler]:
        client = await self.connect("/flood", name=name, queue=queue, receive_bytes=4096)
        self.hub.shrink_buffers()
        return client, self.hub.handler(name)

    async def flood(self, handler: Handler, *, start: int = 0, together: int = 1, beyond: int = BEYOND) -> int:
        return await flood(await self.connect(), handler, beyond, start=start, together=together)


@pytest.fixture(params=KINDS)
async def place(request: pytest.FixtureRequest, start_hub: StartHub, tmp_path: Path) -> Place:
    url = {"unix": f"unix://{tmp_path}/hub.sock", "tcp": "tcp://127.0.0.1:0"}.get(request.param, "ws://127.0.0.1:0")
    return Place(await start_hub(url), request.param)


@pytest.mark.parametrize("together", [1, 7, 210])
async def test_the_newest_stay(place: Place, together: int) -> None:
    client, handler = await place.stalled(messages=HELD, overflow=Overflow.DROP_OLDEST)
    total = await place.flood(handler, together=together)
    lost = handler.dropped_messages
    assert handler.statistics().queued_messages == HELD
    found = await client.numbers_and_gaps(total)
    *written, gap = found[:-HELD]
    assert found[-HELD:] == list(range(total - HELD, total))
    assert written == list(range(len(written)))
    assert gap == Gap(total - HELD - len(written)) == Gap(lost)
    assert handler.delivered_messages == total - lost


@pytest.mark.parametrize("together", [1, 7, 210])
async def test_the_oldest_stay(place: Place, together: int) -> None:
    client, handler = await place.stalled(messages=HELD, overflow=Overflow.DROP_NEWEST)
    total = await place.flood(handler, together=together)
    lost = handler.dropped_messages
    assert handler.statistics().queued_messages == HELD
    assert await client.numbers_and_gaps(total) == [*range(total - lost), Gap(lost)]
    await (await place.connect()).publish("/flood", [total, ""])
    assert await client.numbers_and_gaps(total + 1, total) == [total]


async def test_disconnect(place: Place) -> None:
    watcher = await place.connect("$hub/client/left")
    client, handler = await place.stalled(messages=HELD, overflow=Overflow.DISCONNECT)
    total = await place.flood(handler)
    assert handler.closed
    written = await client.numbers_and_gaps(total)
    assert written == list(range(len(written)))
    code, reason = await client.end()
    assert code == CloseCode.OVERFLOW
    assert reason.startswith(
        f"queue full ({HELD} messages, {64 << 20} bytes), {handler.dropped_messages} messages lost"
    )
    assert handler.dropped_messages > HELD
    assert handler.delivered_messages == len(written) <= total - handler.dropped_messages
    left: dict[str, Any] = {"name": ""}
    while left["name"] != "stalled":  # the publisher may leave first
        ((_, left),) = (await values(watcher))[:1]
    assert left["reason"].startswith("queue full")
    assert left["reason"].endswith("(4008)")


async def values(client: RawClient | RawWebSocket) -> list[tuple[str, Any]]:
    return await (client.values(1) if isinstance(client, RawClient) else client.messages(1))


async def test_many_that_stall_for_a_while_all_read_why(place: Place) -> None:
    names = [f"stalled {number}" for number in range(16)]
    stalled = [await place.stalled(name, messages=HELD, overflow=Overflow.DISCONNECT) for name in names]
    publisher = await place.connect()
    total = 0
    while not all(handler.closed for _, handler in stalled):
        await publisher.publish("/flood", *([number, "x" * 1000] for number in range(total, total + 50)))
        await publisher.barrier()
        total += 50
    for _ in range(4):
        place.hub.later(2.0)
        assert await publisher.barrier() == []
    for client, handler in stalled:
        assert await client.numbers_and_gaps(total) == list(range(handler.delivered_messages))
        code, reason = await client.end()
        assert code == CloseCode.OVERFLOW
        assert f", {handler.dropped_messages} messages lost" in reason


async def test_others_get_everything(place: Place) -> None:
    handlers = [(await place.stalled(overflow, messages=HELD, overflow=overflow))[1] for overflow in Overflow]
    reader, publisher = await place.connect("/flood", name="reader"), await place.connect()
    total = 0
    while not all(handler.dropped_messages > BEYOND or handler.closed for handler in handlers):
        for number in range(total, total + 20):
            await publisher.publish("/flood", [number, "x" * 1000])
        assert await reader.numbers_and_gaps(total + 20, total) == list(range(total, total + 20))
        total += 20
    assert place.hub.handler("reader").dropped_messages == 0
    assert [handler.closed for handler in handlers] == [overflow is Overflow.DISCONNECT for overflow in Overflow]


@pytest.mark.parametrize("overflow", [Overflow.DROP_OLDEST, Overflow.DROP_NEWEST])
async def test_the_bound_in_bytes(place: Place, overflow: Overflow) -> None:
    limit_bytes = 30_000
    client, handler = await place.stalled(bytes=limit_bytes, overflow=overflow)
    total = await place.flood(handler)
    statistics = handler.statistics()
    assert limit_bytes - 2 * 1300 < statistics.queued_bytes <= limit_bytes
    found = await client.numbers_and_gaps(total)
    assert [item for item in found if isinstance(item, Gap)] == [Gap(statistics.dropped_messages)]
    if overflow is Overflow.DROP_OLDEST:
        assert found[-statistics.queued_messages :] == list(range(total - statistics.queued_messages, total))


@pytest.mark.parametrize("overflow", [Overflow.DROP_OLDEST, Overflow.DROP_NEWEST])
async def test_stalling_again_and_again(place: Place, overflow: Overflow) -> None:
    client, handler = await place.stalled(messages=HELD, overflow=overflow)
    total = 0
    for _ in range(3):
        assert handler.writable
        before = total
        total = await place.flood(handler, start=before)
        found = await client.numbers_and_gaps(total, before)
        assert sum(isinstance(item, Gap) for item in found) == 1
    assert handler.delivered_messages + handler.dropped_messages == total


async def test_overflow_is_announced(place: Place) -> None:
    watcher = await place.connect("$hub/overflow")
    _, handler = await place.stalled(messages=HELD, overflow=Overflow.DROP_OLDEST)
    await place.flood(handler)
    lost = handler.dropped_messages
    core = place.hub.node.core
    assert [event.value["lost"] for event in core.report_drops()] == [lost]
    assert core.report_drops() == []
    ((topic, value),) = await values(watcher)
    assert topic == "$hub/overflow"
    assert (value["name"], value["overflow"], value["prefixes"]) == ("stalled", "drop-oldest", ["/flood"])
    assert (value["lost"], value["total"], value["queued"]) == (lost, lost, HELD)


async def test_what_a_stalled_client_asks_for_is_answered(start_hub: StartHub) -> None:
    place = Place(await start_hub(), "tcp")
    client, handler = await place.stalled(messages=HELD, overflow=Overflow.DROP_OLDEST)
    await place.flood(handler)
    assert isinstance(client, RawClient)
    await client.unsubscribe("/flood")
    assert "/flood" not in handler.prefixes


async def test_a_client_that_disconnects_itself(start_hub: StartHub) -> None:
    place = Place(await start_hub("ws://127.0.0.1:0"), "hub.v1.json")
    client, handler = await place.stalled(messages=HELD, overflow="disconnect")
    await place.flood(handler, beyond=1)
    published = handler.published_messages
    assert not handler.closed
    own = text({"type": "publish", "topic": "/flood", "value": [-1, ""], "request": 5})
    await client.send(own * HELD * 2)
    await eventually(lambda: handler.closed)
    assert published < handler.published_messages <= HELD + 1
    assert (await client.end())[0] == CloseCode.OVERFLOW


async def test_queued_messages_share_no_memory_with_forms(start_hub: StartHub) -> None:
    place = Place(await start_hub("ws://127.0.0.1:0"), "hub.v1.json")
    _, handler = await place.stalled(messages=10**6)
    reader, publisher = await place.connect("/flood"), await place.connect()
    while handler.statistics().queued_bytes < 12 * 1024 * 1024:
        await publisher.publish("/flood", "x" * 100_000)
        await values(reader)
    assert handler._waiting is not None
    queue = handler._waiting._queue
    assert queue is not None
    make = place.hub.connections[0].session.codec.form
    held = [batch.form(make).held_bytes for batch in queue._items if not isinstance(batch, int)]
    assert len(held) > 100
    assert sum(held) <= 8 * 1024 * 1024
