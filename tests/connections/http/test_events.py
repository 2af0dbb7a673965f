"""GET /v1/events without a journal: what a stream tells, what a slow reader loses, and how it ends."""

from __future__ import annotations

import pytest

from hub.errors import CloseCode
from hub.policy.language import read_policy
from hub.quotas.quotas import QuotaLimits, SetLimits
from hub.quotas.resource import Resource
from hub.settings.settings import Settings
from peers.daemon.reviewing import review
from peers.users.tokens import Tokens
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub
from tests.hubs.known_tokens import KnownTokens
from tests.hubs.raw_http import Event, RawHttp, follow, http
from tests.hubs.raw_websocket import flood
from tests.hubs.settings import settings_of

HELD = 50


async def test_messages_are_events(hub: Hub) -> None:
    client = await follow(hub, "prefix=/a&prefix=/b")
    publisher = await hub.websocket()
    await publisher.publish("/a/x", 1, [2])
    await publisher.publish("/c", 3)
    await publisher.say("publish", topic="/b", value={"q": "\u00e9\n"}, labels=["l"])
    assert await client.event() == Event("message", {"topic": "/a/x", "value": 1})
    assert await client.event() == Event("message", {"topic": "/a/x", "value": [2]})
    assert await client.event() == Event("message", {"topic": "/b", "labels": ["l"], "value": {"q": "\u00e9\n"}})


async def test_values_without_a_form_are_told(hub: Hub) -> None:
    client = await follow(hub, "prefix=/a")
    publisher = await hub.client(endpoint=await hub.listen())
    await publisher.publish("/a", 1)
    await publisher.send(b"\x00\x00\x00\x01\x02\x00\x00\x02/a\xc1")
    await publisher.publish("/a", 2)
    found = [await client.event() for _ in range(3)]
    assert [event.value for event in found] == [
        {"topic": "/a", "value": 1},
        {"count": 1},
        {"topic": "/a", "value": 2},
    ]
    assert found[1].name == "dropped"


