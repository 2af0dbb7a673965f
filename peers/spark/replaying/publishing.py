"""`Publishing`: windows of an archive to a hub, each message when it is due, with a client of its own.

Values are msgpack already and are not looked into, but for one thing: what is no value of msgpack (somebody had
published it so) is left out and counted, for within a batch it would spoil its neighbours.

A lost connection ends it: how much of what was sent last the hub has read, nobody knows; the offset is told, to go on
from.

Owner: one replay, in an event loop. Cost: about 1 µs a message, 4 where each is of another topic.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hub.errors import InvalidTopicError, RejectedError
from peers.client import Client
from peers.spark.replaying.pace import Due, Pace
from peers.values.conversion import is_value

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Published", "Publishing", "StoppedError", "Watching"]

_TICK_S = 0.01
"""Messages that are due within it are sent together."""

_LOOK_S = 0.2
"""How often it is looked whether to go on, in a long pause."""

_CATCH_UP_S = 1.0
"""How far it may run after its schedule and still catch up; what is beyond was a stall, and is forgotten."""

_TOLD_MESSAGES = 10_000
"""After so many, somebody is told how far it is."""


class StoppedError(Exception):
    """It was told to end."""


class Watching(NamedTuple):
    """Who looks at it."""

    every: Callable[[], object]
    """Called now and then."""
    stop: threading.Event
    """Set when it is to end."""


@dataclass
class Published:
    """How far a replay is."""

    messages: int = 0
    bytes: int = 0
    """Of values."""
    left_out: int = 0
    """No msgpack."""
    refused: int = 0
    """Too large for the hub, or of a topic that is its own."""
    next: int = 0
    """Offset to go on from: all before it was handed to the operating system."""


class Publishing:
    """Publishes.

    Args:
        client: Of the hub.
        pace: When messages are due.
        done: Counts what was sent.
        watching: Looks at it.
    """

    def __init__(self, client: Client, pace: Pace, done: Published, watching: Watching) -> None:
        self.done = done
        self._client = client
        self._pace = pace
        self._watching = watching
        self._loop = asyncio.get_running_loop()
        self._begun_s: float | None = None

    async def publish(self, window: pa.Table) -> None:
        """Publish a window.

        Raises:
            StoppedError: It was told to end.
            PeerError: The connection is lost.
        """
        times = window["timestamp"].cast("int64").to_numpy()
        due_s = self._pace.due_s(times)
        topics = window["topic"].to_pylist()
        values = window["value"].to_pylist()
        offsets = window["offset"].to_numpy()
        start = 0
        while start < len(topics):
            end = min(await self._wait_due(due_s, start), start + _TOLD_MESSAGES)
            await self._send(topics[start:end], values[start:end])
            self.done.next = int(offsets[end - 1]) + 1
            self._watching.every()
            start = end

    async def _wait_due(self, due_s: Due, start: int) -> int:
        """Wait until the message at `start` is due; return which is the first that is not."""
        if self._begun_s is None:
            self._begun_s = self._loop.time()
        while (wait_s := self._begun_s + float(due_s[start]) - self._loop.time()) > 0:
            await asyncio.sleep(min(wait_s, _LOOK_S))
            self._look()
        self._look()
        self._begun_s += max(0.0, -wait_s - _CATCH_UP_S)
        return int(np.searchsorted(due_s, self._loop.time() - self._begun_s + _TICK_S, side="right"))

    def _look(self) -> None:
        if self._watching.stop.is_set():
            raise StoppedError

    async def _send(self, topics: list[str], values: list[bytes | None]) -> None:
        """Publish messages, and wait until the operating system has them."""
        done, client = self.done, self._client
        for topic, value in zip(topics, values, strict=True):
            if value is None or not is_value(value):
                done.left_out += 1
                continue
            try:
                await client.publish_packed(topic, value)
            except (InvalidTopicError, RejectedError):
                if client.ended:
                    raise
                done.refused += 1
            else:
                done.messages += 1
                done.bytes += len(value)
        await asyncio.sleep(0)  # a connection that is lost is noticed
        await client.drain()
