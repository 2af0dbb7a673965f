"""`SharingConnection`: the shell around a conversation that hands memory over (`peers.client.sharing`).

Owner: one client, in its event loop. Invariant: a frame and the memory that goes with it are written together, in the
order in which the conversation says them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import cast

from peers.client.connection import Connection
from peers.client.sharing import SharingConversation
from peers.shm.descriptor import Descriptor
from peers.shm.transport import UnixTransport

__all__ = ["SharingConnection"]


class SharingConnection(Connection):
    """A connection whose transport hands memory over. Arguments are those of `Connection`."""

    @property
    def descriptors(self) -> deque[Descriptor]:
        """The descriptors that came and were not taken."""
        return cast("UnixTransport", self._transport).descriptors

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Introduce the client to the hub."""
        cast("SharingConversation", self.conversation).connection = self
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell those who wait for the connection that it is gone."""
        super().connection_lost(exc)
        cast("SharingConversation", self.conversation).forget()

    def write_outgoing(self) -> None:
        """Write what the conversation has to say, and hand over what goes with it."""
        pieces = cast("SharingConversation", self.conversation).take_pieces()
        transport = cast("UnixTransport | None", self._transport)
        if transport is None or transport.is_closing():
            return
        for frame, descriptor in pieces:
            if descriptor is None:
                transport.write(frame)
            else:
                transport.hand_over(frame, descriptor, 1)
