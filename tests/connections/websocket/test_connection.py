"""Conversations with the hub over real sockets, through the websockets library's client and through raw frames."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Origin, Subprotocol

from hub.batch import Batch
from hub.frame import KIND_MESSAGES, encode_frame
from hub.topics import RESERVED
from hub.waiting import WRITE_LIMIT_BYTES
from peers.wire.hello import SOFTWARE
from tests.hub.fakes import publish
from tests.hubs.eventually import eventually
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub
from tests.hubs.raw_websocket import text, upgrade
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
            "hub": hub.node.id.hex(),
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


async def test_hello_names_the_client_and_grants_a_queue(start_hub: StartHub, subprotocol: str) -> None:
    hub = await start_hub()
    async with dial(hub, subprotocol) as socket:
        await hear(socket)
        await say(socket, type="hello", name="me", queue={"messages": 5, "bytes": 2**50})
        welcome = await hear(socket)
        assert welcome["type"] == "welcome"
        assert welcome["queue"] == {"messages": 5, "bytes": 256 * 1024 * 1024, "overflow": "drop-oldest"}
        handler = hub.handler("me")
        assert handler.limits.messages == 5
        assert handler.address.startswith("127.0.0.1:")


async def test_hello_is_the_first_message_or_none(hub: Hub) -> None:
    client = await hub.websocket()
    await client.say("hello", name="x" * 65)
    assert (await client.message())["code"] == 1007
    await client.say("hello", name="me")
    assert (await client.message())["type"] == "welcome"
    await client.say("hello", name="you")
    assert await client.message() == {
        "type": "error",
        "code": 1008,
        "text": "hello is taken as the first message only",
    }
    assert hub.handler("me").name == "me"


async def test_both_encodings_talk_to_each_other(hub: Hub) -> None:
    one, other = await hub.websocket("/t", subprotocol=JSON), await hub.websocket("/t", subprotocol=MSGPACK)
    await one.publish("/t", {"n": 1}, None, "ü")
    expected: list[tuple[str, Any]] = [("/t", {"n": 1}), ("/t", None), ("/t", "ü")]
    assert await one.messages(3) == expected
    assert await other.messages(3) == expected
    await other.publish("/t", [1.5], 2**64 - 1)
    expected = [("/t", [1.5]), ("/t", 2**64 - 1)]
    assert await one.messages(2) == expected
    assert await other.messages(2) == expected


async def test_values_together_arrive_together(hub: Hub, subprotocol: str) -> None:
    client = await hub.websocket("/t", subprotocol=subprotocol)
    await client.publish("/t", 1, 2, 3)
    found = await client.message()
    while found["type"] != "messages":
        found = await client.message()
    assert found == {"type": "messages", "topic": "/t", "values": [1, 2, 3]}


async def test_requests_are_confirmed_if_they_bear_a_number(hub: Hub) -> None:
    client = await hub.websocket()
    for request in ({"request": 5}, {"request": 0}, {}):
        await client.say("subscribe", prefixes=["/a"], **request)
        await client.say("publish", topic="/b", value=1, **request)
        await client.say("unsubscribe", prefixes=["/a"], **request)
    assert await client.barrier() == [{"type": "confirmed", "request": 5}] * 3


async def test_a_confirmation_precedes_the_messages(hub: Hub, subprotocol: str) -> None:
    client = await hub.websocket(subprotocol=subprotocol)
    padding = "x" * 100_000
    await client.say("subscribe", prefixes=["/t"], request=3)
    for number in range(5):
        await client.publish("/t", [number, padding])
    assert await client.message() == {"type": "confirmed", "request": 3}
    assert [value[0] for _, value in await client.messages(5)] == list(range(5))


async def test_a_confirmation_precedes_an_early_write(hub: Hub) -> None:
    client = await hub.websocket("/old")
    publish(hub.node.core, "/old", "x" * (WRITE_LIMIT_BYTES - 1000))
    (connection,) = hub.connections
    read = text({"type": "subscribe", "prefixes": ["/new"], "request": 3}) + text(
        {"type": "publish", "topic": "/new", "value": "y" * 1000}
    )
    connection.data_received(read)
    assert await client.message() == {"type": "confirmed", "request": 3}
    assert [topic for topic, _ in await client.messages(2)] == ["/old", "/new"]


async def test_refused_publications(hub: Hub) -> None:
    client = await hub.websocket("", name="me")
    await client.say("publish", topic=RESERVED + "x", values=[1, 2, 3], request=7)
    error = await client.message()
    assert (error["type"], error["code"], error["request"]) == ("error", 1008, 7)
    await client.say("publish", topic="/a\n", value=1)
    error = await client.message()
    assert (error["code"], "request" in error) == (1007, False)
    await client.publish("/fine", 1)
    assert await client.messages(1) == [("/fine", 1)]
    assert hub.node.rejected_messages == 4
    assert hub.handler("me").published_messages == 1


async def test_refused_subscriptions(start_hub: StartHub) -> None:
    hub = await start_hub(settings=settings_of(prefixes_per_client=2))
    client = await hub.websocket("/1", name="me")
    await client.say("subscribe", prefixes=["/2", "/3"], request=7)
    error = await client.message()
    assert (error["code"], error["request"]) == (1008, 7)
    assert "limit" in error["text"]
    await client.say("subscribe", prefixes=["/2", "/\x07"], request=8)
    error = await client.message()
    assert (error["code"], error["request"]) == (1007, 8)
    await client.say("subscribe", prefixes=["/2", "/1"], request=9)
    assert await client.message() == {"type": "confirmed", "request": 9}
    assert hub.handler("me").prefixes == {"/1": 2, "/2": 1}


async def test_a_value_that_grows_over_the_limit_is_refused(start_hub: StartHub) -> None:
    hub = await start_hub(settings=settings_of(frame_bytes=4096))
    client = await hub.websocket("/t")
    await client.send(text({"type": "publish", "topic": "/t", "value": [0.5] * 700, "request": 3}))
    error = await client.message()
    assert (error["type"], error["code"], error["request"]) == ("error", 1009, 3)
    assert hub.node.rejected_messages == 1


async def test_the_largest_message_is_that_of_the_welcome(start_hub: StartHub) -> None:
    hub = await start_hub(settings=settings_of(frame_bytes=5000))
    client = await hub.websocket("/t", subprotocol=MSGPACK)
    padding = "x" * (5000 - 40)
    await client.say("publish", topic="/t", value=padding)
    assert await client.messages(1) == [("/t", padding)]
    await client.say("publish", topic="/t", value=padding + "x" * 100)
    code, reason = await client.end()
    assert code == 1009
    assert "5000" in reason


async def test_frames_are_made_once_and_shared(hub: Hub) -> None:
    clients = [await hub.websocket("/t", subprotocol=kind) for kind in (JSON, JSON, MSGPACK, MSGPACK)]
    batch = Batch.of("/t", [{"n": 1}, 2])
    made = []
    for make in {connection.session.codec.form for connection in hub.connections}:
        form = batch.form(make)
        made.append((form, form.frames(batch)))
    core = hub.node.core
    core.publish(next(iter(core.handlers.values())), core.routes.find("/t"), batch)
    for client in clients:
        assert await client.messages(2) == [("/t", {"n": 1}), ("/t", 2)]
    assert len(made) == 2
    for form, frames in made:
        assert form.frames(batch) is frames


async def test_what_has_no_form_is_told_in_place(hub: Hub) -> None:
    one, other = await hub.websocket("/t", name="json"), await hub.websocket("/t", subprotocol=MSGPACK, name="msgpack")
    ext = b"\xd4\x05x"
    core = hub.node.core
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


async def test_one_turn_is_one_write(hub: Hub) -> None:
    client = await hub.websocket("/t", name="me")
    (connection,) = hub.connections
    writes: list[bytes] = []
    transport = connection.transport

    class Recorder:
        def writelines(self, data: list[bytes]) -> None:
            writes.append(b"".join(data))
            transport.writelines(data)

        def write(self, data: bytes) -> None:
            writes.append(data)
            transport.write(data)

        def __getattr__(self, name: str) -> Any:
            return getattr(transport, name)

    connection.transport = Recorder()  # type: ignore[assignment]
    for number in range(16):
        publish(hub.node.core, f"/t/{number}", number)
    assert await client.messages(16) == [(f"/t/{number}", number) for number in range(16)]
    assert len(writes) == 1
    connection.transport = transport


async def test_the_client_closes(hub: Hub) -> None:
    watcher = await hub.websocket("$hub/client/left")
    async with dial(hub, JSON) as socket:
        await say(socket, type="hello", name="me")
        await socket.close(3000, "enough")
    left = await watcher.message()
    assert left["values"][0]["reason"] == "enough (3000)"
    await eventually(lambda: len(hub.node.connections) == 1)


async def test_foreign_pages_are_refused(hub: Hub) -> None:
    for lines in (("Origin: https://evil.com",), ("Origin: null",), ("Origin: http://localhost",) * 2):
        client = await hub.raw_websocket()
        await client.send(upgrade(JSON, *lines))
        answer = await client.response()
        assert answer.status == 403
        assert b"websocket.origins" in answer.body or b"several Origin" in answer.body
    assert not hub.node.core.handlers


async def test_pages_that_may_connect(start_hub: StartHub) -> None:
    hub = await start_hub(settings=settings_of(origins=("https://dashboard.example.org",)))
    own = f"http://127.0.0.1:{hub.endpoint.port}"
    for origin in (own, "http://localhost:3000", "https://dashboard.example.org"):
        async with dial(hub, JSON, origin=Origin(origin)) as socket:
            assert (await hear(socket))["type"] == "welcome"


async def test_a_listener_on_all_addresses(start_hub: StartHub) -> None:
    hub = await start_hub(loopback=False)
    async with dial(hub, JSON, origin=Origin(f"http://127.0.0.1:{hub.endpoint.port}")) as socket:
        assert (await hear(socket))["type"] == "welcome"
    with pytest.raises(InvalidStatus) as caught:
        await dial(hub, JSON, origin=Origin("http://localhost:3000"))
    assert caught.value.response.status_code == 403


async def test_a_wrong_subprotocol(hub: Hub) -> None:
    with pytest.raises(InvalidStatus) as caught:
        await dial(hub, "other")
    assert caught.value.response.status_code == 400
    assert b"hub.v1.json, hub.v1.msgpack" in bytes(caught.value.response.body)
