"""What a client has told a test, and a publisher that floods a hub."""

from __future__ import annotations

import asyncio
from typing import Any

from hub.errors import PeerError
from peers.client import BadMessage, Client, Hello, connect
from peers.client.client import Connecting
from peers.transport.backoff import Backoff

PAYLOAD = b"x" * 1000


def quick_backoff() -> Backoff:
    return Backoff(base_s=0.001, cap_s=0.01)


class Told:
    def __init__(self) -> None:
        self.connected: asyncio.Queue[Hello] = asyncio.Queue()
        self.disconnected: asyncio.Queue[str] = asyncio.Queue()
        self.dropped: asyncio.Queue[int] = asyncio.Queue()
        self.rejected: asyncio.Queue[PeerError] = asyncio.Queue()
        self.bad: asyncio.Queue[BadMessage] = asyncio.Queue()

    def connect(self, url: str, **options: Any) -> Connecting:
        defaults = {
            "backoff": quick_backoff(),
            "on_connect": self.connected.put_nowait,
            "on_disconnect": self.disconnected.put_nowait,
            "on_dropped": self.dropped.put_nowait,
            "on_rejected": self.rejected.put_nowait,
            "on_bad_message": self.bad.put_nowait,
        }
        return connect(url, **(defaults | options))  # type: ignore[arg-type]


async def flood(client: Client, topic: str, numbers: range) -> None:
    for number in numbers:
        await client.publish(topic, [number, PAYLOAD])
    await client.drain()
