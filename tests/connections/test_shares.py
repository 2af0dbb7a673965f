"""Users on sockets: nobody takes what others are promised, however many connections he has."""

from __future__ import annotations

import os
import signal
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from websockets.frames import Opcode

from hub.errors import CloseCode
from hub.messages.batch import decode_values
from hub.quotas import QuotaLimits, Resource, SetLimits
from hub.settings.settings import JournalSettings, QuotaSettings, Settings
from peers.client import connect
from peers.journal.readers import PENDING_LIMIT
from peers.transport.tls_transport import KEPT_BYTES
from peers.wire.hello import Hello
from peers.wire.kinds import Kind
from peers.wire.records import Fetch, encode_fetch
from tests.hubs.eventually import eventually
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub
from tests.hubs.known_tokens import KnownTokens
from tests.hubs.raw_client import RawClient, publication
from tests.hubs.raw_websocket import RawWebSocket, upgrade

FETCHING = 80
FETCHES = 16
PAYLOAD = bytes(50_000)
RECEIVE_BYTES = 4096


def held(hub: Hub, user: str, resource: Resource = Resource.QUEUED_BYTES) -> int:
    (share,) = [share for share in hub.server.core.quotas.largest(10) if share.user == user]
    return share.held.get(resource.value, 0)


def _fetches(count: int) -> bytes:
    return b"".join(encode_fetch(Fetch(number, prefixes=("/a",))) for number in range(1, count + 1))


async def test_reads_of_the_journal_leave_places_for_others(start_hub: StartHub, tmp_path: Path) -> None:
    settings = Settings(journal=JournalSettings(path=str(tmp_path / "journal"), readers=1, commit_s=0.001))
    hub = await start_hub(settings=settings)
    known = KnownTokens(hub)
    bob, alice = known.token("bob", roles=("reader",)), known.token("alice", roles=("reader",))
    async with connect(hub.url, token=alice) as publisher:
        await publisher.publish_confirmed("/a", 1)
    assert hub.journal is not None

    first = await hub.client(token=alice)
    await first.send(_fetches(1))  # starts the only reader, which stands still from then on
    assert (await first.frame()).kind == Kind.RECORDS
    (reader,) = hub.journal._readers._readers
    os.kill(reader._process.pid, signal.SIGSTOP)
    try:
        crowd = [await hub.client(token=bob) for _ in range(FETCHING)]
        for client in crowd:
            await client.send(_fetches(FETCHES))
            assert {frame.kind for frame in await client.ping()} <= {Kind.NOTICE}
        assert held(hub, "bob", Resource.JOURNAL_READS) == PENDING_LIMIT // 2
        await crowd[-1].send(_fetches(1))
        refused = await crowd[-1].notice()
        assert refused.code == CloseCode.TRY_AGAIN_LATER
        assert refused.text.startswith("user bob has 500 journal reads, 1 more are too many: the fair share")
        await first.send(_fetches(FETCHES))
        assert await first.ping() == []
        crowd[0].close()
    finally:
        os.kill(reader._process.pid, signal.SIGCONT)
    assert {(await first.frame()).kind for _ in range(FETCHES)} == {Kind.RECORDS}
    await eventually(lambda: hub.journal is not None and not hub.journal._readers.pending)
    assert held(hub, "bob", Resource.JOURNAL_READS) == held(hub, "alice", Resource.JOURNAL_READS) == 0


class Places:
    """A hub with WebSockets in which alice may have two connections."""

    text = "user alice has 2 connections, 1 more are too many: the limit for this user is 2"

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.known = KnownTokens(hub, anonymous="sensor")
        self.alice, self.bob = self.known.token("alice"), self.known.token("bob")
        hub.server.core.quotas.adopt(QuotaLimits(users={"alice": SetLimits({Resource.CONNECTIONS: 2})}))

    async def websocket(self, token: str, *lines: str) -> RawWebSocket:
        client = await self.hub.raw_websocket(await self.hub.listen("ws://127.0.0.1:0"))
        await client.shake_hands("hub.v1.json", *([f"Authorization: Bearer {token}"] if token else []), *lines)
        return client

    async def welcomed(self, token: str) -> RawWebSocket:
        client = await self.websocket(token)
        assert (await client.message())["type"] == "welcome"
        return client

    def held(self) -> dict[str, int]:
        return {share.user: share.held["connections"] for share in self.hub.server.core.quotas.largest(10)}


@pytest.fixture
async def places(start_hub: StartHub) -> Places:
    return Places(await start_hub())


async def test_websockets_that_have_said_nothing_are_charged(places: Places) -> None:
    hub = places.hub
    silent, talkative = await places.welcomed(places.alice), await places.welcomed(places.alice)
    assert places.held() == {"alice": 2}
    assert hub.server.admission.newcomers == 0
    await talkative.say("hello", name="me", token=places.alice)
    assert (await talkative.message())["user"] == "alice"
    assert places.held() == {"alice": 2}
    third = await hub.raw()
    await third.send(Hello(protocol=1, role="client", token=places.alice).encode())
    assert await third.end() == (CloseCode.TRY_AGAIN_LATER, places.text)
    silent.close()
    await eventually(lambda: places.held() == {"alice": 1})
    talkative.close()
    await eventually(lambda: places.held() == {})


