"""A hub as one endpoint among others: handshakes, messages, filters, ends, over real sockets."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import structlog

from hub.batch import Batch
from hub.delivery import Role
from hub.errors import CloseCode
from hub.overflow import Overflow, QueueLimits
from hub.settings.sections import ZeekSettings
from hub.settings.settings import Settings
from peers.connections.broker_tls import client_context, server_context
from peers.values import Count, Table, decode, encode
from peers.zeek.broker.messages import (
    BrokerCode,
    EnvelopeType,
    Tag,
    encode_hello,
    encode_version_select,
)
from tests.connections.broker.conftest import PLAIN, StartHub
from tests.connections.broker.hubs import ZeekHub
from tests.connections.broker.scripted import HIGH, LOW, OTHER, Data, Endpointlike
from tests.hubs.eventually import eventually
from tests.hubs.raw_client import RawClient
from tests.hubs.settings import settings_of


async def statuses(watcher: RawClient, count: int) -> list[tuple[str, str, str, int]]:
    seen = []
    while len(seen) < count:
        ((topic, value),) = await watcher.values(1)
        seen.append((topic.removeprefix("$hub/peers/"), value["broker"], value["endpoint"], value["code"]))
    return seen


async def bodies(client: RawClient, count: int) -> list[tuple[str, Any]]:
    got: list[tuple[str, Any]] = []
    async for frame in client.frames():
        got.append((frame.key.decode(), decode(frame.body)))
        if len(got) == count:
            break
    return got


@pytest.mark.parametrize("far_id", [LOW, bytes.fromhex("ff" * 16)])
async def test_both_orders_of_ids(hub: ZeekHub, far_id: bytes) -> None:
    reader = await hub.client("/zeek/")
    far = await hub.zeek("/hub/", own_id=far_id)
    assert (far.hub_id, far.hub_filter) == (HIGH, ("/zeek/",))
    far.publish("/zeek/a", encode(Count(1)), encode("two"))
    far.publish("/hub/back", encode("not back"))
    assert await bodies(reader, 2) == [("/zeek/a", Count(1)), ("/zeek/a", "two")]
    publisher = await hub.client()
    await publisher.publish("/hub/x", {"k": [1, True, None]})
    await publisher.publish("/else", "nobody wants that")
    await publisher.publish("/hub/y", 2)
    first, second = await far.data(2)
    assert (first.topic, decode(first.payload)) == ("/hub/x", Table([("k", (1, True, None))]))
    assert second == Data("/hub/y", encode(2))
    await far.barrier()


async def test_the_filter_follows_the_subscribers(hub: ZeekHub) -> None:
    far = await hub.zeek("/far/")
    other = await hub.zeek("/other/", own_id=OTHER)
    assert far.hub_filter == other.hub_filter == ()
    client = await hub.client("/a/", "/a/b", "/c")
    assert await far.told() == await other.told() == ("/a/", "/c")
    await client.unsubscribe("/a/")
    assert await far.told() == ("/a/b", "/c")
    client.close()
    assert await far.told() == ()


async def test_what_is_asked_for_in_any_case(start_hub: StartHub) -> None:
    hub = await start_hub(settings=Settings(zeek=ZeekSettings(topics=("/always/",))))
    far, other = await hub.zeek(), await hub.zeek("/always/on", own_id=OTHER)
    assert far.hub_filter == ("/always/",)
    far.publish("/always/on", encode(1), encode(2))
    assert await other.data(2) == [Data("/always/on", encode(1)), Data("/always/on", encode(2))]
    await far.barrier()


async def test_forwarding_between_zeeks_may_be_off(start_hub: StartHub) -> None:
    hub = await start_hub(settings=Settings(zeek=ZeekSettings(forwarding="off")))
    reader = await hub.client("/a")
    far, other = await hub.zeek("/a"), await hub.zeek("/a", own_id=OTHER)
    far.publish("/a", encode(1))
    assert await bodies(reader, 1) == [("/a", 1)]
    await other.barrier()
    publisher = await hub.client()
    await publisher.publish("/a", 2)
    assert await far.data(1) == await other.data(1) == [Data("/a", encode(2))]


async def test_a_filter_that_changes(hub: ZeekHub) -> None:
    far = await hub.zeek("/a", "$hub/")
    publisher = await hub.client()
    assert set(hub.handler("11111111-1111-4111-8111-111111111111").prefixes) == {"/a"}
    far.update(["/b", "$hub/peers/", ""])
    await far.barrier()
    far.update(["/b"])
    await far.barrier()
    await publisher.publish("/a", 1)
    await publisher.publish("/b", 2)
    assert await far.data(1) == [Data("/b", encode(2))]


async def test_a_large_filter_is_taken_in_bit_by_bit(hub: ZeekHub) -> None:
    prefixes = [f"/p/{number:05}/" for number in range(20_000)]
    far = await hub.zeek()
    far.update(prefixes)
    far.update(prefixes[:3])
    name = "11111111-1111-4111-8111-111111111111"
    seen = set()
    while len(hub.handler(name).prefixes) != 3 or len(seen) < 10:
        seen.add(len(hub.handler(name).prefixes))
        await asyncio.sleep(0)
    assert max(seen) == 20_000
    assert all(size % 500 in {0, 3} for size in seen)
    assert set(hub.handler(name).prefixes) == set(prefixes[:3])


async def test_statuses(hub: ZeekHub) -> None:
    watcher = await hub.client("$hub/peers/")
    text = "11111111-1111-4111-8111-111111111111"
    far = await hub.zeek("")
    assert await statuses(watcher, 1) == [("added", "peer_added", text, 0)]
    far.close()
    assert await statuses(watcher, 1) == [("lost", "peer_lost", text, CloseCode.GOING_AWAY)]
    far = await hub.zeek("")
    await far.barrier()
    hub.node.draining = True
    hub.zeeks[-1].drain()
    assert (await far.envelope()).type is EnvelopeType.PING
    assert await far.everything() == b""
    assert await statuses(watcher, 2) == [
        ("added", "peer_added", text, 0),
        ("removed", "peer_removed", text, CloseCode.GOING_AWAY),
    ]
    hub.node.draining = False


async def test_goodbye(hub: ZeekHub) -> None:
    publisher = await hub.client()
    far = await hub.zeek("/a")
    for number in range(50):
        await publisher.publish("/a", number)
    await publisher.ping()
    hub.zeeks[0].drain()
    assert await far.data(50) == [Data("/a", encode(number)) for number in range(50)]
    assert (await far.envelope()).type is EnvelopeType.PING
    assert far.pings[0].startswith(b"BYE")
    assert len(far.pings[0]) == 11
    assert await far.everything() == b""


async def test_a_goodbye_that_is_not_answered(hub: ZeekHub) -> None:
    far = await hub.zeek("/a")
    hub.zeeks[0].drain()
    await far.frame()
    hub.later(2.0)
    assert hub.zeeks[0] in hub.node.connections
    hub.later(2.0)
    await eventually(lambda: hub.zeeks[0] not in hub.node.connections)


async def test_stopping_in_the_handshake(hub: ZeekHub) -> None:
    far = await Endpointlike.connect(hub.zeek_endpoint)
    assert (await far.message()).tag is Tag.PROBE
    hub.zeeks[0].drain()
    dropped = await far.message()
    assert dropped.tag is Tag.DROP_CONN
    assert (dropped.code, dropped.text) == (BrokerCode.SHUTTING_DOWN, "shutting down")
    far.close()


async def test_a_second_connection_is_redundant(hub: ZeekHub) -> None:
    far = await hub.zeek("/a")
    again = await Endpointlike.connect(hub.zeek_endpoint, LOW)
    again.write(encode_hello(LOW), encode_version_select(LOW))
    dropped = [await again.message() for _ in range(3)][-1]
    assert dropped.tag is Tag.DROP_CONN
    assert (dropped.code, dropped.text) == (40, "detected redundant connection at the responder")
    assert await again.everything() == b""
    again.close()
    await far.barrier()
    low = await hub.zeek("/b", own_id=bytes.fromhex("ff" * 16))
    again = await Endpointlike.connect(hub.zeek_endpoint, bytes.fromhex("ff" * 16))
    again.write(encode_hello(again.id))
    assert (await again.message()).tag is Tag.PROBE
    dropped = await again.message()
    assert dropped.tag is Tag.DROP_CONN
    assert (dropped.code, dropped.text) == (BrokerCode.REDUNDANT_CONNECTION, "redundant connection")
    assert await again.everything() == b""
    await low.barrier()
    again.close()


async def test_connecting_to_itself(hub: ZeekHub) -> None:
    far = await Endpointlike.connect(hub.zeek_endpoint, HIGH)
    far.write(encode_hello(HIGH))
    assert (await far.message()).tag is Tag.PROBE
    assert (await far.message()).tag is Tag.HELLO
    far.write(encode_hello(HIGH))
    assert await far.everything() == b""
    assert len(hub.peerings.registry) == 0
    far.close()


async def test_a_stranger_that_says_nothing(hub: ZeekHub) -> None:
    far = await Endpointlike.connect(hub.zeek_endpoint)
    assert (await far.message()).tag is Tag.PROBE
    hub.later(6.0)
    dropped = await far.message()
    assert dropped.tag is Tag.DROP_CONN
    assert dropped.text == "no handshake within 5 s"
    far.close()


async def test_a_peer_that_is_silent_is_pinged(hub: ZeekHub) -> None:
    far = await hub.zeek("/a")
    hub.later(21.0)
    assert (await far.envelope()).payload == b"hub"
    await far.barrier()
    hub.later(21.0)
    await far.frame()
    hub.later(11.0)
    await eventually(lambda: len(hub.peerings.registry) == 0)
    assert "no answer to the ping within 10 s" in hub.zeeks[0].reason


@pytest.mark.parametrize("overflow", list(Overflow))
async def test_a_peer_that_never_reads(start_hub: StartHub, overflow: Overflow) -> None:
    hub = await start_hub(f"{PLAIN}?messages=100&overflow={overflow.value}")
    reader, publisher = await hub.client("/a"), await hub.client()
    slow = await hub.zeek("/a")
    (handler,) = [one for one in hub.node.core.handlers.values() if one.role is Role.LEAF]
    sent = 0
    while not handler.dropped_messages:
        for _ in range(50):
            await publisher.publish("/a", bytes(20_000))
        sent += 50
        await publisher.ping()
        await reader.values(50)
    if overflow is Overflow.DISCONNECT:
        assert handler.closed
        await eventually(lambda: len(hub.peerings.registry) == 0)
    else:
        assert handler.statistics().queued_messages <= 100
        assert handler.delivered_messages + handler.dropped_messages + handler.statistics().queued_messages == sent
    slow.close()


async def test_what_has_no_form_is_counted(hub: ZeekHub) -> None:
    far, reader, publisher = await hub.zeek("/a"), await hub.client("/a"), await hub.client()
    await publisher.send(
        Batch.of("/a", [1]).frames, b"\x00\x00\x00\x01\x02\x00\x00\x02/a\xc1", Batch.of("/a", [2]).frames
    )
    assert await far.data(2) == [Data("/a", encode(1)), Data("/a", encode(2))]
    handler = hub.handler("11111111-1111-4111-8111-111111111111")
    assert handler.dropped_messages == 1
    assert len([frame async for frame in take(reader, 3)]) == 3


async def take(client: RawClient, count: int) -> Any:
    async for frame in client.frames():
        yield frame
        count -= 1
        if not count:
            return


@pytest.mark.parametrize("far_id", [LOW, bytes.fromhex("ff" * 16)])
@pytest.mark.parametrize("scheme", ["zeek+tcp", "zeek"])
async def test_dialling(start_hub: StartHub, scheme: str, far_id: bytes) -> None:
    hub = await start_hub()
    watcher = await hub.client("$hub/peers/")
    came: asyncio.Queue[Endpointlike] = asyncio.Queue()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far = Endpointlike(reader, writer, far_id)
        await came.put(await far.peer("/a", as_connector=False))

    tls = server_context(ZeekSettings()) if scheme == "zeek" else None
    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    url = f"{scheme}://127.0.0.1:{port}"
    hub.dial_zeek(url)
    far = await came.get()
    ((topic, value),) = await watcher.values(1)
    assert (topic, value["address"], value["broker_code"]) == ("$hub/peers/added", url, 1)
    publisher = await hub.client()
    await publisher.publish("/a", 1)
    assert await far.data(1) == [Data("/a", encode(1))]
    server.close()
    far.close()
    told = [topic for topic, _ in await watcher.values(2)]
    assert told == ["$hub/peers/lost", "$hub/peers/unavailable"]
    server = await asyncio.start_server(accept, "127.0.0.1", port, ssl=tls)
    far = await came.get()
    await far.barrier()
    await hub.stop_dialling()
    far.close()
    server.close()


async def test_tls_on_a_listener(start_hub: StartHub) -> None:
    hub = await start_hub("zeek://127.0.0.1:0")
    far = await Endpointlike.connect(hub.zeek_endpoint, LOW, tls=client_context(ZeekSettings()))
    await far.peer("/a")
    await eventually(lambda: LOW in hub.peerings.registry)
    publisher = await hub.client()
    await publisher.publish("/a", "secret")
    assert await far.data(1) == [Data("/a", encode("secret"))]
    far.close()


async def test_over_the_limit_of_connections(start_hub: StartHub) -> None:
    hub = await start_hub(settings=settings_of(connections=1, queue=QueueLimits()))
    far = await hub.zeek("/a")
    second = await Endpointlike.connect(hub.zeek_endpoint, OTHER)
    dropped = await second.message()
    while dropped.tag is Tag.PROBE:
        dropped = await second.message()
    assert dropped.tag is Tag.DROP_CONN
    assert dropped.text == "1 connections are open, which is the limit"
    await far.barrier()
    second.close()


async def test_who_wants_everything_leaves_stores_alone(start_hub: StartHub) -> None:
    hub = await start_hub(settings=Settings(zeek=ZeekSettings(topics=("/set/",))))
    await hub.client("", "$hub/peers/")
    far = await hub.zeek()
    assert far.hub_filter == ("/set/",)
    reader = await hub.client("/zeek/", "zeek/known/hosts")
    assert await far.told() == ("/set/", "/zeek/")
    far.publish("/zeek/a", encode(Count(1)))
    assert await bodies(reader, 1) == [("/zeek/a", Count(1))]


async def test_a_tls_handshake_that_fails(start_hub: StartHub) -> None:
    hub = await start_hub("zeek://127.0.0.1:0")
    with structlog.testing.capture_logs() as logs:
        for said in (encode_hello(LOW), b""):
            _, writer = await asyncio.open_connection(hub.zeek_endpoint.host, hub.zeek_endpoint.port)
            writer.write(said)
            writer.write_eof()
            failures = hub.node.zeek_tls_failures
            await eventually(lambda failures=failures: hub.node.zeek_tls_failures > failures)  # type: ignore[misc]
            writer.close()
    told = [line for line in logs if line["event"] == "TLS handshake with a Zeek failed"]
    assert len(told) == hub.node.zeek_tls_failures == 2
    assert all(line["address"].startswith("127.0.0.1:") and line["reason"] for line in told)
    assert not hub.node.connections


async def test_tls_where_none_is_expected(hub: ZeekHub) -> None:
    _, writer = await asyncio.open_connection(hub.zeek_endpoint.host, hub.zeek_endpoint.port)
    writer.write(bytes.fromhex("16030100c4010000c003034717e1c3"))
    await eventually(lambda: bool(hub.zeeks) and bool(hub.zeeks[0].reason))
    assert "the far side begins a TLS handshake, and this connection is without TLS" in hub.zeeks[0].reason
    writer.close()
