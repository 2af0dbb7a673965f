"""`SharingConnection`: a client's connection whose transport hands memory over: the shell of a `SharingConversation`.

Owner: the event loop. Invariants: those of `peers.client.connection`; a frame and what goes with it are written
together, in the order in which the conversation says them.
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
        """What came, and was not taken."""
        return cast("UnixTransport", self._transport).descriptors

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Introduce the client."""
        cast("SharingConversation", self.conversation).connection = self
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell those who wait."""
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
