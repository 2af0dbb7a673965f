"""`Inside`: how clients of this process reach the hub that runs in it: over a pair of connected sockets.

```
client, in its loop ── Connection ── socket ═══ socket ── the hub's connection, in the hub's loop
                                        socketpair()
```

The hub takes its end as it takes what a listener accepts. So a client in the process is one like any other: with a
queue, an overflow policy, requests, names, the journal, and limits that are counted; and it may belong to another loop
in another thread. Nothing of a hub is written twice for that, and no port or path is opened that others could find.

Owner: one hub. Cost: two descriptors a client, and the system calls of a Unix socket; docs/embedding.md has figures.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Any

from hub.errors import CloseCode, RejectedError
from peers.client.connection import Connection
from peers.client.conversation import Conversation, Introduction
from peers.client.dial import adopt
from peers.client.routes import LocalRoutes
from peers.client.wire import WireConversation

__all__ = ["Inside"]


class Inside:
    """A hub of this process, as a destination of clients.

    Args:
        loop: The loop of the hub.
        take: A function that serves one end of a pair of sockets, in that loop.
    """

    __slots__ = ("_loop", "_take", "closed")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, take: Callable[[socket.socket], Coroutine[Any, Any, None]]
    ) -> None:
        self._loop = loop
        self._take = take
        # Set when the hub begins to stop, for good: clients that have lost their connection then end.
        self.closed = False

    @property
    def location(self) -> str:
        """The text that names this destination for people."""
        return "the hub of this process"

    @property
    def shares_memory(self) -> bool:
        """False: both ends have the same memory already, and what is allocated travels as bytes."""
        return False

    def converse(self, introduction: Introduction, routes: LocalRoutes) -> Conversation:
        """Begin a conversation in the hub's own protocol."""
        return WireConversation(introduction, routes)

    def is_here(self) -> bool:
        """Return whether this is the thread in which the hub's loop runs."""
        try:
            return asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False

    async def connect(self, make: Callable[[], Connection]) -> Connection:
        """Make one connection.

        Raises:
            RejectedError: The hub has stopped: there is no use in trying again.
            OSError: There are no descriptors left.
        """
        if self.closed:
            raise _stopped()
        here, there = socket.socketpair()
        try:
            here.setblocking(False)
            there.setblocking(False)
            await self._give(there)
        except BaseException:
            here.close()
            there.close()
            raise
        return await adopt(here, make)

    async def _give(self, there: socket.socket) -> None:
        """Have the hub take its end, in its loop."""
        taking = self._take(there)
        if self.is_here():
            await taking
            return
        try:
            taken = asyncio.run_coroutine_threadsafe(taking, self._loop)
        except RuntimeError:  # its loop is closed
            taking.close()
            raise _stopped() from None
        await asyncio.wrap_future(taken)

    def advice(self, error: OSError) -> str:
        """Say what has happened, and what may help."""
        return f"no connection to {self.location}: {error}"


def _stopped() -> RejectedError:
    return RejectedError(CloseCode.GOING_AWAY, "the hub of this process has stopped")
