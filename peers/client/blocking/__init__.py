"""Clients for threads: the asyncio client in a thread of its own, for programs without an event loop.

```
your threads ─ publish ─▶ mailbox ─▶ │ loop thread │ ─▶ Client ─▶ hub
             ◀─ batch ─ one call ─── │             │ ◀─
```

Any thread may call. Functions given to the client (`on_dropped`, `subscribe_callback`, `serve` ...) are called in the
loop thread: they must be quick, and may call only `publish_nowait` of the client.

Cost, measured in docs/clients.md: publishing packs the value in the calling thread and appends it to a list under a
lock; the loop is woken once for many. Reading crosses threads once per batch (about 0.1 ms each time).
"""

from __future__ import annotations

from typing import Unpack

from peers.client.blocking.client import BlockingClient
from peers.client.blocking.faces import (
    BlockingConsumedMessage,
    BlockingConsumerStream,
    BlockingHistory,
    BlockingService,
    BlockingServiceName,
    BlockingStore,
    BlockingStoreReplica,
    BlockingStoreWatch,
    BlockingStream,
    BlockingSubscription,
    BlockingWriter,
)
from peers.client.exchange import Remote
from peers.client.settings import ClientSettings, Options

__all__ = [
    "BlockingClient",
    "BlockingConsumedMessage",
    "BlockingConsumerStream",
    "BlockingHistory",
    "BlockingService",
    "BlockingServiceName",
    "BlockingStore",
    "BlockingStoreReplica",
    "BlockingStoreWatch",
    "BlockingStream",
    "BlockingSubscription",
    "BlockingWriter",
    "connect",
]


def connect(url: str, **options: Unpack[Options]) -> BlockingClient:
    """Make a client of the hub at `url`, for `with`, or to be closed with `close`.

    Args:
        url: `tcp://host:port`, `tls://host:port`, `unix:///path`, `ws://host:port[/path]` or `wss://host:port[/path]`.
        options: See `Options`.

    Raises:
        InvalidEndpointError, UsageError: The URL is none of a hub, or an option makes no sense.
        ConnectionLostError, RejectedError, ProtocolError: There is no connection. The text says what to do.
    """
    settings = ClientSettings(**options)
    client = BlockingClient(Remote(url, settings), settings)
    client.open()
    return client
