"""What a user may see, at every door through which messages go: exactly that, and refusals that say what it is."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from hub.batch import Batch
from hub.errors import CloseCode, RejectedError
from hub.frame import FLAG_TAGGED
from hub.tags.envelope import Envelope
from hub.tags.rules import Rule
from peers.client import MessageStream, connect
from peers.wire.control import Notice, encode_rules, encode_subscription
from peers.wire.kinds import Kind
from tests.connections.rights.conftest import POLICY, Guarded
from tests.connections.websocket.test_connection import dial, hear, say
from tests.connections.websocket.zeek.clients import ZeekClient
from tests.hub.policy.tricks import ALLOWED, BRINGABLE
from tests.hubs.raw_client import RawClient, publication

LAST = "/zeek/last"
"""Behind all others: whoever gets it has got what there was."""

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


async def by_a_rule(guarded: Guarded) -> list[str]:
    client = await guarded.hub.client(endpoint=guarded.tcp, name="alice", narrow=True)
    await client.send(encode_rules(Kind.RULE, [Rule(("red",))], 5))
    await client.ping()
    source = await guarded.hub.client(endpoint=guarded.tcp, name="free")
    keys = [Envelope(topic, ("red",)).encode() for topic in (*BRINGABLE, LAST)]
    await source.send(b"".join(Batch.under(key, [1], FLAG_TAGGED).frames for key in keys))
    return await topics_to_last(client)


async def over_a_unix_socket(guarded: Guarded) -> list[str]:
    async with connect(guarded.unix.location, name="alice", narrow=True) as client, client.subscribe("") as messages:
        await publish_all(guarded, bytes(200_000))
        return [topic async for topic in _topics(messages)]


async def _topics(messages: MessageStream) -> AsyncIterator[str]:
    async for message in messages:
        yield message.topic
        if message.topic == LAST:
            return


async def by_a_page(guarded: Guarded) -> list[str]:
    async with dial(guarded.hub, "hub.v1.json") as socket:
        await hear(socket)
        await say(socket, type="hello", name="alice", narrow=True)
        await hear(socket)
        await say(socket, type="subscribe", prefixes=[""], request=1)
        await hear(socket)
        await publish_all(guarded)
        topics: list[str] = []
        while LAST not in topics:
            topics.append((await hear(socket))["topic"])
        return topics


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


@pytest.mark.parametrize(
    "door",
    [
        by_frames,
        by_a_rule,
        over_a_unix_socket,
        by_a_page,
        by_a_program_for_zeek,
        by_a_link,
    ],
)
async def test_who_narrows_sees_what_is_granted(guarded: Guarded, door: Door) -> None:
    assert await door(guarded) == [*ALLOWED, LAST]


TEXT = (
    "subscribe '': not granted as a whole to user 'alice'; granted beneath: '/status/alice/', '/zeek/', 'zeek/event/'"
)


async def test_who_does_not_narrow_is_refused(guarded: Guarded) -> None:
    client = await guarded.hub.client(endpoint=guarded.tcp, name="alice")
    await client.send(encode_subscription(Kind.SUBSCRIBE, ["/zeek/dns", ""], 7))
    assert await client.notice() == Notice("error", request=7, code=CloseCode.NOT_ALLOWED, text=TEXT)
    await client.subscribe("/zeek/dns")
    for endpoint in (guarded.tcp, guarded.unix, guarded.web):
        async with connect(endpoint.location, name="alice") as program:
            with pytest.raises(RejectedError) as refused:
                async with program.subscribe(""):
                    pass
            assert (refused.value.code, refused.value.text) == (CloseCode.NOT_ALLOWED, TEXT)
            async with program.subscribe("/zeek/dns") as messages:
                await program.publish("/zeek/dns", 1)
                assert (await anext(messages)).value == 1
    for subprotocol in ("hub.v1.json", "hub.v1.msgpack"):
        async with dial(guarded.hub, subprotocol) as socket:
            await hear(socket)
            await say(socket, type="hello", name="alice")
            await hear(socket)
            await say(socket, type="subscribe", prefixes=[""], request=3)
            assert await hear(socket) == {"type": "error", "code": 1008, "text": TEXT, "request": 3}


async def test_a_program_for_zeek_is_refused(guarded: Guarded) -> None:
    client = await ZeekClient.connect(guarded.hub, "X-Application-Name: alice")
    await client.say(json.dumps(["/zeek/dns", ""]).encode())
    answer = await client.reply()
    assert answer["type"] == "error"
    assert answer["context"] == TEXT
    _, payload = await client.raw.frame()
    assert int.from_bytes(payload[:2]) == CloseCode.NOT_ALLOWED


async def test_what_is_taken_away_is_told(guarded: Guarded) -> None:
    text = "no longer granted to user 'alice', and taken away: subscribe '/zeek/dns'"
    told: list[RejectedError] = []
    raw = await guarded.hub.client("/zeek/dns", endpoint=guarded.tcp, name="alice")
    zeek = await ZeekClient.subscribed(guarded.hub, "/zeek/dns", lines=("X-Application-Name: alice",))
    async with (
        connect(guarded.tcp.location, name="alice", on_rejected=told.append) as client,
        client.subscribe("/zeek/dns"),
        dial(guarded.hub, "hub.v1.json") as socket,
    ):
        await hear(socket)
        await say(socket, type="hello", name="alice")
        await hear(socket)
        await say(socket, type="subscribe", prefixes=["/zeek/dns"], request=3)
        await hear(socket)
        for handler in list(guarded.core.handlers.values()):
            if handler.name == "alice":
                guarded.core.authority.give_rights(handler, POLICY.rights("bob"))
        mine = text.replace("alice", "bob")
        assert await raw.notice() == Notice("error", code=CloseCode.NOT_ALLOWED, text=mine)
        assert await hear(socket) == {"type": "error", "code": 1008, "text": mine}
        await guarded.until(lambda: [error.text for error in told] == [mine])
        _, payload = await zeek.raw.frame()
        assert int.from_bytes(payload[:2]) == CloseCode.NOT_ALLOWED
        await publish_all(guarded)
        assert await raw.ping() == []
