"""Labels, names and rules over WebSocket, in both encodings."""

from __future__ import annotations

import pytest

from hub.errors import CloseCode
from tests.connections.websocket.test_connection import dial, hear, say
from tests.hubs.hub import Hub

NAME = "org.example.Door"


async def test_rules_and_labels(hub: Hub, subprotocol: str) -> None:
    async with dial(hub, subprotocol) as socket:
        await hear(socket)
        await say(socket, type="rule", rules=[{"labels": ["b", "a"], "prefix": "/t"}], request=1)
        assert await hear(socket) == {"type": "confirmed", "request": 1}
        await say(socket, type="publish", topic="/t/1", value=1, labels=["c", "b", "a", "a"])
        await say(socket, type="publish", topic="/u/1", value=2, labels=["b", "a"])
        await say(socket, type="publish", topic="/t/1", values=[3, 4], labels=["a", "b"], request=2)
        heard = [await hear(socket) for _ in range(3)]
        assert sorted(heard, key=str) == sorted(
            [
                {"type": "messages", "topic": "/t/1", "labels": ["a", "b", "c"], "values": [1]},
                {"type": "messages", "topic": "/t/1", "labels": ["a", "b"], "values": [3, 4]},
                {"type": "confirmed", "request": 2},
            ],
            key=str,
        )
        await say(socket, type="unrule", rules=[{"labels": ["a", "b"], "prefix": "/t"}], request=3)
        assert await hear(socket) == {"type": "confirmed", "request": 3}
        assert len(hub.node.core.rules) == 0


async def test_names(hub: Hub, subprotocol: str) -> None:
    async with dial(hub, subprotocol) as socket, dial(hub, subprotocol) as other:
        for one in (socket, other):
            await hear(one)
        await say(socket, type="claim", name=NAME, labels=[], queue=False, request=1)
        assert (await hear(socket))["type"] == "confirmed"
        await say(other, type="rule", rules=[{"sender": NAME}], request=1)
        await hear(other)
        await say(socket, type="publish", topic="/t", value=1, sender=NAME)
        assert await hear(other) == {"type": "messages", "topic": "/t", "sender": NAME, "values": [1]}
        await say(other, type="publish", topic="/t", value=2, to=NAME)
        assert await hear(socket) == {"type": "messages", "topic": "/t", "to": NAME, "values": [2]}
        await say(other, type="publish", topic="/t", value=3, sender=NAME, request=7)
        text = f"sender '{NAME}': that name is not yours"
        assert await hear(other) == {"type": "error", "code": CloseCode.NOT_ALLOWED, "text": text, "request": 7}


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"type": "rule", "rules": [{"prefix": "/a"}]}, "a rule has a label or a sender; without them, subscribe to"),
        ({"type": "rule", "rules": [{"labels": ["a"] * 33}]}, "rule: "),
        ({"type": "rule", "rules": [{"labels": ["\n"]}]}, "label '\\n' has the control character"),
        ({"type": "rule", "rules": [["a"]]}, "rule: "),
        ({"type": "unrule", "rules": [{"labels": ["a"], "sender": "x"}]}, "name 'x' is none"),
        ({"type": "publish", "topic": "/a", "value": 1, "labels": [""]}, "a label is empty"),
        ({"type": "publish", "topic": "/a", "value": 1, "to": "x"}, "name 'x' is none"),
        ({"type": "publish", "topic": "/a", "value": 1, "labels": "a"}, "publish: "),
    ],
)
async def test_what_is_refused(hub: Hub, subprotocol: str, message: dict[str, object], text: str) -> None:
    async with dial(hub, subprotocol) as socket:
        await hear(socket)
        await say(socket, **message, request=5)
        refused = await hear(socket)
        assert (refused["type"], refused["code"], refused["request"]) == ("error", CloseCode.BAD_DATA, 5)
        assert refused["text"].startswith(text)
        await say(socket, type="ping", request=6)
        assert await hear(socket) == {"type": "pong", "request": 6}
