"""`Blocks`: a client's ring, made with its first block, and kept over all of its connections.

Owner: one client, in its event loop. Bound: `ring_bytes`. Not here: the circle (`peers.shm.ring`), how handles travel
(`peers.client.sharing`).
"""

from __future__ import annotations

import asyncio
import contextlib
import math

from hub.errors import BusyError, HubError
from peers.client.connection import Connection
from peers.client.conversation import Introduction
from peers.client.routes import LocalRoutes
from peers.client.settings import ClientSettings
from peers.client.sharing import SharingConversation
from peers.shm.ring import Block, Ring
from peers.wire.hello import Hello

__all__ = ["Blocks"]

_LOOK_AGAIN_S = 0.05
"""How often a client that waits for room looks again, seconds: blocks that are let go unsent make room and tell
nobody."""


class Blocks:
    """The blocks of one client.

    Args:
        settings: Settings of the client, with the sizes.
        shares: Whether memory can be handed over to the hub; if not, blocks travel as bytes.
    """

    def __init__(self, settings: ClientSettings, *, shares: bool) -> None:
        self.shares = shares
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        # The conversation of the connection that is open, or was last; None before the first one.
        self._conversation: SharingConversation | None = None
        # None until the first block is asked for, and where there is no memory for it.
        self._ring: Ring | None = None
        # Set when blocks were released; cleared before each try to allocate one.
        self._room = asyncio.Event()
        # True once `finish` was called, or there was no memory for a ring: none is made any more.
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
        """Return a block, without waiting for room.

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
        if self._closed or not self.shares:
            return None
        try:
            self._ring = Ring(self._settings.ring_bytes, self._settings.lease_s)
        except OSError:
            self._closed = True
            return None
        if self._conversation is not None:
            self._conversation.use_ring(self._ring)
        return self._ring

    # As a part of the client.

    @property
    def waiting(self) -> bool:
        """False: the hub owes nothing. What it says of blocks is read like messages."""
        return False

    def connected(self, connection: Connection, hello: Hello) -> None:
        """Do nothing: the conversation itself announces the ring."""

    def disconnected(self, *, again: bool) -> None:
        """Do nothing: the ring is kept for the next connection."""

    def finish(self, ended: HubError) -> None:  # noqa: ARG002 -- as all parts
        """Let the ring go."""
        self._closed = True
        if self._ring is not None:
            self._ring.close()
            self._ring = None
        self._room.set()
