"""A client that wants no more than so many messages a second: the rest is left out, told in its place, and no loss."""

from __future__ import annotations

from itertools import pairwise

import pytest

from hub.handler import Handler
from peers.node.metrics import exposition
from tests.hubs.eventually import eventually
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub
from tests.hubs.raw_socket import Gap
from tests.hubs.raw_websocket import LeftOut, RawWebSocket

PER_S = 100


@pytest.fixture(params=["hub.v1.json", "hub.v1.msgpack"])
def subprotocol(request: pytest.FixtureRequest) -> str:
    """Each subprotocol."""
    found: str = request.param
    return found


async def watcher(hub: Hub, subprotocol: str = "hub.v1.json", **hello: object) -> tuple[RawWebSocket, Handler]:
    """A client that wants a sample."""
    client = await hub.websocket("/flood", subprotocol=subprotocol, name="watcher", sample=PER_S, **hello)
    return client, hub.handler("watcher")


async def publish(client: RawWebSocket, numbers: range, *, together: int = 1) -> None:
    """Publish numbered values, so many in one message, and wait until the hub has them."""
    for begin in range(numbers.start, numbers.stop, together):
        await client.say(
            "publish",
            topic="/flood",
            values=[[number, ""] for number in range(begin, min(begin + together, numbers.stop))],
        )
    await client.barrier()


async def test_as_many_as_a_second_has_come_at_once_as_a_whole(hub: Hub, subprotocol: str) -> None:
    """What is no more than the client wants reaches it without anything being left out."""
    client, handler = await watcher(hub, subprotocol)
    await publish(await hub.websocket(), range(PER_S), together=7)
    assert await client.numbers_and_gaps(PER_S) == list(range(PER_S))
    assert handler.delivered_messages == PER_S


@pytest.mark.parametrize("together", [1, 7, 3000])
async def test_of_more_a_part_is_left_out_and_the_newest_come(hub: Hub, subprotocol: str, together: int) -> None:
    """What is left out is told where it would have stood, and the newest messages are always among those that come."""
    total = 3000
    client, handler = await watcher(hub, subprotocol)
    await publish(await hub.websocket(), range(total), together=together)
    found = await client.numbers_and_gaps(total)
    left_out = sum(one.messages for one in found if isinstance(one, LeftOut))
    assert total - left_out >= PER_S
    assert left_out > 0
    assert found[-PER_S:] == list(range(total - PER_S, total))
    assert not any(isinstance(one, LeftOut) and isinstance(other, LeftOut) for one, other in pairwise(found))
    assert handler.delivered_messages == total - left_out
    assert hub.node.left_out_messages == left_out
    assert f"hub_messages_left_out_total {float(left_out)}".encode() in exposition(hub.node)


async def test_what_is_left_out_is_no_loss(hub: Hub) -> None:
    """The client is not slow, has lost nothing by its policy, and what it was not given does not count as delivered."""
    client, handler = await watcher(hub)
    other = await hub.websocket("/flood", name="other")
    await publish(await hub.websocket(), range(2000), together=500)
    await client.numbers_and_gaps(2000)
    assert handler.dropped_messages == handler.queued_messages == 0
    assert handler.statistics().paused is False
    assert hub.node.left_out_messages > 0
    assert handler.delivered_bytes < hub.handler("other").delivered_bytes
    assert await other.numbers_and_gaps(2000) == list(range(2000)), "others get everything"


async def test_what_is_told_and_granted(hub: Hub) -> None:
    """The hub says how many it will send; it takes a number from 1 on only, and who says none gets everything."""
    for wish, granted in (({"sample": 7}, 7), ({}, None)):
        client = await hub.raw_websocket()
        await client.shake_hands("hub.v1.json")
        await client.message()
        await client.say("hello", name="x", **wish)
        assert (await client.message()).get("sample") == granted
    client = await hub.raw_websocket()
    await client.shake_hands("hub.v1.json")
    await client.message()
    await client.say("hello", sample=0)
    assert (await client.message())["type"] == "error"


async def test_nothing_is_held_for_those_who_leave(hub: Hub) -> None:
    """What waits for a client that goes away meanwhile is let go of."""
    client, _ = await watcher(hub)
    await publish(await hub.websocket(), range(3000), together=1000)
    assert hub.node.left_out_messages > 0, "more came than is sent at once"
    client.close()
    await eventually(lambda: hub.node.core.memory.account("queues").size_bytes == 0)


async def test_nothing_waits_where_memory_is_short(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """What there is no credit for is left out then, and told all the same."""
    client, handler = await watcher(hub)
    publisher = await hub.websocket()
    monkeypatch.setattr(hub.node.core.memory, "is_over", True)
    await publish(publisher, range(3000), together=1000)
    found = await client.numbers_and_gaps(3000)
    assert sum(one.messages for one in found if isinstance(one, LeftOut)) == hub.node.left_out_messages > 0
    assert handler.delivered_messages == 3000 - hub.node.left_out_messages
    assert hub.node.core.memory.account("queues").size_bytes == 0


async def test_answers_do_not_wait(hub: Hub) -> None:
    """What the client asks is answered beside the sample, also while much is left out."""
    client, _ = await watcher(hub)
    await publish(await hub.websocket(), range(3000), together=1000)
    await client.say("ping", request=5)
    while (message := await client.message())["type"] != "pong":
        assert message["type"] in {"messages", "sampled"}
    assert message["request"] == 5


async def test_who_does_not_even_read_the_sample_is_slow(start_hub: StartHub) -> None:
    """What a client does not read waits in its queue, and is lost there by its policy, told as such."""
    hub = await start_hub()
    client = await hub.websocket(
        "/flood", receive_bytes=4096, name="watcher", sample=10_000, queue={"messages": 10, "overflow": "drop-oldest"}
    )
    hub.shrink_buffers()
    handler = hub.handler("watcher")
    publisher = await hub.websocket()
    total = 0
    while handler.dropped_messages == 0:
        for number in range(total, total + 50):
            await publisher.publish("/flood", [number, "x" * 1000])
        await publisher.barrier()
        total += 50
    found = await client.numbers_and_gaps(total)
    assert any(isinstance(one, Gap) and not isinstance(one, LeftOut) for one in found)


async def test_what_is_lost_is_told_behind_what_came_before(hub: Hub, subprotocol: str) -> None:
    """What waits for its turn when the queue of the client tells a loss is left out: so each stands in its place."""
    client, handler = await watcher(hub, subprotocol)
    publisher = await hub.websocket()
    await publish(publisher, range(1000), together=500)
    handler.outlet.send_gap(7)
    await publish(publisher, range(1007, 1017))
    found = await client.numbers_and_gaps(1017)
    lost = found.index(Gap(7))
    assert isinstance(found[lost - 1], LeftOut)
    assert found[lost + 1 :] == list(range(1007, 1017))
    assert hub.node.left_out_messages == sum(one.messages for one in found if isinstance(one, LeftOut))
    assert handler.delivered_messages == sum(isinstance(one, int) for one in found)
