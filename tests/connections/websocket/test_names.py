"""Service names over WebSocket, in both encodings."""

from __future__ import annotations

from typing import Any

import pytest

from hub.errors import CloseCode
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub

NAME = "org.example.Player"


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
