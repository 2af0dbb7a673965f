"""Conversations over real sockets, beside those that were recorded."""

from __future__ import annotations

import json
from http import HTTPStatus

import pytest
from websockets.datastructures import Headers
from websockets.frames import Opcode

from hub.limits import Overflow, QueueLimits
from hub.messages.batch import Batch
from hub.messages.frame import KIND_MESSAGES, encode_frame
from peers.websocket.zeek_codec import client_name
from peers.wire.hello import NAME_LIMIT_BYTES
from tests.connections.websocket.zeek.clients import Watcher, ZeekClient
from tests.hub.fakes import publish
from tests.hubs.eventually import eventually
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub
from tests.hubs.raw_websocket import frame, upgrade
from tests.hubs.settings import settings_of
from tests.websocket.zeek.messages import count


async def test_another_path(hub: Hub) -> None:
    for path in ("/", "/v1/messages", "/v2/messages/json?x"):
        raw = await hub.raw_websocket()
        await raw.send(upgrade("", path=path))
        assert (await raw.response()).status == HTTPStatus.SWITCHING_PROTOCOLS
        opcode, payload = await raw.frame()
        assert opcode == Opcode.TEXT
        assert json.loads(payload) == {
            "type": "error",
            "code": "invalid_uri",
            "context": "Invalid URI - use /v1/messages/json",
        }
        assert await raw.end() == (1008, "Invalid URI - use /v1/messages/json")


async def test_what_the_hub_says(hub: Hub) -> None:
    client = await ZeekClient.subscribed(hub, "", "$hub/client/")
    await ZeekClient.subscribed(hub, lines=("X-Application-Name: second",))
    joined = await client.reply()
    assert (joined["topic"], joined["@data-type"]) == ("$hub/client/joined", "table")
    assert {"@data-type": "string", "data": "second"} in [entry["value"] for entry in joined["data"]]


async def test_topics_that_the_hub_does_not_take(hub: Hub) -> None:
    client, other = await ZeekClient.subscribed(hub), await ZeekClient.subscribed(hub, "/ok")
    for number, (topic, cause) in enumerate(
        [
            ("", "topic is empty, it must have 1 to 1024 bytes"),
            ("$hub/client/joined", "topic '$hub/client/joined': $hub/ is the hub's own"),
            ("/a\x07", "topic '/a\\x07' has the control character U+0007 at character 2"),
            ("/" + "x" * 1024, "a topic of 1025 bytes, the limit is 1024 bytes"),
            ("<$>/x", "topic '<$>/x': <$> is Broker's own"),
        ],
        1,
    ):
        await client.publish(topic, 2)
        await client.publish("/ok", number)
        context = f"input #{2 * number - 1} was refused -> {cause}"
        assert await client.reply() == {"type": "error", "code": "deserialization_failed", "context": context}
        assert await other.text() == count("/ok", number)
        assert hub.server.rejected_messages == number


async def test_prefixes_that_the_hub_does_not_take(start_hub: StartHub) -> None:
    hub = await start_hub(settings=settings_of(prefixes_per_client=2))
    for prefixes, cause in (
        (["/a", "/b", "/c"], "3 prefixes, the limit for a client is 2"),
        (["/a\n"], "prefix '/a\\n' has the control character U+000A at character 2"),
    ):
        client = await ZeekClient.connect(hub)
        await client.say(json.dumps(prefixes).encode(), count("/a", 1))
        assert await client.reply() == {"type": "error", "code": "deserialization_failed", "context": cause}
        assert await client.raw.end() == (1008, cause)
        await eventually(lambda: not hub.server.core.handlers)


async def test_what_has_no_form_is_counted(hub: Hub) -> None:
    client = await ZeekClient.subscribed(hub, "/a", lines=("X-Application-Name: me",))
    core = hub.server.core
    source = Watcher(hub, "/elsewhere").handler
    for body in (b"\x01", b"\xc1", b"\x02"):
        core.publish(source, core.routes.find("/a"), Batch(encode_frame(KIND_MESSAGES, body, key=b"/a"), 1))
    assert [(await client.reply())["data"] for _ in range(2)] == [1, 2]
    assert await client.settle() == []
    handler = hub.handler("me")
    assert (handler.dropped_messages, handler.delivered_messages) == (1, 2)
    assert [event.value["lost"] for event in core.report_drops()] == [1]


async def test_overflow_disconnects_in_brokers_words(start_hub: StartHub) -> None:
    limits = QueueLimits(messages=50, overflow=Overflow.DISCONNECT)
    hub = await start_hub(settings=settings_of(queue=limits))
    client = await ZeekClient.subscribed(hub, "/a", lines=("X-Application-Name: stalled",), receive_bytes=4096)
    hub.shrink_buffers()
    handler = hub.handler("stalled")
    source = await ZeekClient.subscribed(hub)
    while not handler.closed:
        await source.say(*[b'{"topic":"/a","@data-type":"string","data":"%b"}' % (b"x" * 1000)] * 20)
        await source.settle()
    code, reason = await client.raw.end()
    assert code == 1011
    assert reason.startswith("backpressure_overflow: queue full (50 messages, ")


async def test_overflow_drops_silently(start_hub: StartHub) -> None:
    hub = await start_hub(settings=settings_of(queue=QueueLimits(messages=50, overflow=Overflow.DROP_OLDEST)))
    client = await ZeekClient.subscribed(hub, "/a", lines=("X-Application-Name: stalled",), receive_bytes=4096)
    hub.shrink_buffers()
    handler = hub.handler("stalled")
    core = hub.server.core
    total = 0
    while handler.dropped_messages < 100:
        publish(core, "/a", ["x" * 1000, total])
        core.flush()
        total += 1
    publish(core, "/b", 0)
    delivered = total - handler.dropped_messages
    numbers = [(await client.reply())["data"][1]["data"] for _ in range(delivered)]
    assert numbers == sorted(numbers)
    assert numbers[-1] == total - 1
    assert await client.settle() == []


async def test_silence(hub: Hub) -> None:
    client = await ZeekClient.connect(hub)
    await client.settle()
    hub.later(21)
    assert await client.raw.frame() == (Opcode.PING, b"")
    await client.raw.send(frame(Opcode.PONG))
    await client.say(b"[]")
    assert (await client.reply())["type"] == "ack"
    hub.later(21)
    hub.later(11)
    assert await client.raw.frame() == (Opcode.PING, b"")
    code, reason = await client.raw.end()
    assert (code, reason) == (1011, "Ping timeout")


@pytest.mark.parametrize(
    ("headers", "name"),
    [
        ({}, ""),
        ({"User-Agent": "agent/1.0 (x)"}, "agent/1.0 (x)"),
        ({"X-Application-Name": "a-Z/_.=:*@9", "User-Agent": "agent"}, "a-Z/_.=:*@9"),
        ({"X-Application-Name": "a b", "User-Agent": "agent"}, "agent"),
        ({"X-Application-Name": ""}, ""),
        ({"X-Application-Name": "x" * 65}, ""),
        ({"User-Agent": "ü" * 40}, "ü" * 32),
        ({"User-Agent": "\x9b1m"}, ""),
    ],
)
def test_the_name(headers: dict[str, str], name: str) -> None:
    assert client_name(Headers(headers)) == name
    assert len(name.encode()) <= NAME_LIMIT_BYTES
