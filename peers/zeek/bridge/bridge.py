"""`ZeekBridge`: keep a connection to one Zeek's WebSocket API, forever.

Connect, wait until the connection is lost, wait for a while with jitter, and again. What goes wrong is logged once per
different reason, not once per attempt. Where the connection ended because the hub wants other topics by now, the next
one follows at once.

Towards the hub the Zeek's events are published as they come. Towards the Zeek goes what is published on this hub, also
by its peers, under the prefixes that the endpoint lists in `publish`; nothing, if it lists none.

Owner of the state: its task, made by the daemon.
"""

from __future__ import annotations

import asyncio

from hub.overflow import QueueLimits
from hub.topics import check_prefix
from peers.backoff import Backoff
from peers.endpoints import Endpoint
from peers.node import Node
from peers.zeek.bridge.connection import BridgeConnection

__all__ = ["CONNECT_TIMEOUT_S", "ZeekBridge"]

CONNECT_TIMEOUT_S = 5.0


class ZeekBridge:
    """Keeps one connection up.

    Args:
        node: The hub.
        endpoint: Where the Zeek listens; its `publish` names the prefixes of what is sent there.
        queue: For what waits to be sent there.
        backoff: How long to wait between attempts.

    Raises:
        InvalidTopicError: One of those is no prefix.
    """

    __slots__ = ("_backoff", "_endpoint", "_last_reason", "_node", "_publish", "_queue", "attempts")

    def __init__(self, node: Node, endpoint: Endpoint, queue: QueueLimits, backoff: Backoff | None = None) -> None:
        self._node = node
        self._endpoint = endpoint
        self._queue = queue
        self._publish = tuple(check_prefix(prefix) for prefix in endpoint.publish)
        self._backoff = backoff or Backoff()
        self._last_reason = ""
        self.attempts = 0

    async def run(self) -> None:
        """Dial until cancelled."""
        while True:
            self.attempts += 1
            connection = await self._attempt()
            if connection.is_renewed:
                continue
            if connection.is_acknowledged:
                self._backoff.reset()
                self._last_reason = ""
            if connection.reason != self._last_reason:
                self._node.log.warning("no link to zeek", zeek=self._endpoint.location, reason=connection.reason)
                self._last_reason = connection.reason
            await asyncio.sleep(self._backoff.next_s())

    async def _attempt(self) -> BridgeConnection:
        """Connect once and stay until the connection is lost; its `reason` says why it is not up."""
        connection = BridgeConnection(self._node, self._queue, self._endpoint, self._publish)
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await self._node.loop.create_connection(lambda: connection, self._endpoint.host, self._endpoint.port)
        except TimeoutError:
            connection.abandon()
            connection.reason = f"no connection within {CONNECT_TIMEOUT_S:g} s"
            return connection
        except OSError as error:
            connection.reason = error.strerror or str(error)
            return connection
        except UnicodeError as error:  # a name that no resolver takes
            connection.reason = str(error)
            return connection
        except asyncio.CancelledError:
            connection.abandon()
            raise
        try:
            await connection.lost
        finally:
            if not self._node.draining:  # then the daemon lets it write out what is queued
                connection.abort()
        return connection
