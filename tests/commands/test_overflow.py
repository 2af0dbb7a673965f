"""A client that does not read: what it loses is what its policy says, told in number and place; others lose nothing."""

from __future__ import annotations

from typing import Any

import pytest

from hub.errors import CloseCode
from hub.handlers.handler import Handler
from hub.limits import Overflow
from tests.commands.conftest import Place
from tests.hubs.eventually import eventually
from tests.hubs.raw_socket import Gap
from tests.hubs.raw_websocket import flood

HELD = 50
BEYOND = 150


EXCEPT_ON = {"http": "has a queue by its query; see connections/http"}


async def stalled(place: Place, name: str = "stalled", **queue: Any) -> tuple[Any, Handler]:
    return await place.stalled("/flood", name=name, queue=queue)


async def flooded(place: Place, handler: Handler, *, start: int = 0, together: int = 1, beyond: int = BEYOND) -> int:
    return await flood(await place.client(), handler, beyond, start=start, together=together)


@pytest.mark.parametrize("together", [1, 210])
async def test_the_newest_stay(place: Place, together: int) -> None:
    client, handler = await stalled(place, messages=HELD, overflow=Overflow.DROP_OLDEST)
    total = await flooded(place, handler, together=together)
    lost = handler.dropped_messages
    assert handler.statistics().queued_messages == HELD
    found = await client.numbers_and_gaps(total)
    *written, gap = found[:-HELD]
    assert found[-HELD:] == list(range(total - HELD, total))
    assert written == list(range(len(written)))
    assert gap == Gap(total - HELD - len(written)) == Gap(lost)
    assert handler.delivered_messages == total - lost


@pytest.mark.parametrize("together", [1, 210])
async def test_the_oldest_stay(place: Place, together: int) -> None:
    client, handler = await stalled(place, messages=HELD, overflow=Overflow.DROP_NEWEST)
    total = await flooded(place, handler, together=together)
    lost = handler.dropped_messages
    assert handler.statistics().queued_messages == HELD
    assert await client.numbers_and_gaps(total) == [*range(total - lost), Gap(lost)]
    await (await place.client()).publish("/flood", [total, ""])
    assert await client.numbers_and_gaps(total + 1, total) == [total]


async def test_disconnect(place: Place) -> None:
    watcher = await place.client("$hub/client/left")
    client, handler = await stalled(place, messages=HELD, overflow=Overflow.DISCONNECT)
    total = await flooded(place, handler)
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
        ((_, left),) = await watcher.values(1)
    assert left["reason"].startswith("queue full")
    assert left["reason"].endswith("(4008)")
    totals = place.hub.server.core.statistics().dropped_messages_total
    assert totals == {Overflow.DISCONNECT: handler.dropped_messages}


async def test_overflow_is_announced(place: Place) -> None:
    watcher = await place.client("$hub/overflow")
    _, handler = await stalled(place, messages=HELD, overflow=Overflow.DROP_OLDEST)
    await flooded(place, handler)
    lost = handler.dropped_messages
    core = place.hub.server.core
    assert [event.value["lost"] for event in core.report_drops()] == [lost]
    assert core.report_drops() == []
    ((topic, value),) = await watcher.values(1)
    assert topic == "$hub/overflow"
    assert (value["name"], value["overflow"], value["prefixes"]) == ("stalled", "drop-oldest", ["/flood"])
    assert (value["lost"], value["total"], value["queued"]) == (lost, lost, HELD)


async def test_what_a_stalled_client_asks_for_is_answered(place: Place) -> None:
    client, handler = await stalled(place, messages=HELD, overflow=Overflow.DROP_OLDEST)
    await flooded(place, handler)
    await client.done("unsubscribe", prefixes=["/flood"])
    assert "/flood" not in handler.prefixes


async def test_a_client_that_disconnects_itself(place: Place) -> None:
    client, handler = await stalled(place, messages=HELD, overflow="disconnect")
    await flooded(place, handler, beyond=1)
    published = handler.published_messages
    assert not handler.closed
    await client.raw.send(client.encode("publish", topic="/flood", value=[-1, ""]) * HELD * 2)
    await eventually(lambda: handler.closed)
    assert published < handler.published_messages <= 2 * HELD
    assert (await client.end())[0] == CloseCode.OVERFLOW


async def test_the_hub_stops_while_a_client_does_not_read(place: Place) -> None:
    client, handler = await stalled(place)
    total = await flooded(place, handler)
    for connection in list(place.server.connections):
        connection.drain()
    assert await client.numbers_and_gaps(total) == list(range(total))
    assert await client.end() == (CloseCode.GOING_AWAY, "the hub stops")
