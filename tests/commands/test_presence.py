"""How clients come and go: who is told, what is left of them, and how the hub ends a conversation."""

from __future__ import annotations

from typing import Any

import pytest

from hub.errors import CloseCode
from hub.quotas import QuotaLimits, Resource, SetLimits
from tests.commands.conftest import Place
from tests.commands.talkers import FRAMES, except_on
from tests.garbage import leaves_nothing
from tests.hubs.eventually import eventually, settle
from tests.hubs.known_tokens import SECRET, KnownTokens

ENDS = "ends a stream of events by an event; see connections/http"


@except_on(http="is there only while it asks for something")
@pytest.mark.parametrize("way", ["goodbye", "silent goodbye", "end of the stream", "reset"])
async def test_whoever_leaves_leaves_nothing(place: Place, way: str) -> None:
    watcher = await place.client("$hub/client/")
    client = await place.client("/a", "/b", name="guest")
    await client.publish("/a", 1)
    await client.values(1)
    before = place.core.statistics()
    match way:
        case "goodbye":
            await client.goodbye(CloseCode.DONE, "had enough")
        case "silent goodbye":
            await client.goodbye(CloseCode.GOING_AWAY, "")
        case "reset":
            client.raw.reset()
        case _:
            client.raw.finish()
    (joined_topic, joined), (left_topic, left) = await watcher.values(2)
    assert (joined_topic, left_topic) == ("$hub/client/joined", "$hub/client/left")
    assert (joined["name"], joined["role"]) == ("guest", "client")
    reason = left.pop("reason")
    assert left == joined
    if "goodbye" in way:
        assert reason == {"goodbye": "had enough (1000)"}.get(way, "closed with 1001")
    elif way == "end of the stream" and place.kind in FRAMES:
        assert "closed without CLOSE" in reason
    assert reason
    after = place.core.statistics()
    assert (before.clients, after.clients) == (2, 1)
    assert after.routing.subscriptions == before.routing.subscriptions - 2
    assert place.core.prefixes.asked_of_links.minimal == ()
    client.close()
    await eventually(lambda: len(place.server.connections) == len(place.server.keepalive) == 1)


HELD: tuple[tuple[str, dict[str, Any]], ...] = (
    ("claim", {"name": "clock", "labels": ["a"], "queue": True, "request": 1}),
    ("rule", {"rules": [{"labels": ["l"], "prefix": "/a"}], "request": 2}),
    ("serve", {"prefixes": ["/s"], "request": 3}),
    ("request", {"request": 4, "topic": "/s", "value": 1, "timeout_ms": 60_000}),
    ("request", {"request": 5, "topic": "/nobody", "value": 1}),
)


async def come_and_go(place: Place) -> None:
    clients = [await place.client("/a") for _ in range(2)]
    stranger = await place.hub.raw(place.hub.endpoint)
    for client in clients:
        for command, fields in HELD if place.kind != "http" else ():
            await client.say(command, **fields)
        await client.publish("/a", 1)
        if place.kind != "http":
            await client.barrier()
    await clients[0].publish("/a", 2)
    stranger.close()
    for client in clients:
        client.close()
    await eventually(lambda: not place.server.connections)
    place.hub.connections.clear()
    await settle()


async def test_connections_that_are_over_are_freed(place: Place) -> None:
    await leaves_nothing(lambda: come_and_go(place))


@except_on(http=ENDS)
async def test_silence(place: Place) -> None:
    client = await place.client(name="me")
    for _ in range(3):
        place.hub.later(21)
        place.hub.later(5)
        assert await client.barrier() == []
    place.hub.later(21)
    place.hub.later(11)
    assert await client.end() == (CloseCode.PROTOCOL_ERROR, "no answer to the ping within 10 s")
    assert not place.core.handlers


@except_on(http=ENDS)
async def test_the_hub_stops(place: Place) -> None:
    client, silent = await place.client("/a"), await place.client()
    await silent.publish("/a", 1)
    await silent.barrier()
    place.server.draining = True
    for connection in list(place.server.connections):
        connection.drain()
    heard = [await client.hear() for _ in range(2)]
    assert [one["type"] for one in heard] == ["messages", "close"]
    assert await silent.end() == (heard[1]["code"], heard[1]["text"]) == (CloseCode.GOING_AWAY, "the hub stops")


