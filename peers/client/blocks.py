"""`Blocks`: a client's ring, made with its first block, and kept over all of its connections.

Owner: one client, in its event loop. Bound: `ring_bytes`. Not here: the circle (`peers.shm.ring`), how handles travel
(`peers.client.sharing`).
"""

from __future__ import annotations

import asyncio
import contextlib
import math

from hub.errors import BusyError
from peers.client.conversation import Introduction
from peers.client.routes import LocalRoutes
from peers.client.settings import ClientSettings
from peers.client.sharing import SharingConversation
from peers.shm.ring import Block, Ring

__all__ = ["Blocks"]

_LOOK_AGAIN_S = 0.05
"""Blocks that are let go without having been sent make room, too, and tell nobody."""


class Blocks:
    """The blocks of one client.

    Args:
        settings: With the sizes.
    """

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._conversation: SharingConversation | None = None
        self._ring: Ring | None = None
        self._room = asyncio.Event()
        self._closed = False

    def converse(self, introduction: Introduction, routes: LocalRoutes) -> SharingConversation:
        """Make the conversation of the next connection."""
        if self._ring is not None:  # what was sent over the last one nobody will release
            self._ring.released(self._ring.generation)
        self._conversation = SharingConversation(
            introduction, routes, self._ring, self._room.set, views=self._settings.views
        )
        return self._conversation

    def allocate_nowait(self, size_bytes: int) -> Block:
        """Return a block.

        Raises:
            BusyError: There is no room now.
            UsageError: There never will be.
        """
        ring = self._ring or self._open()
        if ring is None:
            return Block.alone(size_bytes)
        return ring.allocate(size_bytes, self._loop.time())

    async def allocate(self, size_bytes: int) -> Block:
        """Return a block when there is room; raises `UsageError` as `allocate_nowait`."""
        while True:
            self._room.clear()
            try:
                return self.allocate_nowait(size_bytes)
            except BusyError:
                await self._wait_room()

    async def _wait_room(self) -> None:
        due_s = self._ring.due_s() - self._loop.time() if self._ring is not None else math.inf
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, min(due_s, _LOOK_AGAIN_S))):
                await self._room.wait()

    def _open(self) -> Ring | None:
        """Make the ring; without memory or descriptors for it, blocks travel as bytes."""
        if self._closed:
            return None
        try:
            self._ring = Ring(self._settings.ring_bytes, self._settings.lease_s)
        except OSError:
            self._closed = True
            return None
        if self._conversation is not None:
            self._conversation.use_ring(self._ring)
        return self._ring

    def close(self) -> None:
        """The client has ended."""
        self._closed = True
        if self._ring is not None:
            self._ring.close()
            self._ring = None
        self._room.set()
