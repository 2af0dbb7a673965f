"""Service names of a client, over each transport: claimed, waited for, lost, released, claimed again."""

from __future__ import annotations

import asyncio

import pytest

from hub.delivery import Role
from hub.errors import ClosedError, InvalidNameError, NoResponderError, RejectedError, RequestFailedError, UsageError
from hub.far_hub import FarHub
from hub.names.claim import Announced, Wish
from peers.client import Client, KnownName, connect
from peers.client.blocking import connect as connect_blocking
from tests.client.told import Told
from tests.hub.fakes import handler_of
from tests.hubs.eventually import eventually
from tests.hubs.hub import Hub

NAME = "org.example.Player"


async def test_claim_and_release(hub: Hub) -> None:
    async with connect(hub.url, name="one") as one, connect(hub.url) as two:
        async with await one.claim(NAME, ["b", "a"]) as claimed:
            assert claimed.owned
            assert (claimed.name, claimed.labels, claimed.queue) == (NAME, ("a", "b"), False)
            with pytest.raises(RejectedError, match=rf"name {NAME} is owned by client \d+ 'one'"):
                await two.claim(NAME)
            assert await two.names() == [KnownName(NAME, ("a", "b"), hub.handler("one").id, hub.node.id)]
        assert not claimed.owned
        assert claimed.reason == "it was released"
        async with await two.claim(NAME) as again:
            assert again.owned
        with pytest.raises(ClosedError, match="was released"):
            await claimed.wait_owned()
        await claimed.release()


async def test_waiting_for_a_name(hub: Hub) -> None:
    async with connect(hub.url) as one, connect(hub.url) as two, connect(hub.url) as three:
        owned = await one.claim(NAME)
        second, third = await two.claim(NAME, queue=True), await three.claim(NAME, queue=True)
        assert (second.owned, second.reason) == (False, "queued")
        await owned.release()
        await second.wait_owned()
        assert (second.owned, second.reason, third.owned) == (True, "", False)
        await two.close()
        await third.wait_owned()
        assert third.owned
        assert not second.owned


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


async def test_what_a_client_refuses_itself(hub: Hub) -> None:
    async with connect(hub.url) as client:
        with pytest.raises(InvalidNameError, match="is none: it takes two or more elements"):
            await client.claim("player")
        with pytest.raises(InvalidNameError, match="33 labels"):
            await client.claim(NAME, map(str, range(33)))
        await client.claim(NAME)
        with pytest.raises(UsageError, match=f"has claimed {NAME} already"):
            await client.claim(NAME)
    with pytest.raises(ClosedError):
        await client.claim("a.b")


async def test_names_are_claimed_again(hub: Hub) -> None:
    told = Told()
    async with told.connect(hub.url) as client:
        await told.connected.get()
        owned = await client.claim(NAME, ["a"])
        await hub.crash()
        await told.disconnected.get()
        assert await owned.wait_lost() == "the connection was lost"
        await owned.wait_owned()
        assert [name.labels for name in await client.names()] == [("a",)]


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


async def test_requests_to_a_name(client: Client, hub: Hub) -> None:
    async with connect(hub.url) as owner:
        with pytest.raises(NoResponderError):
            await client.request(NAME, 1, name=True)
        async with owner.serve("org.example.", lambda request: [request.topic, request.value]):
            async with await owner.claim(NAME):
                assert await client.request(NAME, 1, name=True) == [NAME, 1]
                assert await client.request_many(NAME, [1, 2], name=True) == [[NAME, 1], [NAME, 2]]
            with pytest.raises(NoResponderError):
                await client.request(NAME, 1, name=True)


async def test_the_blocking_client(hub: Hub) -> None:
    def use() -> None:
        with connect_blocking(hub.url) as one, connect_blocking(hub.url) as two:
            with one.claim(NAME, ["a"]) as owned, two.claim(NAME, queue=True) as waits:
                assert (owned.name, owned.owned, waits.owned, waits.reason) == (NAME, True, False, "queued")
                owned.relabel(["b"])
                assert [each.labels for each in two.names("org.")] == [("b",)]
                with pytest.raises(TimeoutError):
                    waits.wait_owned(timeout_s=0.001)
                owned.release()
                waits.wait_owned(timeout_s=30)
                assert waits.owned
            assert waits.wait_lost(timeout_s=30) == "it was released"

    await asyncio.to_thread(use)
