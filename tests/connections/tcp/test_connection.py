"""Clients of a hub over real sockets: subscribing, publishing, order, and how they come and go."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from hub.batch import decode_values
from hub.errors import CloseCode
from hub.frame import Frame, encode_frame
from hub.overflow import Overflow, QueueLimits
from hub.settings.settings import Settings
from peers.wire.control import Notice, decode_notice, encode_close, encode_subscription
from peers.wire.hello import MESH_VERSION, SOFTWARE, Hello, QueueWish
from peers.wire.kinds import Kind
from tests.hubs.eventually import eventually, settle
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub
from tests.hubs.raw_client import RawClient, publication
from tests.hubs.settings import settings_of

ROOMY = QueueLimits(messages=1_000_000)


async def test_hello_is_answered(start_hub: StartHub) -> None:
    hub = await start_hub(name="north", hub_id=bytes(range(16)))
    client = await hub.raw()
    assert await client.greet(name="reader") == Hello(
        protocol=1,
        role="hub",
        id=bytes(range(16)),
        name="north",
        software=SOFTWARE,
        queue=QueueWish(8192, 64 << 20, Overflow.DROP_OLDEST),
        frame=16 << 20,
        mesh=MESH_VERSION,
    )


async def test_publish_and_subscribe(hub: Hub) -> None:
    wanting, other = await hub.client("/a"), await hub.client("/b")
    publisher = await hub.client()
    await publisher.publish("/a/x", {"k": [1, 2.5, None, b"\x00"]})
    await publisher.publish("/b", "sentinel")
    assert await wanting.values(1) == [("/a/x", {"k": [1, 2.5, None, b"\x00"]})]
    assert await other.values(1) == [("/b", "sentinel")]
    assert await publisher.ping() == []


async def test_frames_go_on_as_they_came(hub: Hub) -> None:
    subscriber, publisher = await hub.client("/"), await hub.client()
    sent = [
        Frame(Kind.MESSAGES, 1, b"/a", b"\x00\x00\x00\x03\xc0\xc1\xff"),
        Frame(Kind.MESSAGES, 0, b"/a", b""),
        Frame(Kind.MESSAGES, 2, b"/b", b"broker's own"),
        Frame(Kind.MESSAGES, 3, b"/b", b"\x00\x00\x00\x01x"),
    ]
    await publisher.send(*(encode_frame(frame.kind, frame.body, key=frame.key, flags=frame.flags) for frame in sent))
    assert [await subscriber.frame() for _ in sent] == sent


async def test_everything_in_one_packet(hub: Hub) -> None:
    client = await hub.raw()
    await client.send(
        Hello(protocol=1, role="client").encode(),
        publication("/a", "before"),
        encode_subscription(Kind.SUBSCRIBE, ["/a"], 7),
        publication("/a", "behind"),
        encode_frame(Kind.PING, b"x"),
    )
    assert (await client.frame()).kind == Kind.HELLO
    assert await client.notice() == Notice("confirmed", request=7)
    assert await client.frame() == Frame(Kind.PONG, 0, b"", b"x")
    assert await client.values(1) == [("/a", "behind")]


async def test_a_publisher_gets_its_own_messages(hub: Hub) -> None:
    client = await hub.client("/a")
    await client.publish("/a", 1, 2, 3)
    assert await client.values(3) == [("/a", 1), ("/a", 2), ("/a", 3)]


async def test_confirmation_precedes_messages(hub: Hub) -> None:
    publisher = await hub.client("/a")
    subscriber = await hub.client()
    for first in range(0, 2000, 100):
        await publisher.send(*(publication("/a", number) for number in range(first, first + 100)))
        if first == 1000:
            assert await subscriber.subscribe("/a") == []
    await publisher.values(2000)
    rest = [frame for frame in await subscriber.ping() if frame.kind == Kind.MESSAGES]
    numbers = [value for frame in rest for value in decode_values(frame)]
    assert numbers == list(range(numbers[0], 2000))


async def test_unsubscribing(hub: Hub) -> None:
    client = await hub.client("/a", "/b")
    await client.publish("/a", 1)
    assert await client.values(1) == [("/a", 1)]
    assert await client.unsubscribe("/a", "/never subscribed") == []
    await client.publish("/a", 2)
    await client.publish("/b", 3)
    assert await client.values(1) == [("/b", 3)]


async def test_subscriptions_are_counted(hub: Hub) -> None:
    client = await hub.client("/a", "/a", "/", "/a/b")
    await client.publish("/a/b", 1)
    await client.unsubscribe("/a", "/", "/a/b")
    await client.publish("/a/b", 2)
    await client.unsubscribe("/a")
    await client.publish("/a/b", 3)
    await client.subscribe("/a")
    await client.publish("/a/b", 4)
    assert await client.values(1) == [("/a/b", 4)]


async def test_who_has_unsubscribed_what_came_before(hub: Hub) -> None:
    client = await hub.client("/a", "/a")
    await client.publish("/a", 1)
    assert await client.values(1) == [("/a", 1)]
    await client.unsubscribe("/a")
    await client.publish("/a", 2)
    assert await client.values(1) == [("/a", 2)]


async def test_many_messages_in_order(start_hub: StartHub) -> None:
    hub = await start_hub(settings=settings_of(queue=ROOMY))
    source = random.Random(7)  # noqa: S311 -- repeatable
    sent: list[tuple[str, Any]] = []
    stream = bytearray()
    while len(sent) < 50_000:
        topic = f"/sensor/{source.randrange(300)}"
        count = source.choice((1, 1, 1, 1, 9))
        values = list(range(len(sent), len(sent) + count))
        sent += [(topic, value) for value in values]
        stream += publication(topic, *values)
    subscriber, partial, publisher = await hub.client("/sensor/"), await hub.client("/sensor/1"), await hub.client()

    async def publish() -> None:
        position = 0
        while position < len(stream):
            end = position + source.randrange(1, 60_000)
            await publisher.send(bytes(stream[position:end]))
            position = end

    expected = [one for one in sent if one[0].startswith("/sensor/1")]
    _, all_of_them, some_of_them = await asyncio.gather(
        publish(), subscriber.values(len(sent)), partial.values(len(expected))
    )
    assert all_of_them == sent
    assert some_of_them == expected
    assert hub.node.core.statistics().published_messages_total == len(sent)


async def test_fan_out(hub: Hub) -> None:
    subscribers = [await hub.client("/a", name=f"reader {number}") for number in range(30)]
    publisher = await hub.client()
    await publisher.send(*(publication("/a", number) for number in range(500)))
    for subscriber in subscribers:
        assert await subscriber.values(500) == [("/a", number) for number in range(500)]
    assert {hub.handler(f"reader {number}").delivered_messages for number in range(30)} == {500}


async def test_a_frame_in_many_pieces(hub: Hub) -> None:
    subscriber, publisher = await hub.client("/a"), await hub.client()
    for byte in publication("/a", "slowly"):
        await publisher.send(bytes([byte]))
        await settle()
    assert await subscriber.values(1) == [("/a", "slowly")]


async def test_a_large_message(hub: Hub) -> None:
    subscriber, publisher = await hub.client("/a"), await hub.client()
    value = bytes(range(256)) * (1 << 16)
    value = value[:-5]  # the value's own header
    _, ((topic, got),) = await asyncio.gather(publisher.publish("/a", value), subscriber.values(1))
    assert topic == "/a"
    assert got == value


async def test_unix_sockets(start_hub: StartHub, tmp_path: Path) -> None:
    hub = await start_hub(f"unix://{tmp_path}/hub.sock")
    subscriber, publisher = await hub.client("/a", name="reader"), await hub.client()
    await publisher.publish("/a", 1)
    assert await subscriber.values(1) == [("/a", 1)]
    assert hub.handler("reader").address == f"unix:{tmp_path}/hub.sock"


# Coming and going.


async def test_clients_are_announced(hub: Hub) -> None:
    watcher = await hub.client("$hub/client/")
    client = await hub.client(name="guest")
    await client.send(encode_close(CloseCode.DONE, "had enough"))
    (_, joined), (_, left) = await watcher.values(2)
    assert joined["name"] == "guest"
    assert joined["role"] == "client"
    assert left == joined | {"reason": "had enough (1000)"}


async def say_goodbye(client: RawClient) -> None:
    await client.send(encode_close(CloseCode.DONE, "bye"))


async def say_little(client: RawClient) -> None:
    await client.send(encode_close(CloseCode.GOING_AWAY, ""))


async def hang_up(client: RawClient) -> None:
    client.finish()


async def drop_dead(client: RawClient) -> None:
    client.reset()


LEAVING: dict[Callable[[RawClient], Coroutine[Any, Any, None]], str] = {
    say_goodbye: "bye (1000)",
    say_little: "closed with 1001",
    hang_up: "the far side closed without CLOSE",
    drop_dead: "reset",
}


@pytest.mark.parametrize("leave", LEAVING)
async def test_who_leaves_leaves_nothing(hub: Hub, leave: Callable[[RawClient], Coroutine[Any, Any, None]]) -> None:
    watcher = await hub.client("$hub/client/left")
    client = await hub.client("/a", "/b", name="guest")
    await client.publish("/a", 1)
    await client.values(1)
    before = hub.node.core.statistics()
    await leave(client)
    ((_, left),) = await watcher.values(1)
    assert LEAVING[leave] in left["reason"]
    after = hub.node.core.statistics()
    assert (before.clients, after.clients) == (2, 1)
    assert after.routing.subscriptions == before.routing.subscriptions - 2
    assert after.published_messages_total == before.published_messages_total
    assert hub.node.core.prefixes.asked_of_links.minimal == ()
    assert len(hub.node.connections) == len(hub.node.keepalive) == 1


async def test_messages_before_the_end_are_delivered(hub: Hub) -> None:
    subscriber = await hub.client("/a")
    publisher = await hub.raw()
    await publisher.send(
        Hello(protocol=1, role="client").encode(), publication("/a", 1), encode_close(CloseCode.DONE, "")
    )
    assert await subscriber.values(1) == [("/a", 1)]


async def test_messages_before_the_end_of_the_stream_are_delivered(hub: Hub) -> None:
    subscriber = await hub.client("/a")
    publisher = await hub.raw()
    await publisher.send(Hello(protocol=1, role="client").encode(), encode_frame(200, b"") * 5000, publication("/a", 1))
    publisher.finish()
    assert await subscriber.values(1) == [("/a", 1)]


async def test_who_is_gone_before_its_turn_is_not_taken_in(hub: Hub) -> None:
    bystander = await hub.client()
    for _ in range(5):
        stranger = await hub.raw()
        await stranger.send(encode_frame(200, b"") * 10_000, Hello(protocol=1, role="client", name="ghost").encode())
        await bystander.ping()
        stranger.reset()
        await bystander.ping()
    await eventually(lambda: len(hub.node.connections) == len(hub.node.keepalive) == 1)
    assert [handler.name for handler in hub.node.core.handlers.values()] == [""]


async def test_messages_to_one_that_has_gone(hub: Hub) -> None:
    reader, publisher = await hub.client("/a"), await hub.client()
    for _ in range(10):
        dead = await hub.client("/a")
        dead.reset()
        await publisher.publish("/a", 1)
        assert await reader.values(1) == [("/a", 1)]


async def test_many_requests_at_once(start_hub: StartHub) -> None:
    hub = await start_hub(settings=settings_of(prefixes_per_client=10_000))
    client = await hub.client()
    requests = range(1, 5001)
    await client.send(
        *(encode_subscription(Kind.SUBSCRIBE, [f"/{number}", ""], number) for number in requests),
        publication("/7", "end"),
    )
    assert [await client.notice() for _ in requests] == [Notice("confirmed", request=number) for number in requests]
    assert await client.values(1) == [("/7", "end")]
    assert len(hub.handler("").prefixes) == 5001


# Queues.


@pytest.mark.parametrize(
    ("wish", "granted"),
    [
        (None, QueueWish(8192, 64 << 20, Overflow.DROP_OLDEST)),
        (QueueWish(messages=5), QueueWish(5, 64 << 20, Overflow.DROP_OLDEST)),
        (QueueWish(bytes=2048, overflow=Overflow.DISCONNECT), QueueWish(8192, 2048, Overflow.DISCONNECT)),
        (QueueWish(10**9, 10**12, Overflow.DROP_NEWEST), QueueWish(1_000_000, 256 << 20, Overflow.DROP_NEWEST)),
    ],
)
async def test_wishes_for_a_queue(hub: Hub, wish: QueueWish | None, granted: QueueWish) -> None:
    client = await hub.raw()
    assert (await client.greet(name="reader", queue=wish)).queue == granted
    limits = hub.handler("reader").limits
    assert (limits.messages, limits.bytes, limits.overflow) == (granted.messages, granted.bytes, granted.overflow)


async def test_a_listener_has_a_queue_of_its_own(start_hub: StartHub) -> None:
    hub = await start_hub("tcp://127.0.0.1:0?messages=10&overflow=disconnect", settings=Settings())
    client = await hub.raw()
    assert (await client.greet()).queue == QueueWish(10, 64 << 20, Overflow.DISCONNECT)


async def test_a_confirmation_of_a_refused_subscription(hub: Hub) -> None:
    client = await hub.client(name="reader")
    await client.send(encode_subscription(Kind.SUBSCRIBE, ["/good", "/bad\n"], 9))
    notice = await client.notice()
    assert (notice.kind, notice.request, notice.code) == ("error", 9, CloseCode.BAD_DATA)
    assert "U+000A" in notice.text
    assert not hub.handler("reader").prefixes


async def drained(client: RawClient) -> list[Notice]:
    return [decode_notice(frame.body) for frame in await client.ping() if frame.kind == Kind.NOTICE]


async def test_too_many_prefixes(start_hub: StartHub) -> None:
    hub = await start_hub(settings=settings_of(prefixes_per_client=3))
    client = await hub.client("/1", "/2", "/3", name="reader")
    await client.send(encode_subscription(Kind.SUBSCRIBE, ["/4"], 5))
    (notice,) = await drained(client)
    assert notice == Notice(
        "error", request=5, code=CloseCode.NOT_ALLOWED, text="4 prefixes, the limit for a client is 3"
    )
    assert set(hub.handler("reader").prefixes) == {"/1", "/2", "/3"}
