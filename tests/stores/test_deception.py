"""Changes of a store are told by the store: whoever else publishes under their topic is refused, at every door."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import structlog

from hub.batch import Batch
from hub.errors import CloseCode, HubError
from hub.frame import FLAG_TAGGED, Encoding, Frame
from hub.settings.sections import JournalSettings, StoresSettings
from hub.settings.settings import Settings
from hub.tags.envelope import Envelope
from peers.client import Client, RejectedError, connect
from peers.values import encode
from peers.websocket.zeek.codec import PATH
from peers.wire.control import decode_notice
from peers.wire.kinds import Kind
from tests.connections.broker.conftest import PLAIN
from tests.connections.broker.hubs import ZeekHub
from tests.connections.broker.scripted import HIGH
from tests.connections.websocket.zeek.clients import ZeekClient
from tests.hubs.eventually import eventually
from tests.hubs.fixtures import StartHub, kept_hubs
from tests.hubs.hub import Hub
from tests.hubs.raw_client import publication
from tests.hubs.raw_http import http
from tests.hubs.raw_websocket import upgrade
from tests.stores.packed import pack

TOPIC = "$store/s/changes/"
DECEPTION = [1 << 60, [[1 << 60, 0, pack("k"), pack("deceived"), None, None]]]
REFUSAL = "a store tells its changes there, and nobody else does"


@pytest.fixture
async def hub(uncaught: None, tmp_path: Path) -> AsyncIterator[ZeekHub]:  # noqa: ARG001 -- looks afterwards
    async with kept_hubs() as hubs:
        hub = ZeekHub(Settings(stores=StoresSettings(open=("s=:memory:",))), "hub", HIGH)
        hubs.append(hub)
        await hub.listen()
        await hub.listen("ws://127.0.0.1:0")
        await hub.listen(f"unix://{tmp_path}/hub.sock")
        await hub.listen_for_zeeks(PLAIN)
        yield hub


async def over_tcp(hub: ZeekHub) -> None:
    reader, client = await hub.client("/beside"), await hub.client()
    await client.send(publication("/beside/a", 1) + publication(TOPIC, DECEPTION) + publication("/beside/b", 2))
    (notice,) = [decode_notice(frame.body) for frame in await client.ping() if frame.kind == Kind.NOTICE]
    assert (notice.code, notice.count) == (CloseCode.NOT_ALLOWED, 1)
    assert REFUSAL in notice.text
    assert await reader.values(2) == [("/beside/a", 1), ("/beside/b", 2)]
    await client.publish(TOPIC, DECEPTION)  # alone in a read
    (notice,) = [decode_notice(frame.body) for frame in await client.ping() if frame.kind == Kind.NOTICE]
    assert REFUSAL in notice.text


async def with_labels(hub: ZeekHub) -> None:
    client = await hub.client()
    await client.send(Batch.under(Envelope(TOPIC, ("x",)).encode(), [DECEPTION], FLAG_TAGGED).frames)
    (notice,) = [decode_notice(frame.body) for frame in await client.ping() if frame.kind == Kind.NOTICE]
    assert (notice.code, notice.count) == (CloseCode.NOT_ALLOWED, 1)
    assert REFUSAL in notice.text


async def over_a_websocket(hub: ZeekHub) -> None:
    client = await hub.raw_websocket(hub.endpoints[1])
    await client.shake_hands("hub.v1.msgpack")
    assert (await client.message())["type"] == "welcome"
    await client.say("publish", topic=TOPIC, value=DECEPTION, request=7)
    error = await client.message()
    assert (error["type"], error["code"], error["request"]) == ("error", CloseCode.NOT_ALLOWED, 7)
    assert REFUSAL in error["text"]


async def over_http(hub: ZeekHub) -> None:
    client = await http(hub, hub.endpoints[1])
    answer = await client.publish(f"?topic={TOPIC}", [1, []])
    assert answer.status == 403
    assert REFUSAL in answer.value["error"]["text"]


async def in_shared_memory(hub: ZeekHub) -> None:
    told: list[RejectedError] = []
    async with connect(hub.endpoints[2].location, on_rejected=told.append) as client:
        await client.publish(TOPIC, [1, [[1, 0, pack("k"), pack(b"x" * 200_000), None, None]]])
        await eventually(lambda: told)
    assert REFUSAL in str(told[0])


async def by_a_program_for_zeek(hub: ZeekHub) -> None:
    client = ZeekClient(await hub.raw_websocket(hub.endpoints[1]))
    await client.shake_hands(upgrade("", path=PATH))
    await client.say(b"[]")
    await client.reply()
    await client.publish(TOPIC, 1)
    answer = await client.reply()
    assert answer["type"] == "error"
    assert REFUSAL in answer["context"]


async def by_a_zeek(hub: ZeekHub) -> None:
    reader = await hub.client("/zeek", name="reader")
    zeek = await hub.zeek()
    with structlog.testing.capture_logs() as logs:
        zeek.publish(TOPIC, encode("deceived"))
        zeek.publish("/zeek/x", encode("fine"))
        frame = await reader.frame()
    assert isinstance(frame, Frame)
    assert (frame.topic, frame.encoding) == (b"/zeek/x", Encoding.BROKER)
    told = [line["reason"] for line in logs if line["event"] == "messages of a Zeek refused"]
    assert len(told) == 1
    assert REFUSAL in told[0]


async def at_another_hub(hub: ZeekHub) -> None:
    async with kept_hubs() as hubs:
        other = Hub(Settings(), "other")
        hubs.append(other)
        await other.listen()
        other.dial(hub)
        told: list[RejectedError] = []
        async with connect(other.url, on_rejected=told.append) as client:
            await _reached(client)
            await client.publish(TOPIC, DECEPTION)
            await eventually(lambda: told)
        assert REFUSAL in str(told[0])


async def by_another_hub(hub: ZeekHub) -> None:
    """A hub that has another store of that name: its changes do not pass for those of the store that is here."""
    async with kept_hubs() as hubs:
        other = Hub(Settings(stores=StoresSettings(open=("s=:memory:",))), "other")
        hubs.append(other)
        await other.listen()
        other.dial(hub)
        reader = await hub.client(TOPIC)
        await eventually(lambda: other.node.core.routes.find(TOPIC).far)
        async with connect(other.url) as client:
            await client.store("s").put("k", "of another store")
        link = hub.handler("other")
        await eventually(lambda: hub.node.rejected_messages == 1)
        assert link.published_messages == 0
        async with connect(hub.url) as client:
            await client.store("s").put("k", "of this one")
            ((topic, (_, (change,))),) = await reader.values(1)
            assert (topic, change[3]) == (TOPIC, pack("of this one"))


async def _reached(client: Client) -> None:
    while True:
        try:
            await client.store("s").state()
        except HubError:
            await asyncio.sleep(0.001)
        else:
            return


@pytest.mark.parametrize(
    "door",
    [
        over_tcp,
        with_labels,
        over_a_websocket,
        over_http,
        in_shared_memory,
        by_a_program_for_zeek,
        by_a_zeek,
        at_another_hub,
        by_another_hub,
    ],
)
async def test_nobody_tells_what_a_store_does(hub: ZeekHub, door: Callable[[ZeekHub], Awaitable[None]]) -> None:
    async with connect(hub.url) as client, client.store("s").watch() as changes:
        await door(hub)
        await client.store("s").put("last", 1)
        heard = [await anext(changes)]
        while heard[-1].key != "last":
            heard.append(await anext(changes))
    assert "deceived" not in [change.value for change in heard]


async def test_nor_into_a_journal(start_hub: StartHub, tmp_path: Path) -> None:
    journal = JournalSettings(path=str(tmp_path / "journal"), topics=("$store/",))
    hub = await start_hub(settings=Settings(stores=StoresSettings(open=("s=:memory:",)), journal=journal))
    async with connect(hub.url) as client:
        await client.store("s").put("k", 1)
        with pytest.raises(RejectedError, match=REFUSAL):
            await client.publish_confirmed(TOPIC, DECEPTION)
        with pytest.raises(RejectedError, match="changes of a store are not staged"):
            await client.stage("one", 0, Batch.of(TOPIC, [DECEPTION]).frames)
        await client.store("s").put("k", 2)
        while (await client.journal()).head < 2:  # noqa: ASYNC110 -- the hub is asked
            await asyncio.sleep(0.001)
        recorded = [record.value async for record in client.read("$store/")]
    assert [changes[0][3] for _, changes in recorded] == [pack(1), pack(2)]


async def test_what_is_told_elsewhere(hub: ZeekHub) -> None:
    reader, client = await hub.client("$store/"), await hub.client()
    topics = ["$store/s/change/", "$store/s/other", "$store/s/a/changes/", "$store/changes/"]
    for topic in topics:
        await client.publish(topic, 1)
    assert [topic for topic, _ in await reader.values(len(topics))] == topics
    assert not [frame for frame in await client.ping() if frame.kind == Kind.NOTICE]