async def test_publishing_and_following_over_one_connection(hub: Hub) -> None:
    client = await http(hub)
    await client.publish("/a", 1)
    await client.send(b"GET /v1/events?prefix=/a HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert (await client.head())[0] == 200
    await (await http(hub)).publish("/a", 2)
    assert await client.values(1) == [2]
    assert len(hub.node.core.handlers) == 2


@pytest.mark.parametrize(
    ("query", "status", "text"),
    [
        ("", 400, "prefix="),
        ("prefix=%00", 400, "prefix"),
        ("prefix=/a&from=1", 403, "no journal"),
        ("prefix=/a&from=x", 400, "no offset"),
        ("prefix=/a&overflow=some", 400, "queue"),
        ("&".join(f"prefix=/{number}" for number in range(11)), 403, "10"),
    ],
)
async def test_no_stream(start_hub: StartHub, query: str, status: int, text: str) -> None:
    hub = await start_hub(settings=settings_of(prefixes_per_client=10))
    client = await http(hub)
    answer = await client.ask("GET", f"/v1/events?{query}")
    assert answer.status == status
    assert text in answer.value["error"]["text"]


# Who does not read.


async def stalled(hub: Hub, query: str) -> RawHttp:
    client = await follow(hub, f"prefix=/flood&name=stalled&{query}", receive_bytes=4096)
    hub.shrink_buffers()
    return client


async def told(client: RawHttp, total: int) -> list[int | Event]:
    found: list[int | Event] = []
    counted = 0
    while counted < total:
        event = await client.event()
        if event.name == "message":
            assert event.value["value"][0] == counted
            found.append(counted)
            counted += 1
        else:
            found.append(event)
            counted += event.value.get("count", total)
    return found


async def test_the_newest_stay(hub: Hub) -> None:
    client = await stalled(hub, f"overflow=drop-oldest&messages={HELD}")
    handler = hub.handler("stalled")
    total = await flood(await hub.websocket(), handler, 150)
    lost = handler.dropped_messages
    found = await told(client, total)
    assert lost > 0
    assert found[-HELD - 1] == Event("dropped", {"count": lost})
    assert found[-HELD:] == list(range(total - HELD, total))


async def test_disconnect(hub: Hub) -> None:
    client = await stalled(hub, f"overflow=disconnect&messages={HELD}")
    handler = hub.handler("stalled")
    await flood(await hub.websocket(), handler, 150)
    *_, last = await told(client, 10**6)
    assert isinstance(last, Event)
    assert (last.name, last.value["code"]) == ("closed", CloseCode.OVERFLOW)
    assert last.value["text"].startswith(f"queue full ({HELD} messages, ")


async def test_who_is_there_and_who_is_not(hub: Hub) -> None:
    reads, stops = await follow(hub, "prefix=/a&name=reads"), await stalled(hub, "overflow=drop-oldest&messages=10")
    await flood(await hub.websocket(), hub.handler("stalled"), 20)
    for _ in range(4):
        hub.later(21)
        hub.later(9)
        hub.later(2)
    assert not any(one.name == "stalled" for one in hub.node.core.handlers.values())
    assert any(one.name == "reads" for one in hub.node.core.handlers.values())
    while b":\n\n" not in reads._buffer:
        await reads.read()
    stops.close()


# Ends.


async def test_the_hub_stops(hub: Hub) -> None:
    client = await follow(hub, "prefix=/a")
    await (await http(hub)).publish("/a", 1)
    for connection in list(hub.node.connections):
        connection.drain()  # type: ignore[attr-defined]
    assert await client.values(1) == [1]
    assert (await client.event()).value["code"] == CloseCode.GOING_AWAY
    assert await client.ends() == b""


async def test_a_token_that_ends(hub: Hub) -> None:
    known = KnownTokens(hub)
    token = known.token("alice", seconds=30)
    client = await follow(hub, "prefix=/a", f"Authorization: Bearer {token}")
    assert next(iter(hub.node.core.handlers.values())).rights is not None
    hub.later(31)
    last = await client.event()
    assert (last.name, last.value["code"]) == ("closed", CloseCode.NOT_RECOGNISED)


async def test_a_right_that_is_taken(hub: Hub) -> None:
    known = KnownTokens(hub)
    client = await follow(hub, "prefix=/a&name=alice", f"Authorization: Bearer {known.token('alice')}")
    policy = read_policy({"users": {"alice": ["writer"]}, "roles": {"writer": {"publish": ["/b"]}}}, "test")
    hub.node.access.adopt(known._users._replace(policy=policy, tokens=Tokens(dict(known._tokens))))
    hub.node.core.authority.adopt(policy)
    await review(hub.node, was_open=False)
    last = await client.event()
    assert (last.name, last.value["code"]) == ("closed", CloseCode.NOT_ALLOWED)


async def test_a_user_with_too_many_connections(hub: Hub) -> None:
    known = KnownTokens(hub)
    token = f"Authorization: Bearer {known.token('alice')}"
    hub.node.core.quotas.adopt(QuotaLimits(users={"alice": SetLimits({Resource.CONNECTIONS: 1})}))
    await follow(hub, "prefix=/a", token)
    answer = await (await http(hub)).publish("/a", 1, token)
    assert (answer.status, answer.value["error"]["code"]) == (503, CloseCode.TRY_AGAIN_LATER)


async def test_rights(hub: Hub) -> None:
    known = KnownTokens(hub)
    client = await http(hub)
    answer = await client.ask("GET", "/v1/events?prefix=/a", f"Authorization: Bearer {known.token('watcher')}")
    assert (answer.status, answer.value["error"]["code"]) == (403, CloseCode.NOT_ALLOWED)


async def test_no_room(start_hub: StartHub) -> None:
    hub = await start_hub(settings=settings_of(connections=1))
    await follow(hub, "prefix=/a")
    client = await http(hub)
    answer = await client.publish("/a", 1)
    assert (answer.status, answer.headers["Retry-After"]) == (503, "1")


async def test_a_unix_socket(start_hub: StartHub, tmp_path: object) -> None:
    hub = await start_hub(f"unix://{tmp_path}/hub.sock", settings=Settings())
    client = await follow(hub, "prefix=/a")
    await (await hub.client()).publish("/a", 1)
    assert await client.values(1) == [1]