@except_on(http="bears what it has begun to the end")
async def test_messages_before_a_goodbye_are_delivered(place: Place) -> None:
    reader, publisher = await place.client("/a"), await place.client()
    await publisher.publish("/a", 1)
    await publisher.goodbye(CloseCode.DONE, "")
    assert await reader.values(1) == [("/a", 1)]
    for _ in range(3):
        dead = await place.client("/a")
        dead.raw.reset()
        await reader.publish("/a", 2)
        assert await reader.values(1) == [("/a", 2)]


# Whoever shows a token.


async def test_whoever_is_known_and_whoever_is_not(place: Place) -> None:
    known = KnownTokens(place.hub)
    client = await place.client(token=known.token("alice"))
    await client.done("publish", topic="/a", value=1)
    if place.kind == "http":
        stranger = await place.client(token=SECRET)
        assert (await stranger.refused("publish", topic="/a", value=1))[0] == CloseCode.NOT_RECOGNISED
    else:
        stranger = await place.client(token=SECRET)
        told = stranger.welcome if "code" in stranger.welcome else await stranger.hear()
        assert (told["type"], told["code"]) == ("close", CloseCode.NOT_RECOGNISED)
        (handler,) = place.core.handlers.values()
        assert handler.rights is not None
        assert handler.rights.user.name == "alice"
    assert known.failures >= 1


@except_on(http="shows its token with each request")
async def test_a_renewal(place: Place) -> None:
    known = KnownTokens(place.hub)
    client = await place.client("/a", token=known.token("alice", seconds=15.0), name="me")
    assert 5.0 < client.welcome["until"] <= 15.0
    for token, code in (
        (known.token("bob"), CloseCode.NOT_ALLOWED),
        (SECRET, CloseCode.NOT_RECOGNISED),
        ("x" * 20_000, CloseCode.TOO_BIG),
    ):
        found, text = (
            await client.refused("token", token=token) if len(token) < 20_000 else await too_long(client, token)
        )
        assert found == code
        assert token not in text
    assert known.failures == 1
    confirmed = await client.done("token", token=known.token("alice", seconds=100.0))
    assert 90.0 < confirmed["until"] <= 100.0
    place.hub.later(16.0)
    await client.publish("/a", 1)
    assert await client.values(1) == [("/a", 1)]
    place.hub.later(19.0)
    assert await client.barrier() == []
    place.hub.later(80.0)
    code, text = await client.end()
    assert code == CloseCode.NOT_RECOGNISED
    assert "have expired" in text
    assert "new token" in text


async def too_long(client: Any, token: str) -> tuple[int, str]:
    await client.say("token", token=token, request=9)
    told = await client.hear()
    return told["code"], told["text"]


@except_on(http="shows its token with each request")
async def test_a_token_shown_to_a_hub_without_users(place: Place) -> None:
    client = await place.client()
    assert await client.done("token", token=SECRET) == {}


async def test_a_user_with_too_many_connections(place: Place) -> None:
    known = KnownTokens(place.hub)
    token = known.token("alice")
    place.core.quotas.adopt(QuotaLimits(users={"alice": SetLimits({Resource.CONNECTIONS: 1})}))
    first = await place.client("/a", token=token)
    text = "user alice has 1 connections, 1 more are too many: the limit for this user is 1"
    second = await place.client(token=token)
    if place.kind == "http":
        assert await second.refused("publish", topic="/a", value=1) == (CloseCode.TRY_AGAIN_LATER, text)
    else:
        told = second.welcome
        assert (told["type"], told["code"], told["text"]) == ("close", CloseCode.TRY_AGAIN_LATER, text)
    first.close()
    await eventually(lambda: not place.core.quotas.largest(1))
    await (await place.client(token=token)).done("publish", topic="/a", value=1)
