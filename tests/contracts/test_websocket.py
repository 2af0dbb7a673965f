"""Messages of docs/websocket.md, of each type, as clients and a hub exchange them: recorded word by word."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from websockets.frames import Opcode

from hub.batch import encode_value
from hub.frame import encode_frame
from peers.transport.endpoints import Endpoint
from peers.wire.kinds import Kind
from tests.cli.programs import run_hub
from tests.contracts.golden import check
from tests.hubs.raw_client import RawClient
from tests.hubs.raw_websocket import RawWebSocket, frame

DIFFERS = {"hub", "software", "journal", "epoch", "time_ms", "until", "blocks", "head"}
"""Fields whose values are others in each run. Texts of errors are for people, and no contract either."""


class Step(NamedTuple):
    who: str
    says: dict[str, Any]
    a: int = 0
    b: int = 0


def _said(type_: str, **fields: Any) -> dict[str, Any]:
    return {"type": type_} | fields


CONVERSATION = [
    Step("a", _said("hello", name="reader", queue={"messages": 100, "overflow": "drop-newest"}), a=1),
    Step("b", _said("hello", name="writer", narrow=True), b=1),
    Step("a", _said("subscribe", prefixes=["/zeek/", "/app"], request=1), a=1),
    Step("b", _said("publish", topic="/zeek/dns", value={"query": "example.org", "ttl": 300}), a=1),
    Step("b", _said("publish", topic="/app", values=[1, "two", [3.5, None, True]], request=2), a=1, b=1),
    Step("b", _said("publish", topic="/app/door", value=1, labels=["urgent", "north"], to="", request=3), a=1, b=1),
    Step("b", _said("publish", topic="/app", values=["x", "y"], confirm=True, request=4), a=1, b=1),
    Step("b", _said("publish", topic="$hub/own", value=1, request=5), b=1),
    Step("b", _said("publish", topic="/app", value=1, values=[1], request=6), b=1),
    Step("a", _said("unsubscribe", prefixes=["/zeek/", "/app"], request=2), a=1),
    Step("a", _said("rule", rules=[{"labels": ["urgent"]}, {"prefix": "/x", "sender": "org.x"}], request=3), a=1),
    Step("b", _said("publish", topic="/other", value=2, labels=["urgent"]), a=1),
    Step("a", _said("unrule", rules=[{"labels": ["urgent"]}], request=4), a=1),
    Step("a", _said("request", request=1, topic="/sum", value=[1, 2]), a=1),
    Step("b", _said("serve", prefixes=["/sum"], request=7), b=1),
    Step("a", _said("request", request=7, topic="/sum", value=[1, 2], timeout_ms=60_000), b=1),
    Step("b", _said("reply", request=0, value=3), a=1),
    Step("a", _said("request", request=8, topic="/sum", values=[[1], [2], "x"], timeout_ms=60_000), b=1),
    Step("b", _said("reply", request=1, values=[1, 2]), a=1),
    Step("b", _said("reply", request=3, status=1, text="no list", count=1), a=1),
    Step("b", _said("reply", request=99, value=1), b=1),
    Step("b", _said("unserve", prefixes=["/sum"], request=8), b=1),
    Step("a", _said("claim", name="org.example.Door", labels=["lock"], request=5), a=1),
    Step("b", _said("claim", name="org.example.Door", request=9), b=1),
    Step("b", _said("claim", name="org.example.Door", queue=True, request=10), b=1),
    Step("a", _said("release", name="org.example.Door", request=6), a=1, b=1),
    Step("a", _said("request", request=20, service="org.example.Door", value="open", timeout_ms=60_000), b=1),
    Step("b", _said("reply", request=4, value="opened"), a=1),
    Step("a", _said("token", token="hub_abc", request=7), a=1),
    Step("a", _said("ping", request=8), a=1),
    Step("a", _said("fetch", request=9, start=0, end=4, prefixes=["/app"]), a=1),
    Step("a", _said("fetch", request=10, bytes=0, journal=""), a=1),
    Step("a", _said("fetch", request=11, start=1, end=3, columns=["offset", "topic"]), a=1),
    Step("a", _said("fetch", request=12, start=1_000_000), a=1),
    Step("a", _said("subscribe", prefixes=["/a\0"], request=11), a=1),
    Step("a", _said("subscribe", prefixes="/a", request=12), a=1),
    Step("a", _said("nonsense", request=13), a=1),
    Step("a", _said("subscribe", prefixes=["/packed"]), a=0),
]
"""Types that only a hub says come as answers; `dropped` is behind it."""


class Recorder:
    def __init__(self, opcode: Opcode) -> None:
        self.lines: list[str] = []
        self._opcode = opcode
        self._encode = msgspec.json.encode if opcode is Opcode.TEXT else msgspec.msgpack.encode
        self._decode = json.loads if opcode is Opcode.TEXT else msgspec.msgpack.decode

    async def say(self, who: str, client: RawWebSocket, message: dict[str, Any]) -> None:
        payload = self._encode(message)
        self._note(f"{who} > ", payload)
        await client.send(frame(self._opcode, payload))

    async def hear(self, who: str, client: RawWebSocket) -> None:
        opcode, payload = await client.frame()
        assert opcode == self._opcode
        self._note(f"{who} < ", payload)

    def _note(self, way: str, payload: bytes) -> None:
        message = self._decode(payload)
        masked = _masked(message)
        if masked != message:
            shown = json.dumps(masked)
        else:
            shown = payload.decode() if self._opcode is Opcode.TEXT else payload.hex()
        self.lines.append(f"{len(self.lines):03} {way}{shown}")


def _masked(value: Any) -> Any:
    if isinstance(value, dict):
        differs = DIFFERS | ({"text"} if value.get("type") == "error" or value.get("status") == 2 else set())
        return {name: "..." if name in differs and inner != "" else _masked(inner) for name, inner in value.items()}
    return [_masked(inner) for inner in value] if isinstance(value, list) else value


@pytest.mark.parametrize("encoding", ["json", "msgpack"])
async def test_a_conversation(tmp_path: Path, encoding: str) -> None:
    """Every message of the clients is understood, and every message of the hub has the recorded bytes."""
    recorder = Recorder(Opcode.TEXT if encoding == "json" else Opcode.BINARY)
    with run_hub(tmp_path, "--journal", str(tmp_path / "journal"), "--name", "hub") as hub:
        clients = {who: await RawWebSocket.connect(Endpoint.parse(hub.ws)) for who in "ab"}
        for who, client in clients.items():
            await client.shake_hands(f"hub.v1.{encoding}")
            await recorder.hear(who, client)
        for step in CONVERSATION:
            await recorder.say(step.who, clients[step.who], step.says)
            for who, count in (("b", step.b), ("a", step.a)):
                for _ in range(count):
                    await recorder.hear(who, clients[who])
        await clients["a"].say("ping", request=99)
        await clients["a"].message()
        packed = await RawClient.connect(Endpoint.parse(hub.tcp))
        await packed.greet()
        values = b"\x00\x00\x00\x02" + b"\xd4\x63\x01" + encode_value("behind")  # an extension without a JSON form
        await packed.send(encode_frame(Kind.MESSAGES, values, key=b"/packed", flags=1))
        for _ in range(2 if encoding == "json" else 1):
            await recorder.hear("a", clients["a"])
        for client in (*clients.values(), packed):
            client.close()
    check(f"websocket.{encoding}.txt", recorder.lines)
