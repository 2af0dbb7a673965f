"""Every trick with a topic, at each door through which messages come and go, and in shared memory: one refusal each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from hub.errors import CloseCode, NoResponderError, RejectedError
from hub.mesh.announcement import Served
from hub.messages.batch import Batch, encode_value, encode_values
from hub.quotas import QuotaLimits, RateLimits, SetLimits
from hub.settings.settings import JournalSettings, Limits, Settings
from peers.client import Block, Client, MessageStream, ServiceRequest, connect
from peers.journal.journal import Journal
from peers.shm.sharing import Shared, Sharing
from peers.values import from_msgpack
from peers.wire.control import decode_notice
from peers.wire.kinds import Kind
from tests.connections.bridge.conftest import zeek  # noqa: F401 -- a fixture
from tests.connections.bridge.zeeks import Bridged, Zeek, linked
from tests.connections.broker.scripted import HIGH, ZeekHub
from tests.connections.rights.conftest import POLICY, Guarded, recognise
from tests.connections.tcp.asking import asking
from tests.connections.websocket.zeek.clients import Watcher, ZeekClient
from tests.hub.policy.tricks import ALLOWED, BRINGABLE, DENIED
from tests.hub.rights.hall import policy_of
from tests.hubs.eventually import eventually
from tests.hubs.fixtures import kept_hubs
from tests.hubs.hub import Hub
from tests.hubs.raw_client import RawClient, publication
from tests.websocket.zeek.messages import count

NOT_GRANTED = len(BRINGABLE) - len(ALLOWED)

Entrance = Callable[[Guarded, str], Awaitable[None]]


async def at_once(guarded: Guarded, user: str) -> None:
    client = await guarded.hub.client(endpoint=guarded.tcp, name=user)
    await client.send(b"".join(publication(topic, topic) for topic in BRINGABLE))
    told = [decode_notice(frame.body) for frame in await client.ping() if frame.kind == Kind.NOTICE]
    assert {notice.code for notice in told} == {CloseCode.NOT_ALLOWED}
    assert sum(notice.count for notice in told) == len(BRINGABLE) - (len(ALLOWED) if user == "alice" else 0)


async def into_shared_memory(guarded: Guarded, user: str) -> None:
    async with connect(guarded.unix.location, name=user) as client:
        for topic in BRINGABLE:
            await client.publish(topic, topic.encode().ljust(200_000))
    assert guarded.hub.server.shared.messages_total


async def in_zeeks_messages(guarded: Guarded, user: str) -> None:
    client = await ZeekClient.connect(guarded.hub, f"X-Application-Name: {user}")
    await client.say(b"[]")
    await client.reply()
    for topic in BRINGABLE:
        await client.publish(topic, 1)
    for _ in range(NOT_GRANTED):
        answer = await client.reply()
        assert answer["type"] == "error"
        assert answer["context"].count(f"not granted to user {user!r}")


@pytest.mark.parametrize("door", [at_once, into_shared_memory, in_zeeks_messages])
@pytest.mark.parametrize("user", ["alice", "bob"])
async def test_what_is_granted_goes_through_and_nothing_else(guarded: Guarded, door: Entrance, user: str) -> None:
    granted = ALLOWED if user == "alice" else []
    await door(guarded, user)
    await guarded.until(lambda: guarded.refused == len(BRINGABLE) - len(granted))
    assert guarded.seen == granted


LAST = "/zeek/last"  # behind all others: whoever gets it has got what there was

Door = Callable[[Guarded], Awaitable[list[str]]]


async def publish_all(guarded: Guarded, value: object = None) -> None:
    client = await guarded.hub.client(endpoint=guarded.tcp, name="free")
    frames = [publication(topic, topic if value is None else value) for topic in (*BRINGABLE, LAST)]
    await client.send(b"".join(frames))
    await client.ping()


async def topics_to_last(client: RawClient) -> list[str]:
    topics: list[str] = []
    while LAST not in topics:
        frame = await client.frame()
        assert frame.kind == Kind.MESSAGES, frame
        topics.append(frame.topic.decode())
    return topics


async def by_frames(guarded: Guarded) -> list[str]:
    client = await guarded.hub.client("", endpoint=guarded.tcp, name="alice", narrow=True)
    await publish_all(guarded)
    return await topics_to_last(client)


async def by_a_program_for_zeek(guarded: Guarded) -> list[str]:
    client = await ZeekClient.subscribed(guarded.hub, "", lines=("X-Application-Name: narrow-alice",))
    await publish_all(guarded)
    topics: list[str] = []
    while LAST not in topics:
        topics.append((await client.reply())["topic"])
    return topics


async def by_a_link(guarded: Guarded) -> list[str]:
    link = await guarded.hub.peer("", endpoint=guarded.tcp, name="alice")
    await publish_all(guarded)
    topics: list[str] = []
    while LAST not in topics:
        frame = await link.frame()
        if frame.kind == Kind.MESSAGES:
            topics.append(frame.topic.decode())
    return topics


@pytest.mark.parametrize("door", [by_frames, by_a_program_for_zeek, by_a_link])
async def test_who_narrows_sees_what_is_granted(guarded: Guarded, door: Door) -> None:
    assert await door(guarded) == [*ALLOWED, LAST]


async def test_what_is_taken_away_from_a_program_for_zeek_ends_it(guarded: Guarded) -> None:
    program = await ZeekClient.subscribed(guarded.hub, "/zeek/dns", lines=("X-Application-Name: alice",))
    guarded.core.authority.give_rights(guarded.hub.handler("alice"), POLICY.rights("bob"))
    _, payload = await program.raw.frame()
    assert int.from_bytes(payload[:2]) == CloseCode.NOT_ALLOWED


REFUSED = [topic for topic in BRINGABLE if topic not in ALLOWED]

RECORDED = [topic for topic in BRINGABLE if not topic.startswith("$")]
FIRST = tuple(sorted({topic[0] for topic in RECORDED}))
"""Prefixes of all that is recorded: nothing that the hub says of itself."""

# Requests.


async def test_a_peer_hub_asks_and_serves(guarded: Guarded) -> None:
    link = await guarded.hub.peer(endpoint=guarded.tcp, name="alice")
    await link.send(b"".join(asking(topic, number, 1) for number, topic in enumerate(DENIED)))
    statuses = []
    while len(statuses) < len(DENIED):
        frame = await link.frame()
        if frame.kind == Kind.REPLY:
            statuses.append(frame)
    assert guarded.refused == len(DENIED)
    await link.announce(*map(Served, [*REFUSED, "/zeek/dns"]))
    await guarded.until(lambda: guarded.core.requests.statistics().services == len(REFUSED) + 1)
    async with connect(guarded.tcp.location, name="free") as client:
        for topic in REFUSED:
            with pytest.raises(NoResponderError):
                await client.request(topic, 1)


# The journal.


@pytest.fixture
async def recording(guarded: Guarded, tmp_path: Path) -> AsyncIterator[Guarded]:
    settings = JournalSettings(path=str(tmp_path / "journal"), commit_s=0.001, topics=FIRST)
    journal = guarded.hub.server.journal = Journal(guarded.core, settings, Limits())
    async with connect(guarded.tcp.location, name="free") as client:
        for topic in RECORDED:
            await client.publish_confirmed(topic, topic)
    yield guarded
    await journal.stop()


async def test_staging(recording: Guarded) -> None:
    seen = len(recording.seen)
    async with connect(recording.tcp.location, name="alice") as client:
        for topic in set(REFUSED).intersection(RECORDED):
            frames = encode_values(b"/zeek/x", [encode_value(1)]) + encode_values(topic.encode(), [encode_value(2)])
            with pytest.raises(RejectedError, match="not granted to user 'alice'"):
                await client.stage("t", 0, frames)
        await client.stage("t", 0, b"".join(Batch.of(topic, [1]).frames for topic in ALLOWED))
        committed = await client.commit("t", parts=[0])
        assert committed.messages == len(ALLOWED)
    assert recording.seen[seen:] == ALLOWED


# Peers.


async def test_a_zeek_over_its_websocket(hub: Hub, zeek: Zeek) -> None:  # noqa: F811 -- the fixture
    recognise(hub)
    watcher = Watcher(hub, "")
    async with Bridged(hub, zeek.endpoint):
        connection, _ = await zeek.greet()
        await linked(hub)
        for topic in BRINGABLE:
            await connection.send(count(topic, 1).decode())
        await eventually(lambda: hub.server.rejected_messages == len(REFUSED))
        assert hub.server.audit.refused_total == len(REFUSED)
    hub.server.core.flush()
    assert [frame.topic.decode() for frame in watcher.frames if not frame.topic.startswith(b"$hub/")] == ALLOWED


@pytest.fixture
async def zeek_hub(uncaught: None) -> AsyncIterator[ZeekHub]:  # noqa: ARG001 -- looks afterwards
    async with kept_hubs() as hubs:
        hub = ZeekHub(Settings(), "hub", HIGH)
        hubs.append(hub)
        await hub.listen()
        await hub.listen_for_zeeks("zeek+tcp://127.0.0.1:0")
        yield hub


async def test_a_zeek_over_broker(zeek_hub: ZeekHub) -> None:
    hub = zeek_hub
    recognise(hub)
    watcher = Watcher(hub, "")
    far = await hub.zeek("")
    for topic in BRINGABLE:
        far.publish(topic, from_msgpack(encode_value(1)))
    await far.barrier()
    await eventually(lambda: hub.server.rejected_messages == len(REFUSED))
    hub.server.core.flush()
    assert [frame.topic.decode() for frame in watcher.frames if not frame.topic.startswith(b"$hub/")] == ALLOWED
    client = await hub.client()
    for topic in BRINGABLE:
        await client.publish(topic, 1)
    assert [data.topic for data in await far.data(len(ALLOWED))] == ALLOWED
    await client.ping()
    await far.barrier()


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
