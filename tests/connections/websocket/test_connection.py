"""Conversations with the hub over real sockets, through the websockets library's client and through raw frames."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Origin, Subprotocol

from hub.handlers.waiting import WRITE_LIMIT_BYTES
from hub.messages.batch import Batch
from hub.messages.frame import KIND_MESSAGES, encode_frame
from peers.wire.hello import SOFTWARE
from tests.connections.websocket.zeek.clients import ZeekClient
from tests.garbage import leaves_nothing
from tests.hub.fakes import publish
from tests.hubs.eventually import eventually, settle
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub
from tests.hubs.raw_websocket import request, text, upgrade
from tests.hubs.settings import settings_of

JSON = "hub.v1.json"
MSGPACK = "hub.v1.msgpack"


async def say(socket: ClientConnection, **message: Any) -> None:
    if socket.subprotocol == JSON:
        await socket.send(json.dumps(message))
    else:
        await socket.send(msgspec.msgpack.encode(message))


async def hear(socket: ClientConnection) -> Any:
    data = await socket.recv()
    assert isinstance(data, str) is (socket.subprotocol == JSON)
    return json.loads(data) if isinstance(data, str) else msgspec.msgpack.decode(data)


def dial(hub: Hub, subprotocol: str, **options: Any) -> connect:
    return connect(f"{hub.url}/v1/hub", subprotocols=[Subprotocol(subprotocol)], **options)


async def test_the_example_of_the_documentation(hub: Hub, subprotocol: str) -> None:
    async with dial(hub, subprotocol) as socket:
        assert await hear(socket) == {
            "type": "welcome",
            "hub": hub.server.id.hex(),
            "name": "hub",
            "software": SOFTWARE,
            "queue": {"messages": 8192, "bytes": 67108864, "overflow": "drop-oldest"},
            "frame": 16777216,
        }
        await say(socket, type="subscribe", prefixes=["/zeek/"], request=1)
        assert await hear(socket) == {"type": "confirmed", "request": 1}
        await say(socket, type="publish", topic="/zeek/dns", value={"query": "example.org"})
        assert await hear(socket) == {"type": "messages", "topic": "/zeek/dns", "values": [{"query": "example.org"}]}
    assert (socket.close_code, socket.close_reason) == (1000, "")
    assert socket.protocol.extensions == []


async def test_hello_is_the_first_message_or_none(hub: Hub) -> None:
    client = await hub.websocket()
    await client.say("hello", name="x" * 65)
    assert (await client.message())["code"] == 1007
    await client.say("hello", name="me")
    assert (await client.message())["type"] == "welcome"
    await client.say("hello", name="you")
    assert await client.message() == {"type": "error", "code": 1008, "text": "hello is taken as the first message only"}
    assert hub.handler("me").name == "me"


async def test_requests_are_confirmed_if_they_bear_a_number(hub: Hub) -> None:
    client = await hub.websocket()
    for numbered in ({"request": 5}, {"request": 0}, {}):
        await client.say("subscribe", prefixes=["/a"], **numbered)
        await client.say("publish", topic="/b", value=1, **numbered)
        await client.say("unsubscribe", prefixes=["/a"], **numbered)
    assert await client.barrier() == [{"type": "confirmed", "request": 5}] * 3


async def test_a_confirmation_precedes_an_early_write(hub: Hub) -> None:
    client = await hub.websocket("/old")
    publish(hub.server.core, "/old", "x" * (WRITE_LIMIT_BYTES - 1000))
    (connection,) = hub.connections
    read = text({"type": "subscribe", "prefixes": ["/new"], "request": 3}) + text(
        {"type": "publish", "topic": "/new", "value": "y" * 1000}
    )
    connection.data_received(read)
    assert await client.message() == {"type": "confirmed", "request": 3}
    assert [topic for topic, _ in await client.messages(2)] == ["/old", "/new"]


async def test_a_value_that_grows_over_the_limit_is_refused(start_hub: StartHub) -> None:
    hub = await start_hub(settings=settings_of(frame_bytes=4096))
    client = await hub.websocket("/t")
    await client.send(text({"type": "publish", "topic": "/t", "value": [0.5] * 700, "request": 3}))
    error = await client.message()
    assert (error["type"], error["code"], error["request"]) == ("error", 1009, 3)
    assert hub.server.rejected_messages == 1


async def test_what_has_no_form_is_told_in_place(hub: Hub) -> None:
    one, other = await hub.websocket("/t", name="json"), await hub.websocket("/t", subprotocol=MSGPACK, name="msgpack")
    ext = b"\xd4\x05x"
    core = hub.server.core
    source = hub.handler("msgpack")
    route = core.routes.find("/t")
    for body in (b"\x01", ext, ext, b"\x02"):
        core.publish(source, route, Batch(encode_frame(KIND_MESSAGES, body, key=b"/t"), 1))
    assert await one.message() == {"type": "messages", "topic": "/t", "values": [1]}
    assert await one.message() == {"type": "dropped", "count": 1}
    assert await one.message() == {"type": "dropped", "count": 1}
    assert await one.message() == {"type": "messages", "topic": "/t", "values": [2]}
    assert [topic for topic, _ in await other.messages(4)] == ["/t"] * 4
    assert hub.handler("json").dropped_messages == 2
    assert hub.handler("json").delivered_messages == 2
    assert hub.handler("msgpack").dropped_messages == 0
    assert [event.value["lost"] for event in core.report_drops()] == [2]


async def test_foreign_pages_are_refused(hub: Hub) -> None:
    for lines in (("Origin: https://evil.com",), ("Origin: null",), ("Origin: http://localhost",) * 2):
        client = await hub.raw_websocket()
        await client.send(upgrade(JSON, *lines))
        answer = await client.response()
        assert answer.status == 403
        assert b"websocket.origins" in answer.body or b"several Origin" in answer.body
    assert not hub.server.core.handlers


async def test_a_listener_on_all_addresses(start_hub: StartHub) -> None:
    hub = await start_hub(loopback=False)
    async with dial(hub, JSON, origin=Origin(f"http://127.0.0.1:{hub.endpoint.port}")) as socket:
        assert (await hear(socket))["type"] == "welcome"
    with pytest.raises(InvalidStatus) as caught:
        await dial(hub, JSON, origin=Origin("http://localhost:3000"))
    assert caught.value.response.status_code == 403


JSON, MSGPACK = "hub.v1.json", "hub.v1.msgpack"


async def come_and_go(hub: Hub) -> None:
    asking, silent = await hub.raw_websocket(), await hub.raw_websocket()
    await asking.send(request("/metrics"))
    assert (await asking.response()).status == 200
    zeek = await ZeekClient.subscribed(hub, "/a")
    await zeek.publish("/a", 1)
    await zeek.settle()
    for client in (asking, silent, zeek.raw):
        client.close()
    await eventually(lambda: not hub.server.connections)
    hub.connections.clear()
    await settle()


async def test_what_is_no_client_of_the_hubs_own(hub: Hub) -> None:
    await leaves_nothing(lambda: come_and_go(hub))