async def test_a_websocket_too_many_is_refused_before_it_is_welcomed(places: Places) -> None:
    taken = [await places.welcomed(places.alice), await places.hub.client(token=places.alice)]
    program = await places.hub.raw_websocket(await places.hub.listen("ws://127.0.0.1:0"))
    await program.send(upgrade("hub.v1.json", f"Authorization: Bearer {places.alice}"))
    answer = await program.response()
    assert (answer.status, answer.body.decode()) == (503, f"{places.text}\n")
    page = await places.websocket(places.alice, "Origin: http://localhost")
    assert await page.end() == (CloseCode.TRY_AGAIN_LATER, places.text)
    late = await places.welcomed("")
    await late.say("hello", name="late", token=places.alice)
    opcode, payload = await late.frame()
    assert (opcode, payload[2:].decode()) == (Opcode.CLOSE, places.text)
    assert places.held() == {"alice": 2}
    assert len(taken) == 2


async def test_a_websocket_that_becomes_somebody_else(places: Places) -> None:
    client = await places.welcomed(places.bob)
    assert places.held() == {"bob": 1}
    await client.say("hello", name="me", token=places.alice)
    assert (await client.message())["user"] == "alice"
    assert places.held() == {"alice": 1}
    for _ in range(2):
        other = await places.welcomed(places.bob)
    await places.welcomed(places.alice)
    await other.say("hello", name="me", token=places.alice)
    assert await other.end() == (CloseCode.TRY_AGAIN_LATER, places.text)
    await eventually(lambda: places.held() == {"alice": 2, "bob": 1})


async def test_a_large_frame_that_is_more_than_the_user_may_have_waiting(start_hub: StartHub) -> None:
    hub = await start_hub(settings=Settings(quotas=QuotaSettings(queued_bytes=4_000_000)))
    known = KnownTokens(hub)
    token = known.token("alice")
    large = publication("/a", bytes(1_900_000))
    first, second = await hub.client(token=token), await hub.client(token=token)
    await first.send(large[:1_400_000])
    await eventually(lambda: held(hub, "alice", Resource.QUEUED_BYTES) == 1_400_000)
    await second.send(large[:1_000_000])
    code, text = await second.end()
    assert code == CloseCode.TRY_AGAIN_LATER
    assert text.startswith("user alice has ")
    assert "bytes waiting" in text
    await first.send(large[1_400_000:1_600_000])
    await first.send(large[1_600_000:])
    assert await first.ping() == []
    assert held(hub, "alice", Resource.QUEUED_BYTES) == 0


CERTIFICATES = Path(__file__).parent / "certificates"
WHOLE_PER_CONNECTION = 64_000


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


@pytest.mark.parametrize("secured", [False, True])
async def test_many_connections_that_do_not_read(start_hub: StartHub, *, secured: bool) -> None:
    """All that their transports hold is their user's part at most, whatever is published and however often."""
    count = 60
    hub = await start_hub(settings=Settings(quotas=QuotaSettings(queued_bytes=count * WHOLE_PER_CONNECTION)))
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
    part = count * WHOLE_PER_CONNECTION // 2
    free = sum(connection.holding.free_bytes for connection in hub.connections)
    assert free < part
    for _ in range(5):
        await publisher.publish("/a", PAYLOAD)
        assert await publisher.ping() == []
        assert unwritten(hub, "bob") <= part + free
    await publisher.publish("/a", *range(10))
    assert await publisher.ping() == []
    usage = hub.server.core.quotas.statistics()["queued_bytes"]
    assert part // 2 <= usage.held <= part + free
    assert unwritten(hub, "bob") <= part + free
    crowd = [one.statistics() for one in hub.server.core.handlers.values() if one.name == "crowd"]
    assert all(one.queued_messages + one.dropped_messages + one.delivered_messages == 15 for one in crowd)
    assert await quiet.values(15) == [("/a", PAYLOAD)] * 5 + [("/a", number) for number in range(10)]
    assert [one async for one in small_values(own, 10)] == list(range(10))


MIB = 1 << 20
LARGE_FRAME = publication("/large", bytes(4 * MIB))


@pytest.fixture
def small_hub(hub: Hub) -> Hub:
    hub.server.memory.count_only_charged()
    hub.server.memory.limit_bytes = 8 * MIB
    hub.server.memory.look()
    return hub


async def test_a_frame_that_grows_while_there_is_no_memory_ends_its_connection(small_hub: Hub) -> None:
    clients = [await small_hub.client() for _ in range(3)]
    for number, client in enumerate(clients[:2]):
        await client.send(LARGE_FRAME[: 7 * MIB // 2])
        await eventually(lambda expected=(number + 1) * 7 * MIB // 2: small_hub.server.held.size_bytes == expected)  # type: ignore[misc]
    await clients[2].send(LARGE_FRAME[: 2 * MIB])
    code, text = await clients[2].end()
    assert (code, "no memory left" in text) == (CloseCode.TRY_AGAIN_LATER, True)
    await eventually(lambda: small_hub.server.held.size_bytes == 7 * MIB)
    for client in clients[:2]:
        await client.send(LARGE_FRAME[7 * MIB // 2 :])
        assert await client.ping() == []
    assert small_hub.server.held.size_bytes == 0


async def test_what_a_transport_has_not_written_is_charged_until_it_is_read(hub: Hub) -> None:
    reader = await hub.client("/large", receive_bytes=4096)
    publisher = await hub.client()
    await publisher.send(LARGE_FRAME, publication("/large", "more"))
    await publisher.ping()
    assert MIB < hub.server.held.size_bytes < 5 * MIB
    await reader.values(2)
    await eventually(lambda: hub.server.held.size_bytes == 0)
    await publisher.send(LARGE_FRAME)
    await publisher.ping()
    assert hub.server.held.size_bytes > MIB
    reader.close()
    await eventually(lambda: hub.server.held.size_bytes == 0)
