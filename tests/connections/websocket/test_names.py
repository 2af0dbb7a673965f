"""Service names over WebSocket, in both encodings."""

from __future__ import annotations

from typing import Any

import pytest

from hub.delivery import Role
from hub.errors import CloseCode
from hub.handler import Handler
from hub.names.claim import Announced
from hub.names.names import Names
from tests.hub.fakes import handler_of
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub

NAME = "org.example.Player"


@pytest.fixture(params=["hub.v1.json", "hub.v1.msgpack"])
def subprotocol(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


async def test_claim_and_release(start_hub: StartHub, subprotocol: str) -> None:
    hub = await start_hub()
    one = await hub.websocket(subprotocol=subprotocol, name="one")
    two = await hub.websocket("$hub/names/", subprotocol=subprotocol, name="two")
    await one.say("claim", name=NAME, labels=["b", "a"], request=1)
    assert await one.message() == {"type": "confirmed", "request": 1}
    appeared = {"name": NAME, "labels": ["a", "b"], "owner": hub.handler("one").id, "hub": hub.node.id.hex()}
    assert await two.message() == {"type": "messages", "topic": "$hub/names/appeared", "values": [appeared]}
    await two.say("claim", name=NAME, request=1)
    refused = await two.message()
    assert (refused["type"], refused["code"], refused["request"]) == ("error", CloseCode.NOT_ALLOWED, 1)
    assert refused["text"].startswith(f"name {NAME} is owned by client {appeared['owner']} 'one'")
    await two.say("claim", name=NAME, queue=True, request=2)
    assert await two.message() == {"type": "confirmed", "request": 2, "text": "queued"}
    await one.say("release", name=NAME)
    topics = [await two.message() for _ in range(3)]
    assert {"type": "name", "name": NAME, "standing": "owned"} in topics
    await two.say("release", name="a.b", request=3)
    assert (await two.message())["text"] == "name a.b is not claimed by this client; nobody owns it"


@pytest.mark.parametrize(
    "claim",
    [
        {"name": "player"},
        {"name": NAME, "labels": [""]},
        {"name": NAME, "labels": ["x"] * 33},
        {"name": 7},
        {"labels": []},
    ],
)
async def test_bad_names(hub: Hub, subprotocol: str, claim: dict[str, Any]) -> None:
    client = await hub.websocket(subprotocol=subprotocol)
    await client.say("claim", request=7, **claim)
    refused = await client.message()
    assert (refused["type"], refused["code"], refused["request"]) == ("error", CloseCode.BAD_DATA, 7)
    await client.say("claim", name=NAME, request=8)
    assert await client.message() == {"type": "confirmed", "request": 8}


async def test_who_does_not_read_is_told_once(hub: Hub) -> None:
    client = await hub.websocket(name="slow")
    await client.say("claim", name=NAME, request=1)
    assert await client.message() == {"type": "confirmed", "request": 1}
    names: Names = hub.node.core.names
    handler: Handler = hub.handler("slow")
    (connection,) = hub.connections
    connection.pause_writing()
    link = handler_of(role=Role.LINK)
    hub.node.core.attach(link)
    names.link(link, b"\x07" * 16, lambda *_: None)
    names.hear(link, [Announced(NAME, (), 1, 1)], [])
    connection.resume_writing()
    lost = await client.message()
    assert (lost["type"], lost["name"], lost["standing"]) == ("name", NAME, "lost")
    assert lost["text"].endswith("whose claim was earlier")
    assert handler.writable
    assert await client.barrier() == []


async def test_names_go_with_their_owner(hub: Hub) -> None:
    one = await hub.websocket(name="one")
    two = await hub.websocket()
    await one.say("claim", name=NAME)
    await one.barrier()
    await two.say("claim", name=NAME, queue=True, request=1)
    assert (await two.message())["text"] == "queued"
    one.close()
    assert await two.message() == {"type": "name", "name": NAME, "standing": "owned"}
