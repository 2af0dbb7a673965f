"""`$hub/queue` of a hub that listens: other limits for what waits."""

from __future__ import annotations

from typing import Any

import pytest

from hub.errors import NotAllowedError, RequestFailedError
from hub.handler import Handler
from hub.overflow import Overflow
from peers.client import Client, connect
from tests.admin.conftest import give_rights
from tests.hub.fakes import handler_of, publish
from tests.hubs.hub import Hub


async def change(client: Client, handler: Handler, **changes: Any) -> Any:
    """Ask for other limits."""
    return await client.request("$hub/queue", {"id": handler.id, **changes})


def reader_of(hub: Hub, messages: int, overflow: Overflow) -> Handler:
    """A subscriber whose far side takes nothing."""
    reader = handler_of(messages=messages, limit_bytes=1 << 20, overflow=overflow)
    hub.node.core.attach(reader)
    hub.node.core.subscribe(reader, ["/a"])
    reader.pause()
    return reader


async def test_more_room(hub: Hub) -> None:
    """It is there at once, also while messages wait; what is left out stays."""
    reader = reader_of(hub, 2, Overflow.DROP_OLDEST)
    publish(hub.node.core, "/a", 1, 2, 3)
    assert (reader.queued_messages, reader.dropped_messages) == (2, 1)
    async with connect(hub.endpoint.location) as client:
        told = await change(client, reader, messages=4)
        assert told == {"messages": 4, "bytes": 1 << 20, "overflow": "drop-oldest"}
    publish(hub.node.core, "/a", 4, 5, 6)
    assert (reader.queued_messages, reader.dropped_messages) == (4, 2)
    assert reader.statistics().overflow == "drop-oldest"


async def test_another_policy(hub: Hub) -> None:
    """It rules as soon as nothing waits, and cannot be changed before: gaps stand where the old one has put them."""
    reader = reader_of(hub, 2, Overflow.DROP_OLDEST)
    async with connect(hub.endpoint.location) as client:
        publish(hub.node.core, "/a", 1)
        with pytest.raises(RequestFailedError, match="once they are written"):
            await change(client, reader, overflow="drop-newest")
        reader.resume()
        reader.pause()
        assert (await change(client, reader, overflow="drop-newest"))["overflow"] == "drop-newest"
    publish(hub.node.core, "/a", 2, 3, 4)
    reader.resume()
    assert (reader.delivered_messages, reader.dropped_messages) == (3, 1)


async def test_less_room(hub: Hub) -> None:
    """Not less than what waits; nothing is lost by an order."""
    reader = reader_of(hub, 5, Overflow.DROP_NEWEST)
    publish(hub.node.core, "/a", 1, 2, 3)
    async with connect(hub.endpoint.location) as client:
        with pytest.raises(RequestFailedError, match="3 messages of"):
            await change(client, reader, messages=2)
        await change(client, reader, messages=3)
    publish(hub.node.core, "/a", 4)
    assert (reader.queued_messages, reader.dropped_messages) == (3, 1)


@pytest.mark.parametrize(
    "changes",
    [{"messages": 0}, {"messages": 1 << 60}, {"bytes": -1}, {"overflow": "drop-some"}, {"id": 4711}, {"room": 1}],
)
async def test_what_makes_no_sense(hub: Hub, changes: dict[str, Any]) -> None:
    """It fails with one line, and nothing has changed."""
    reader = reader_of(hub, 2, Overflow.DROP_OLDEST)
    before = reader.limits
    async with connect(hub.endpoint.location) as client:
        with pytest.raises(RequestFailedError, match=r"expected|there is no connection") as failed:
            await client.request("$hub/queue", {"id": reader.id} | changes)
        assert "\n" not in str(failed.value)
    assert reader.limits is before


async def test_it_is_for_admins(hub: Hub) -> None:
    """Nobody gives himself more room."""
    reader = reader_of(hub, 2, Overflow.DROP_OLDEST)
    async with connect(hub.endpoint.location, name="eve") as client:
        give_rights(hub, eve="eve")
        with pytest.raises(NotAllowedError):
            await change(client, reader, messages=4)
