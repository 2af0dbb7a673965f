"""Clients of Zeek's API over sockets of their own, and a subscriber within the hub that writes down what it gets."""

from __future__ import annotations

import json
from typing import Any

from websockets.frames import Opcode

from hub.handlers.delivery import Role
from hub.handlers.handler import Handler
from hub.limits import QueueLimits
from hub.messages.batch import Batch
from hub.messages.frame import Frame
from peers.websocket.zeek_codec import PATH
from tests.hubs.hub import Hub
from tests.hubs.raw_websocket import RawWebSocket, frame, upgrade
from tests.websocket.zeek.messages import count

MARK = b"everything before this"


class Watcher:
    def __init__(self, hub: Hub, prefix: str) -> None:
        self.frames: list[Frame] = []
        core = hub.server.core
        self.handler = Handler(self, role=Role.LOCAL, limits=QueueLimits())
        core.attach(self.handler)
        core.subscribe(self.handler, [prefix])

    def send(self, batches: list[Batch]) -> None:
        self.frames += [part for batch in batches for part in batch.parts()]

    def send_gap(self, lost_messages: int) -> None:
        raise AssertionError(lost_messages)

    def close(self, code: int, text: str) -> None:
        raise AssertionError(code, text)


class ZeekClient:
    def __init__(self, raw: RawWebSocket) -> None:
        self.raw = raw
        self.head = b""

    @classmethod
    async def connect(cls, hub: Hub, *lines: str, receive_bytes: int | None = None) -> ZeekClient:
        client = cls(await hub.raw_websocket(receive_bytes=receive_bytes))
        await client.shake_hands(upgrade("", *lines, path=PATH))
        return client

    @classmethod
    async def subscribed(cls, hub: Hub, *prefixes: str, lines: tuple[str, ...] = (), **options: Any) -> ZeekClient:
        client = await cls.connect(hub, *lines, **options)
        await client.say(json.dumps(prefixes).encode())
        assert (await client.reply())["type"] == "ack"
        return client

    async def shake_hands(self, request: bytes) -> None:
        await self.raw.send(request)
        self.head = await self.raw.head()
        assert self.head.startswith(b"HTTP/1.1 101 "), self.head

    async def say(self, *texts: bytes) -> None:
        await self.raw.send(*(frame(Opcode.TEXT, text) for text in texts))

    async def publish(self, topic: str, *counts: int) -> None:
        await self.say(*(count(topic, number) for number in counts))

    async def text(self) -> bytes:
        opcode, payload = await self.raw.frame()
        assert opcode == Opcode.TEXT, (opcode, payload)
        return payload

    async def reply(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(await self.text())
        return found

    async def settle(self) -> list[tuple[int, bytes]]:
        await self.raw.send(frame(Opcode.PING, MARK))
        found = []
        while (got := await self.raw.frame()) != (Opcode.PONG, MARK):
            found.append(got)
        return found
