"""Service names of a client, over each transport: claimed, waited for, lost, released, claimed again."""

from __future__ import annotations

import asyncio

import pytest

from hub.delivery import Role
from hub.errors import ClosedError, InvalidNameError, RejectedError, RequestFailedError
from hub.far_hub import FarHub
from hub.names.claim import Announced, Wish
from peers.client import Client, KnownName, connect
from tests.client.told import Told
from tests.hub.fakes import handler_of
from tests.hubs.eventually import eventually
from tests.hubs.hub import Hub

NAME = "org.example.Player"


async def test_labels_may_change(client: Client) -> None:
    async with client.subscribe("$hub/names/") as messages:
        claimed = await client.claim(NAME, ["a"])
        await claimed.relabel(["c", "b"])
        assert claimed.labels == ("b", "c")
        heard = [await anext(messages) for _ in range(2)]
        assert [(each.topic, each.value["labels"]) for each in heard] == [
            ("$hub/names/appeared", ["a"]),
            ("$hub/names/appeared", ["b", "c"]),
        ]
        with pytest.raises(InvalidNameError):
            await claimed.relabel([""])
        await claimed.release()
        with pytest.raises(ClosedError):
            await claimed.relabel(["d"])


async def test_a_name_that_is_gone_when_the_client_comes_back(hub: Hub) -> None:
    told = Told()
    async with told.connect(hub.url) as client:
        await told.connected.get()
        lost, waits = await client.claim("a.a"), await client.claim("a.b", queue=True)
        others = handler_of(role=Role.CLIENT, name="other")
        hub.node.core.attach(others)
        await hub.crash()
        for name in ("a.a", "a.b"):
            hub.node.core.names.claim(others, Wish(name), 1)
        await lost.wait_lost()
        with pytest.raises(RejectedError, match=r"name a\.a is owned by client \d+ 'other'"):
            await lost.wait_owned()
        assert "is owned by" in lost.reason
        await eventually(lambda: waits.reason == "queued")
        hub.node.core.detach(others, "done")
        await waits.wait_owned()


async def test_an_earlier_claim_of_a_peer_hub(client: Client, hub: Hub) -> None:
    lost, waits = await client.claim("a.a"), await client.claim("a.b", queue=True)
    link = FarHub(b"\x07" * 16)
    names = hub.node.core.names
    names.hear(link, [Announced("a.a", (), 1, 1), Announced("a.b", (), 1, 1)], [])
    assert "whose claim was earlier" in await lost.wait_lost()
    assert "whose claim was earlier" in await waits.wait_lost()
    with pytest.raises(RejectedError, match="whose claim was earlier"):
        await lost.wait_owned()
    names.hear(link, [], ["a.b"])
    await waits.wait_owned()
    async with await client.claim("a.c"):
        pass


async def test_a_claim_that_is_cancelled(client: Client, hub: Hub) -> None:
    async with connect(hub.url) as other:
        claiming = asyncio.ensure_future(client.claim(NAME))
        await asyncio.sleep(0)
        claiming.cancel()
        await asyncio.wait([claiming])
        assert claiming.cancelled()
        assert await client.names() == []
        async with await other.claim(NAME) as claimed:
            assert claimed.owned


async def test_without_a_connection(hub: Hub) -> None:
    told = Told()
    async with told.connect(hub.url) as client, connect(hub.url) as other:
        await told.connected.get()
        held = await client.claim("a.b")
        await hub.crash()
        await told.disconnected.get()
        claimed = await client.claim(NAME)
        assert claimed.owned
        await eventually(lambda: held.owned)
        await eventually(lambda: other.statistics().connected)
        waits = await other.claim(NAME, queue=True)
        waiting = asyncio.ensure_future(waits.wait_owned())
        await asyncio.sleep(0)
        await other.close()
        with pytest.raises(ClosedError):
            await waiting


async def test_many_names_are_listed_in_pages(client: Client, hub: Hub) -> None:
    names = hub.node.core.names
    link = FarHub(b"\x07" * 16)
    names.hear(link, [Announced(f"a.n{number:04}", ("x",), 1, 9) for number in range(2500)], [])
    found = await client.names()
    assert [each.name for each in found] == [f"a.n{number:04}" for number in range(2500)]
    assert found[0] == KnownName("a.n0000", ("x",), 9, b"\x07" * 16)
    assert len(await client.names("a.n1")) == 1000
    assert await client.names("b") == []
    with pytest.raises(RequestFailedError, match="expected null, a prefix, or a map"):
        await client.request("$hub/names", 7)
