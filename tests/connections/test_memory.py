"""What connections hold beside queues, against the budget of memory."""

from __future__ import annotations

import pytest

from hub.errors import CloseCode
from tests.hubs.eventually import eventually
from tests.hubs.hub import Hub
from tests.hubs.raw_client import publication

MIB = 1 << 20
LARGE = publication("/large", bytes(4 * MIB))


@pytest.fixture
def small_hub(hub: Hub) -> Hub:
    hub.node.memory.count_only_charged()
    hub.node.memory.limit_bytes = 8 * MIB
    hub.node.memory.look()
    return hub


async def test_a_frame_is_charged_until_it_is_complete(hub: Hub) -> None:
    client, reader = await hub.client(), await hub.client("/large")
    await client.send(LARGE[:1000])
    await client.send(LARGE[1000 : 3 * MIB])
    await eventually(lambda: hub.node.held.size_bytes == 3 * MIB)
    await client.send(LARGE[3 * MIB :])
    assert len(await reader.values(1)) == 1
    assert hub.node.held.size_bytes == 0


async def test_what_never_becomes_complete_is_given_back_with_its_connection(hub: Hub) -> None:
    client = await hub.client()
    await client.send(LARGE[:MIB])
    await eventually(lambda: hub.node.held.size_bytes == MIB)
    client.close()
    await eventually(lambda: not hub.node.connections)
    assert hub.node.held.size_bytes == 0


async def test_a_frame_that_grows_while_there_is_no_memory_ends_its_connection(small_hub: Hub) -> None:
    clients = [await small_hub.client() for _ in range(3)]
    for number, client in enumerate(clients[:2]):
        await client.send(LARGE[: 7 * MIB // 2])
        await eventually(lambda expected=(number + 1) * 7 * MIB // 2: small_hub.node.held.size_bytes == expected)  # type: ignore[misc]
    await clients[2].send(LARGE[: 2 * MIB])
    code, text = await clients[2].end()
    assert (code, "no memory left" in text) == (CloseCode.TRY_AGAIN_LATER, True)
    await eventually(lambda: small_hub.node.held.size_bytes == 7 * MIB)
    for client in clients[:2]:
        await client.send(LARGE[7 * MIB // 2 :])
        assert await client.ping() == []
    assert small_hub.node.held.size_bytes == 0


async def test_what_a_transport_has_not_written_is_charged_until_it_is_read(hub: Hub) -> None:
    reader = await hub.client("/large", receive_bytes=4096)
    publisher = await hub.client()
    await publisher.send(LARGE, publication("/large", "more"))
    await publisher.ping()
    assert MIB < hub.node.held.size_bytes < 5 * MIB
    await reader.values(2)
    await eventually(lambda: hub.node.held.size_bytes == 0)
    await publisher.send(LARGE)
    await publisher.ping()
    assert hub.node.held.size_bytes > MIB
    reader.close()
    await eventually(lambda: hub.node.held.size_bytes == 0)
