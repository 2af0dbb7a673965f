"""Labels, names and rules with the clients, over each transport, to a real hub."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hub.batch import Batch
from hub.errors import CloseCode, InvalidNameError, InvalidTopicError, RejectedError
from hub.frame import FLAG_TAGGED
from hub.settings.sections import JournalSettings
from hub.settings.settings import Settings
from hub.tags.envelope import Envelope
from peers.client import Client, Message, connect
from peers.client.blocking import BlockingClient
from peers.client.blocking import connect as connect_blocking
from peers.client.publications import target
from tests.client.told import Told
from tests.hubs.eventually import eventually
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub

NAME = "org.example.Door"


async def test_labels_bring_a_message_to_whoever_wants_them(hub: Hub) -> None:
    async with (
        connect(hub.url) as client,
        client.subscribe("/t") as by_topic,
        client.subscribe_rule(["urgent", "door"]) as by_rule,
        client.subscribe_rule(["door"], prefix="/t") as by_both,
    ):
        await client.publish("/t", 1, labels=["door", "urgent", "x"])
        client.publish_nowait("/u", 2, labels=("urgent", "door"))
        client.publish_nowait("/u", 3, labels=("urgent", "door"))
        client.publish_nowait("/t", 4)
        await client.publish("/t", 5, labels={"door"})
        assert [await anext(by_topic) for _ in range(3)] == [("/t", 1), ("/t", 4), ("/t", 5)]
        first = await anext(by_rule)
        assert [await anext(by_rule) for _ in range(2)] == [("/u", 2), ("/u", 3)]
        assert [await anext(by_both) for _ in range(2)] == [("/t", 1), ("/t", 5)]
        assert first == Message("/t", 1)
        assert first.labels == ("door", "urgent", "x")
        assert (first.sender, first.destination) == ("", "")
    assert len(hub.node.core.rules) == 0


async def test_a_sender_and_a_destination(hub: Hub) -> None:
    told = Told()
    async with (
        connect(hub.url) as door,
        await door.claim(NAME),
        door.subscribe_name(NAME) as letters,
        told.connect(hub.url) as reader,
        reader.subscribe_rule(sender=NAME) as heard,
    ):
        await door.publish("/open", True, sender=NAME)
        message = await anext(heard)
        assert (message, message.sender) == (("/open", True), NAME)
        await reader.publish("/close", "please", ["urgent"], to=NAME)
        letter = await anext(letters)
        assert (letter, letter.destination, letter.labels) == (("/close", "please"), NAME, ("urgent",))
        await reader.publish("/open", False, sender=NAME)
        refused = await told.rejected.get()
        assert (refused.code, refused.text) == (CloseCode.NOT_ALLOWED, f"sender '{NAME}': that name is not yours")
        await reader.publish("/close", 1, to="org.example.Nobody")
        refused = await told.rejected.get()
        assert refused.text == "nobody has the name 'org.example.Nobody'"
        assert reader.statistics().rejected_messages == 2


async def test_rules_are_subscribed_to_again(hub: Hub) -> None:
    told = Told()
    async with (
        told.connect(hub.url, name="reader") as client,
        client.subscribe("/t"),
        client.subscribe_rule(["a"]) as one,
        client.subscribe_rule(["a"]) as two,
    ):
        await hub.crash()
        await told.disconnected.get()
        await eventually(lambda: len(hub.node.core.rules) == 1 and hub.prefixes("reader") == {"/t": 1})
        client.publish_nowait("/x", 1, labels=["a"])
        assert await anext(one) == await anext(two) == ("/x", 1)
        await one.close()
        assert len(hub.node.core.rules) == 1
        await two.close()
        assert len(hub.node.core.rules) == 0


async def test_what_is_no_rule_or_label(client: Client) -> None:
    with pytest.raises(InvalidNameError, match="subscribe to the prefix '/a' itself"):
        client.subscribe_rule(prefix="/a")
    with pytest.raises(InvalidTopicError, match="control character"):
        client.subscribe_rule(["a"], prefix="\n")
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
    streams = [client.subscribe_rule([str(number)]) for number in range(1001)]
    for stream in streams[:-1]:
        await stream.open()
    with pytest.raises(RejectedError, match="1001 rules, the limit for a client is 1000"):
        await streams[-1].open()
    assert await client.request("$hub/names", None) == []


async def test_a_blocking_client(hub: Hub) -> None:
    def talk(client: BlockingClient) -> None:
        with (
            client.claim(NAME),
            client.subscribe_rule(["a"], sender=NAME) as heard,
            client.subscribe_name(NAME) as letters,
        ):
            client.publish("/t", 1, labels=["a", "b"], sender=NAME)
            client.publish_nowait("/t", 2, to=NAME)
            message = next(iter(heard))
            assert (message, message.labels, message.sender) == (("/t", 1), ("a", "b"), NAME)
            assert next(iter(letters)).value == 2

    client = await asyncio.to_thread(connect_blocking, hub.url)
    try:
        await asyncio.to_thread(talk, client)
    finally:
        await asyncio.to_thread(client.close)


def test_a_topic_alone_stays_one() -> None:
    topic = "/some/topic"
    assert target(topic, (), "", "") is topic
    assert target(topic, ["b", "a"], "", "") is target(topic, ("b", "a"), "", "")


async def test_the_journal_keeps_topics(start_hub: StartHub, tmp_path: Path) -> None:
    """What bore labels or a sender is recorded and confirmed; read back, it has a topic and a value."""
    hub = await start_hub(settings=Settings(journal=JournalSettings(path=str(tmp_path / "journal"))))
    async with connect(hub.url) as client, await client.claim(NAME), client.subscribe_rule(["a"]) as live:
        offsets = [
            await client.publish_confirmed("/t", 0),
            await client.publish_confirmed("/t", 1, labels=["a", "b"], sender=NAME),
            await client.publish_confirmed("/u", 2, labels=["a"]),
        ]
        with pytest.raises(RejectedError, match="is not yours"):
            await client.publish_confirmed("/t", 3, sender="org.example.Wall")
        read = {record.offset: (record.topic, record.value) async for record in client.read("/")}
        assert [read[offset] for offset in offsets] == [("/t", 0), ("/t", 1), ("/u", 2)]
        assert [(await anext(live)).value for _ in range(2)] == [1, 2]
        labelled = Batch.under(Envelope("/t", ("a",)).encode(), [4], FLAG_TAGGED).frames
        await client.stage("one", 0, labelled)
        await client.commit("one", [0])
        assert (await anext(live)).value == 4
        with pytest.raises(RejectedError, match="bear the name of a sender are not staged"):
            await client.stage("two", 0, Batch.under(Envelope("/t", (), NAME).encode(), [5], FLAG_TAGGED).frames)


async def test_labels_by_position(start_hub: StartHub, tmp_path: Path) -> None:
    """Stand behind the value, for every way to publish, in programs with threads as in those with an event loop."""
    hub = await start_hub(settings=Settings(journal=JournalSettings(path=str(tmp_path / "journal"))))

    def publish(client: BlockingClient) -> None:
        with client.claim(NAME):
            client.publish("/t", 1, ["a"], timeout_s=60)
            client.publish_nowait("/t", 2, ["a"])
            client.publish_packed("/t", b"\3", ["a"], timeout_s=60)
            client.publish_packed_nowait("/t", b"\4", ["a"])
            client.publish_confirmed("/t", 5, ["a"], sender=NAME, timeout_s=60)

    async with connect(hub.url) as other, other.subscribe_rule(["a"]) as heard:
        with await asyncio.to_thread(connect_blocking, hub.url) as client:
            await asyncio.to_thread(publish, client)
        await other.publish("/t", 6, ["a"])
        other.publish_nowait("/t", 7, ["a"])
        await other.publish_packed("/t", b"\x08", ["a"])
        other.publish_packed_nowait("/t", b"\x09", ["a"])
        await other.publish_confirmed("/t", 10, ["a"])
        got = [await anext(heard) for _ in range(10)]
    assert [message.value for message in got] == [*range(1, 11)]
    assert {message.labels for message in got} == {("a",)}
