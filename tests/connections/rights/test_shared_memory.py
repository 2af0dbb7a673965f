"""Shared memory: whoever may not see everything is given no memory in which other messages stand."""

from __future__ import annotations

import asyncio

import pytest

from hub.quotas import QuotaLimits, RateLimits, SetLimits
from peers.client import Block, Client, MessageStream, ServiceRequest, connect
from peers.shm.sharing import Shared, Sharing
from tests.connections.rights.conftest import POLICY, Guarded
from tests.hub.rights.hall import policy_of

LARGE = bytes(200_000)


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[type[Shared]]:
    handed: list[type[Shared]] = []
    give = Sharing.give

    def noted(self: Sharing, frame: bytes, shared: Shared) -> None:
        handed.append(type(shared))
        give(self, frame, shared)

    monkeypatch.setattr(Sharing, "give", noted)
    return handed


async def fill_block(guarded: Guarded, client: Client) -> Block:
    client.allocate_nowait(1)
    await guarded.until(lambda: client._exchange.blocks._conversation._ring_number > 0)  # type: ignore[union-attr]
    block = await client.allocate(len(LARGE))
    block.memory[:] = LARGE
    return block


async def test_blocks(guarded: Guarded, given: list[type[Shared]]) -> None:
    async with (
        connect(guarded.unix.location, name="free") as source,
        connect(guarded.unix.location, name="free") as other,
        connect(guarded.unix.location, name="alice", narrow=True) as alice,
        other.subscribe("") as everything,
        alice.subscribe("") as some,
    ):
        for topic in ("/zeek/dns", "/zeek/secret"):
            await source.publish(topic, await fill_block(guarded, source))
        await source.publish("/zeek/large", LARGE)
        assert [(await anext(some)).topic for _ in range(2)] == ["/zeek/dns", "/zeek/large"]
        assert await _topics(everything, 3) == ["/zeek/dns", "/zeek/secret", "/zeek/large"]
    assert sorted(kind.__name__ for kind in given) == ["Lease", "Lease", "Memfd", "Memfd"]


async def _topics(messages: MessageStream, count: int) -> list[str]:
    topics: list[str] = []
    while len(topics) < count:
        message = await anext(messages)
        if not message.topic.startswith("$hub/"):
            topics.append(message.topic)
    return topics


async def test_requests_in_blocks(guarded: Guarded, given: list[type[Shared]]) -> None:
    asked: list[int] = []

    def answer(request: ServiceRequest) -> int:
        asked.append(len(request.value))
        return 1

    async with (
        connect(guarded.unix.location, name="free") as source,
        connect(guarded.unix.location, name="alice") as alice,
        alice.serve("/zeek/dns", answer),
    ):
        assert await source.request("/zeek/dns", await fill_block(guarded, source)) == 1
    assert asked == [len(LARGE)]
    assert given == []


async def test_rights_that_change(guarded: Guarded, given: list[type[Shared]]) -> None:
    everything = policy_of('[roles.all]\nsubscribe = ["*"]\n[users]\nalice = ["all"]')
    async with (
        connect(guarded.unix.location, name="free") as source,
        connect(guarded.unix.location, name="alice", narrow=True) as alice,
        alice.subscribe("") as messages,
    ):
        handler = guarded.hub.handler("alice")
        assert not handler.delivery.takes_blocks
        guarded.core.authority.give_rights(handler, everything.rights("alice"))
        assert handler.delivery.takes_blocks
        await source.publish("/zeek/dns", await fill_block(guarded, source))
        await anext(messages)
        assert len(given) == 1
        guarded.core.authority.give_rights(handler, POLICY.rights("alice"))
        await source.publish("/zeek/dns", await fill_block(guarded, source))
        assert (await anext(messages)).value == LARGE
    assert len(given) == 1


@pytest.mark.parametrize("by", ["message", "block", "request"])
async def test_what_is_shared_counts_for_the_rate(guarded: Guarded, by: str) -> None:
    limits = SetLimits(rate=RateLimits(bytes_per_s=100_000))
    guarded.hub.server.core.quotas.adopt(QuotaLimits(users={"alice": limits}))
    async with connect(guarded.unix.location, name="alice") as alice:
        value = await fill_block(guarded, alice) if by == "block" else LARGE
        if by == "request":
            asking = asyncio.ensure_future(alice.request("/zeek/dns", value))
        else:
            await alice.publish("/zeek/dns", value)
        handler = next(one for one in guarded.hub.server.core.handlers.values() if one.name == "alice")
        assert handler.share is not None
        rate = handler.share.rate
        await guarded.until(lambda: rate.wait_s(guarded.hub.server.loop.time()) > 0.5)
        if by == "request":
            asking.cancel()
