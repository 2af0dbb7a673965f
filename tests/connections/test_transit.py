"""What transports hold counts, too: connections that do not read take no more than their user's part."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest

from hub.batch import decode_values
from hub.settings.sections import QuotaSettings
from hub.settings.settings import Settings
from hub.statistics import HandlerStatistics
from peers.transport.tls_transport import KEPT_BYTES
from peers.wire.kinds import Kind
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub
from tests.hubs.known_tokens import KnownTokens
from tests.hubs.raw_client import RawClient

CERTIFICATES = Path(__file__).parent / "certificates"
WHOLE_PER_CONNECTION = 64_000
RECEIVE_BYTES = 4096
LARGE = bytes(50_000)


class Besieged(NamedTuple):
    """A hub with a crowd of one user that reads nothing, and two other connections."""

    hub: Hub
    publisher: RawClient
    quiet: RawClient
    """Of the other user, who reads."""
    own: RawClient
    """Of the crowd's user; it reads."""


async def besieged(start_hub: StartHub, *, secured: bool, count: int) -> Besieged:
    whole = count * WHOLE_PER_CONNECTION
    hub = await start_hub(settings=Settings(quotas=QuotaSettings(queued_bytes=whole)))
    known = KnownTokens(hub)
    mallory, alice = known.token("bob"), known.token("alice")
    if secured:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(CERTIFICATES / "hub.pem", CERTIFICATES / "hub.key")
        endpoint = await hub.listen_secured(context)
    for _ in range(count):
        if secured:
            await hub.secured_client(endpoint, "/a", token=mallory, receive_bytes=RECEIVE_BYTES, name="crowd")
        else:
            await hub.client("/a", token=mallory, receive_bytes=RECEIVE_BYTES, name="crowd")
    hub.shrink_buffers()
    own = await hub.client("/a", token=mallory)
    publisher, quiet = await hub.client(token=alice), await hub.client("/a", token=alice)
    return Besieged(hub, publisher, quiet, own)


def unwritten(hub: Hub, user: str) -> int:
    return sum(
        connection.transport.get_write_buffer_size() + connection.transport.get_extra_info(KEPT_BYTES, 0)
        for connection in hub.connections
        if connection.handler is not None
        and connection.handler.share is not None
        and connection.handler.share.user == user
    )


async def small_values(client: RawClient, count: int) -> AsyncIterator[int]:
    while count:
        frame = await client.frame()
        if frame.kind == Kind.MESSAGES:
            for value in decode_values(frame):
                if isinstance(value, int):
                    count -= 1
                    yield value


def crowd(hub: Hub) -> list[HandlerStatistics]:
    return [handler.statistics() for handler in hub.node.core.handlers.values() if handler.name == "crowd"]


@pytest.mark.parametrize("secured", [False, True])
@pytest.mark.parametrize("count", [1000, 250])
async def test_many_connections_that_do_not_read(start_hub: StartHub, *, secured: bool, count: int) -> None:
    """All that their transports hold is their user's part at most, whatever is published and however often.

    Nobody else's messages are lost, and small ones still come to a connection of the same user that reads.
    """
    hub, publisher, quiet, own = await besieged(start_hub, secured=secured, count=count)
    part = count * WHOLE_PER_CONNECTION // 2
    free = sum(connection.holding.free_bytes for connection in hub.connections)
    assert free < part
    for _ in range(5):
        await publisher.publish("/a", LARGE)
        assert await publisher.ping() == []
        assert unwritten(hub, "bob") <= part + free
    await publisher.publish("/a", *range(10))
    assert await publisher.ping() == []
    usage = hub.node.core.quotas.statistics()["queued_bytes"]
    assert part // 2 <= usage.held <= part + free
    assert unwritten(hub, "bob") <= part + free
    assert all(one.queued_messages + one.dropped_messages + one.delivered_messages == 15 for one in crowd(hub))
    assert await quiet.values(15) == [("/a", LARGE)] * 5 + [("/a", number) for number in range(10)]
    assert [one async for one in small_values(own, 10)] == list(range(10))
