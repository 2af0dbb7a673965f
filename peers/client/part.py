"""`Part`: one of the things that a client and its hub talk about, as the connection's life goes on.

```
            ┌──── lost, and made again ────┐
connected ──┴─▶ disconnected(again=True) ──┘        disconnected(again=False) ─▶ finish
                                                    close(), in any state ─────▶ finish
```

A client is a list of parts (`peers.client.exchange`): subscriptions, journal, services, names, publishing, requests,
blocks and the streams that begin in the journal. Each keeps its own state, and is told of the connection in the order
of that list. Not here: how what the hub says finds its part.
"""

from __future__ import annotations

from typing import Protocol

from hub.errors import HubError
from peers.client.connection import Connection
from peers.wire.hello import Hello

__all__ = ["Part"]


class Part(Protocol):
    """One part of a client."""

    @property
    def waiting(self) -> bool:
        """Whether the hub owes it an answer: then the connection must be read, even while a stream is full."""

    def connected(self, connection: Connection, hello: Hello) -> None:
        """Say over a new connection, perhaps to another hub than before, what still holds.

        Args:
            connection: It is open, and in use until `disconnected` or `finish`.
            hello: What the hub says of itself.
        """

    def disconnected(self, *, again: bool) -> None:
        """Take note that the connection is lost.

        Args:
            again: Whether another will be made; if not, `finish` follows at once.
        """

    def finish(self, ended: HubError) -> None:
        """Tell everybody who waits that the client does nothing more, and why. Called once.

        Args:
            ended: `ClosedError` where the program has closed the client, else why it has ended.
        """
