"""Subscribing with the asyncio client, over each transport, to a real hub."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hub.errors import (
    CloseCode,
    ClosedError,
    ConnectionLostError,
    InvalidNameError,
    InvalidTopicError,
    RejectedError,
    RequestFailedError,
    UsageError,
)
from hub.handlers.delivery import RemoteHub, Role
from hub.messages.batch import Batch
from hub.messages.frame import FLAG_BATCH, KIND_MESSAGES, encode_frame
from hub.names.claim import Announced, Wish
from peers.client import Client, KnownName, Message, MessageStream, connect
from peers.client.publications import target
from tests.client.scripted import Told
from tests.hub.fakes import handler_of, publish
from tests.hubs.eventually import eventually
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub
from tests.hubs.settings import settings_of


async def read(messages: MessageStream, count: int) -> list[Message]:
    return [await anext(messages) for _ in range(count)]


async def test_callbacks(hub: Hub) -> None:
    failures: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
    got: asyncio.Queue[Message] = asyncio.Queue()

    def function(message: Message) -> None:
        got.put_nowait(message)
        if message.value == 1:
            raise ZeroDivisionError

    async with connect(hub.url) as client:
        subscription = await client.subscribe_callback(["/a", "/b"], function)
        for number in range(3):
            client.publish_nowait("/b", number)
        assert [await got.get() for _ in range(3)] == [Message("/b", number) for number in range(3)]
        await subscription.close()
        assert hub.server.core.routes.find("/a").handlers == ()
    assert isinstance(failures[0]["exception"], ZeroDivisionError)
    assert "/b" in failures[0]["message"]


async def test_more_prefixes_than_one_request_holds(start_hub: StartHub, listen_url: str) -> None:
    hub = await start_hub(listen_url, settings=settings_of(frame_bytes=8 * 1024))
    async with connect(hub.url) as client:
        with pytest.raises(RejectedError, match="subscribe in portions"):
            await client.subscribe(*(f"/{number:0>1000}" for number in range(10))).open()
        async with client.subscribe("/a"):
            assert client.statistics().prefixes == 1


async def test_a_cancelled_subscription_is_taken_back(hub: Hub) -> None:
    async with connect(hub.url, name="me") as client:
        opening = asyncio.ensure_future(client.subscribe("/a").open())
        await asyncio.sleep(0)
        opening.cancel()
        await asyncio.wait([opening])
        assert opening.cancelled()
        async with client.subscribe("/b"):
            assert hub.prefixes("me") == {"/b": 1}


async def test_the_end_of_a_stream(hub: Hub) -> None:
    client = await connect(hub.url)
    stream, other = client.subscribe("/a"), client.subscribe("/a")
    await stream.open()
    await other.open()
    with pytest.raises(UsageError, match="opened once"):
        await stream.open()
    client.publish_nowait("/a", 1)
    await eventually(lambda: stream.buffered_bytes and other.buffered_bytes)
    other.close_nowait()
    assert [message async for message in other] == []
    await client.close()
    assert [message.value async for message in stream] == [1]
    assert await stream.batch() == []
    with pytest.raises(ClosedError):
        await client.subscribe("/a").open()


async def test_bad_values(start_hub: StartHub) -> None:
    hub = await start_hub()
    told = Told()
    async with told.connect(hub.url, name="me") as client, client.subscribe("/a") as messages:
        handler = hub.handler("me")
        for body, flags, count in (
            (b"\xc1", 0, 1),
            (b"\x00\x00\x00\x03\x01\xa1\xff\x03", FLAG_BATCH, 3),
            (b"\x00", 0b100, 1),
        ):
            handler.offer(Batch(encode_frame(KIND_MESSAGES, body, key=b"/a", flags=flags), count))
        publish(hub.server.core, "/a", "end")
        assert [message.value for message in await read(messages, 3)] == [1, 3, "end"]
        bad = [told.bad.get_nowait() for _ in range(3)]
        assert [(each.topic, each.body, each.messages) for each in bad] == [
            ("/a", body, 1) for body in (b"\xc1", b"\xa1\xff", b"\x00")
        ]
        assert "not msgpack" in bad[0].reason
        assert bad[2].reason == "encoding 2 is not read by this version"
        assert client.statistics().bad_messages == 3
        assert client.statistics().connected


async def test_unreadable_frames(start_hub: StartHub) -> None:
    hub = await start_hub()
    told = Told()
    async with told.connect(hub.url, name="me") as client, client.subscribe("/a") as messages:
        handler = hub.handler("me")
        handler.offer(Batch(encode_frame(KIND_MESSAGES, b"\x01", key=b"\x00\x02/a", flags=0b1000), 1))
        handler.offer(Batch(encode_frame(KIND_MESSAGES, b"\x01", key=b"/\xff"), 1))
        handler.offer(Batch(encode_frame(KIND_MESSAGES, b"\x00\x00\x00\x09\x01", key=b"/a", flags=FLAG_BATCH), 9))
        publish(hub.server.core, "/a", "end")
        assert (await anext(messages)).value == "end"
        assert [(await told.bad.get()).messages for _ in range(3)] == [1, 1, 1]
        assert client.statistics().connections == 1


async def test_a_stream_that_is_not_open(client: Client) -> None:
    for closed in (client.subscribe("/a"), client.subscribe_rule(["a"])):
        for read in (closed.receive, closed.batch, closed.__anext__, lambda: _iterate(closed)):  # noqa: B023
            with pytest.raises(UsageError, match=r"write `async with client.subscribe\(...\) as messages:`"):
                await read()
        with pytest.raises(UsageError, match="not open"):
            closed.batch_nowait()
        await closed.close()
        assert await closed.batch() == []
        assert closed.ended
    async with client.subscribe("/a") as messages:
        await client.publish_packed("/a", b"\x01")
        assert await messages.receive() == ("/a", 1)
        assert not messages.ended
        messages.close_nowait()
        with pytest.raises(ClosedError):
            await messages.receive()


async def _iterate(messages: MessageStream) -> None:
    async for _ in messages:
        pass


async def test_connecting_without_await() -> None:
    """Using what `connect` returns as a client raises at once, and says what to write; never using it warns."""
    connecting: Any = connect("tcp://127.0.0.1:1")
    for use in (lambda: connecting.publish_nowait("/a", 1), lambda: connecting.subscribe):
        with pytest.raises(AttributeError, match=r"write `async with connect\(...\) as client:` or `client = await"):
            use()
    with pytest.raises(TypeError, match=r"write `async with connect\(...\)`"):
        connecting.__enter__()
    with pytest.raises(ConnectionLostError):
        await connecting
    with pytest.warns(RuntimeWarning, match="neither awaited nor entered"):
        connect("tcp://127.0.0.1:1")


async def test_a_service_that_is_never_opened(client: Client) -> None:
    with pytest.warns(RuntimeWarning, match=r"the service under \('/a',\) was never opened"):
        client.serve("/a", lambda request: request.value)


NAME = "org.example.Door"


async def test_a_sender_or_a_destination_that_cannot_be(hub: Hub) -> None:
    told = Told()
    async with connect(hub.url) as door, await door.claim(NAME), told.connect(hub.url) as reader:
        await reader.publish("/open", False, sender=NAME)
        refused = await told.rejected.get()
        assert (refused.code, refused.text) == (CloseCode.NOT_ALLOWED, f"sender '{NAME}': that name is not yours")
        await reader.publish("/close", 1, to="org.example.Nobody")
        refused = await told.rejected.get()
        assert refused.text == "no client owns the name 'org.example.Nobody'"
        assert reader.statistics().rejected_messages == 2


async def test_what_is_no_rule_or_label(client: Client) -> None:
    with pytest.raises(InvalidNameError, match="subscribe to the prefix '/a' itself"):
        client.subscribe_rule(prefix="/a")
    with pytest.raises(InvalidNameError, match="label is empty"):
        client.publish_nowait("/a", 1, labels=[""])
    with pytest.raises(InvalidNameError, match="33 labels"):
        client.publish_nowait("/a", 1, labels=map(str, range(33)))
    with pytest.raises(InvalidNameError, match="name 'x'"):
        await client.publish("/a", 1, to="x")
    with pytest.raises(InvalidTopicError, match="is the hub's own"):
        await client.publish("$hub/a", 1, labels=["a"])
    with pytest.raises(InvalidNameError, match="name 'x'"):
        client.subscribe_name("x")
    assert await client.request("$hub/names", None) == []


async def test_more_rules_than_a_frame_holds_come_back(start_hub: StartHub) -> None:
    hub, told = await start_hub(settings=settings_of(rules_per_client=2000)), Told()
    async with told.connect(hub.url) as client:
        await asyncio.gather(*(client.subscribe_rule([str(number)]).open() for number in range(1001)))
        await hub.crash()
        await eventually(lambda: len(hub.server.core.rules) == 1001)
        assert told.rejected.empty()


def test_a_topic_alone_stays_one() -> None:
    topic = "/some/topic"
    assert target(topic, (), "", "") is topic
    assert target(topic, ["b", "a"], "", "") is target(topic, ("b", "a"), "", "")


PLAYER = "org.example.Player"


async def test_a_name_that_is_gone_when_the_client_comes_back(hub: Hub) -> None:
    told = Told()
    async with told.connect(hub.url) as client:
        await told.connected.get()
        lost, waits = await client.claim("a.a"), await client.claim("a.b", queue=True)
        others = handler_of(role=Role.CLIENT, name="other")
        hub.server.core.attach(others)
        await hub.crash()
        for name in ("a.a", "a.b"):
            hub.server.core.names.claim(others, Wish(name), 1)
        await lost.wait_lost()
        with pytest.raises(RejectedError, match=r"name a\.a is owned by client \d+ 'other'"):
            await lost.wait_owned()
        assert "is owned by" in lost.reason
        await eventually(lambda: waits.reason == "queued")
        hub.server.core.detach(others, "done")
        await waits.wait_owned()


async def test_an_earlier_claim_of_a_peer_hub(client: Client, hub: Hub) -> None:
    lost, waits = await client.claim("a.a"), await client.claim("a.b", queue=True)
    link = RemoteHub(b"\x07" * 16)
    names = hub.server.core.names
    names.hear(link, [Announced("a.a", (), 1, 1), Announced("a.b", (), 1, 1)], [])
    assert "which claimed it earlier" in await lost.wait_lost()
    assert "which claimed it earlier" in await waits.wait_lost()
    with pytest.raises(RejectedError, match="which claimed it earlier"):
        await lost.wait_owned()
    names.hear(link, [], ["a.b"])
    await waits.wait_owned()
    async with await client.claim("a.c"):
        pass


async def test_many_names_are_listed_in_pages(client: Client, hub: Hub) -> None:
    names = hub.server.core.names
    link = RemoteHub(b"\x07" * 16)
    names.hear(link, [Announced(f"a.n{number:04}", ("x",), 1, 9) for number in range(2500)], [])
    found = await client.names()
    assert [each.name for each in found] == [f"a.n{number:04}" for number in range(2500)]
    assert found[0] == KnownName("a.n0000", ("x",), 9, b"\x07" * 16)
    assert len(await client.names("a.n1")) == 1000
    assert await client.names("b") == []
    with pytest.raises(RequestFailedError, match="expected null, a prefix, or a map"):
        await client.request("$hub/names", 7)


async def test_labels_may_change(client: Client) -> None:
    async with client.subscribe("$hub/names/") as messages:
        claimed = await client.claim(PLAYER, ["a"])
        await claimed.relabel(["c", "b"])
        assert claimed.labels == ("b", "c")
        heard = [await anext(messages) for _ in range(2)]
        assert [(each.topic, each.value["labels"]) for each in heard] == [
            ("$hub/names/appeared", ["a"]),
            ("$hub/names/appeared", ["b", "c"]),
        ]
        with pytest.raises(InvalidNameError):
            await claimed.relabel([""])
        for _ in range(2):
            await claimed.release()
        for call in (claimed.relabel(["d"]), claimed.wait_owned()):
            with pytest.raises(ClosedError):
                await call


async def test_a_claim_that_is_cancelled(client: Client, hub: Hub) -> None:
    async with connect(hub.url) as other:
        claiming = asyncio.ensure_future(client.claim(PLAYER))
        await asyncio.sleep(0)
        claiming.cancel()
        await asyncio.wait([claiming])
        assert claiming.cancelled()
        assert await client.names() == []
        async with await other.claim(PLAYER) as claimed:
            assert claimed.owned


async def test_prefixes_in_a_list(client: Client) -> None:
    async with client.subscribe(["/a", "/b"], "/c") as messages:
        for topic in ("/a", "/b", "/c", "/d"):
            client.publish_nowait(topic, None)
        assert [message.topic for message in await read(messages, 3)] == ["/a", "/b", "/c"]
        with pytest.raises(InvalidTopicError, match=r"topic is a str, not bytes: b'/a'"):
            client.publish_nowait(b"/a", 1)  # type: ignore[arg-type]
        with pytest.raises(InvalidTopicError, match=r"prefix is a str, not int: 5"):
            async with client.subscribe([5]):  # type: ignore[list-item]
                pass
