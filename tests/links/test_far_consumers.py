"""Named consumers of the hub whose journal is used: over links, with rights on the way, and what goes wrong."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest

from hub.errors import NotAllowedError, RequestFailedError, ResponderGoneError
from peers.client import connect
from peers.node.metrics import exposition
from tests.connections.rights.conftest import recognise
from tests.hub.rights.hall import policy_of
from tests.hubs.eventually import eventually
from tests.hubs.hub import Hub
from tests.links.test_far_confirmations import chain
from tests.links.test_far_history import known, link_policy

__all__ = ["chain"]

Chain = Callable[..., Awaitable[list[Hub]]]


def members(hub: Hub) -> int:
    statistics = hub.node.journal.statistics()
    assert statistics is not None
    return sum(one.members for one in statistics.consumers.each)


@pytest.mark.parametrize("count", [2, 3])
async def test_consumed_over_links(chain: Chain, count: int) -> None:
    hubs = await chain(count)
    near, far = hubs[0], hubs[-1]
    await eventually(lambda: far.node.core.mesh.hub in near.node.core.mesh.graph.reached)
    browser = await near.listen("ws://127.0.0.1:0")
    async with connect(near.url) as one, connect(browser.location) as other, connect(far.url) as there:
        for number in range(6):
            await there.publish_confirmed(f"/a/{number % 2}", number)
        got: list[tuple[int, Any]] = []
        for client in (one, other, there):
            async with client.consume("c", "/a/", from_offset=0, prefetch=2) as stream:
                for message in [await stream.receive(), await stream.receive()]:
                    got.append((message.offset, message.value))
                    await message.ack()
        assert got == [(number, number) for number in range(6)]
        assert members(far) == 0
        late = datetime.fromtimestamp([record.time_us async for record in one.read("/a/")][4] / 1e6, UTC)
        async with one.consume("late", "/a/", from_time=late) as stream:
            assert (await stream.receive()).value == 4
        stream = one.consume("c")
        await stream.open()
        assert members(far) == 1
    await eventually(lambda: members(far) == 0)


async def test_a_link_that_is_lost(chain: Chain) -> None:
    near, far = await chain(2)
    async with connect(near.url) as client, connect(far.url) as there:
        for number in range(4):
            await there.publish_confirmed("/a", number)
        async with client.consume("c", "/a", from_offset=0, redeliver_s=1000.0) as stream:
            assert [(await stream.receive()).value for _ in range(2)] == [0, 1]
            await near.stop_dialling()
            await eventually(lambda: far.node.core.mesh.hub not in near.node.core.mesh.graph.reached)
            with pytest.raises(ResponderGoneError, match=r"journal\.of: hub 'hub-1' cannot be reached now"):
                await client.consume("d", "/a").open()
            near.dial(far)
            values: list[Any] = []
            while values[-4:] != [0, 1, 2, 3]:
                message = await stream.receive()
                values.append(message.value)
                await message.ack()


async def test_what_is_counted(chain: Chain) -> None:
    near, far = await chain(2)
    async with connect(near.url) as client, connect(far.url) as there:
        await there.publish_confirmed("/a", 1)
        async with client.consume("c", "/a", from_offset=0) as stream:
            await (await stream.receive()).ack()
            assert (metric(near, "hub_far_consumers_clients"), metric(far, "hub_consumers_far_clients")) == (1, 1)
            ((shown,),) = [row["clients"] for row in await there.request("$hub/consumers", None)]
            assert (shown["hub"], shown["id"] in near.node.core.handlers) == (near.node.id.hex(), True)
            await eventually(
                lambda: metric(far, "hub_consumers_answering") == metric(near, "hub_far_consumers_pending")
            )
            asked, answered = metric(near, "hub_far_consumers_asked_total"), metric(far, "hub_consumers_answered_total")
            assert asked >= answered >= 3
            assert metric(near, "hub_far_consumers_lost_total") == 0
            await near.stop_dialling()
            await eventually(lambda: metric(near, "hub_far_consumers_lost_total") > 0)
    await eventually(lambda: metric(near, "hub_far_consumers_untold") == 1)
    assert metric(near, "hub_far_consumers_clients") == 0


def metric(hub: Hub, name: str) -> float:
    (line,) = [line for line in exposition(hub.node).decode().splitlines() if line.startswith(f"{name} ")]
    return float(line.split()[1])


@pytest.mark.parametrize("at", ["far", "near", "middle"])
async def test_what_links_may_take_and_bring(chain: Chain, at: str) -> None:
    hubs = await chain(3)
    for hub in hubs:
        await hub.stop_dialling()
    everything, some = ["*"], ["/open"]
    if at == "far":
        recognise(hubs[2], link_policy(hub_1=(some, some)))
    elif at == "near":
        recognise(hubs[0], link_policy(hub_1=(some, some)))
    else:
        recognise(hubs[1], link_policy(hub_0=(some, some), hub_2=(everything, everything)))
    for near, other in pairwise(hubs):
        near.dial(other)
    await known(hubs)
    async with connect(hubs[0].url) as client, connect(hubs[2].url) as there:
        await there.publish_confirmed("/open/x", 1)
        with pytest.raises(NotAllowedError, match="not granted"):
            await client.consume("c", "/").open()
        with pytest.raises(NotAllowedError, match="'/dead': not granted"):
            await client.consume("c", "/open/", deliveries=1, dead_letters="/dead").open()
        async with client.consume("c", "/open/", from_offset=0) as stream:
            assert (await stream.receive()).value == 1
        async with there.consume("d", "/", from_offset=0):
            if at == "far":  # consumers of that link's user are others
                with pytest.raises(RequestFailedError, match="there is no consumer"):
                    await client.consume("d").open()
            else:
                with pytest.raises(NotAllowedError, match="not granted"):
                    await client.consume("d").open()


async def test_what_users_may_read(chain: Chain) -> None:
    hubs = await chain(2)
    grants = '[roles.r]\njournal = {{ allow = {} }}\npublish = {{ allow = ["*"] }}\n[users]\nalice = ["r"]\nbob = ["r"]'
    recognise(hubs[0], policy_of(grants.format('["/a", "/b"]')))
    async with connect(hubs[0].url, name="alice") as alice, connect(hubs[0].url, name="bob") as bob:
        with pytest.raises(NotAllowedError, match="journal '/': not granted as a whole to user 'alice'"):
            await alice.consume("c", "/").open()
        async with (
            alice.consume("c", "/a/", from_offset=0) as of_alice,
            bob.consume("c", "/b/", from_offset=0) as of_bob,
            connect(hubs[1].url) as there,
        ):
            for topic in ("/a/x", "/b/x"):
                await there.publish_confirmed(topic, topic)
            assert (await of_alice.receive()).value == "/a/x"
            assert (await of_bob.receive()).value == "/b/x"
            rows = await there.request("$hub/consumers", None)
            assert isinstance(rows, list)
            assert [one["name"] for one in rows] == ["alice/c", "bob/c"]
            hubs[0].handler("alice").rights = policy_of(grants.format('["/b"]')).rights("alice")
            await there.publish_confirmed("/a/x", "secret")
            with pytest.raises(NotAllowedError, match="journal '/a/': not granted"):
                await of_alice.receive()
