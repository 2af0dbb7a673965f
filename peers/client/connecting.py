"""`connect`: the way to a client.

```
async with connect(url) as client: ...     opens, and closes at the end
client = await connect(url)                opens; closing is up to the program
client = connect(url); client.publish(..)  AttributeError: says which of the two was meant
```
"""

from __future__ import annotations

import warnings
from collections.abc import Generator
from types import TracebackType
from typing import Any, NoReturn, Unpack

from peers.client.client import Client
from peers.client.dial import Destination, Remote
from peers.client.exchange import Exchange
from peers.client.settings import ClientSettings, Options

__all__ = ["Connecting", "connect"]


class Connecting:
    """What `connect` returns: await it for a client, or enter it for one that is closed at the end.

    Each time it is awaited or entered it makes another client.

    Args:
        destination: The hub, and the way to it.
        settings: Settings of the client.
    """

    __slots__ = ("_client", "_destination", "_settings", "_used")

    def __init__(self, destination: Destination, settings: ClientSettings) -> None:
        self._destination = destination
        self._settings = settings
        # The client that entering the `async with` has made; None before.
        self._client: Client | None = None
        # True once it was awaited or entered: otherwise its end is told as a mistake.
        self._used = False

    async def _open(self) -> Client:
        exchange = Exchange(self._destination, self._settings)
        await exchange.open()
        return Client(exchange)

    def __await__(self) -> Generator[Any, None, Client]:
        self._used = True
        return self._open().__await__()

    async def __aenter__(self) -> Client:
        self._used = True
        self._client = await self._open()
        return self._client

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._client is not None:
            await self._client.close()

    def __enter__(self) -> NoReturn:
        raise TypeError(
            "write `async with connect(...)`; without an event loop: `with peers.client.blocking.connect(...)`"
        )

    def __exit__(self, *_: object) -> None:
        """Do nothing: this is never called, as `__enter__` raises."""

    def __getattr__(self, name: str) -> NoReturn:
        text = (
            "connect(...) is no client yet: write `async with connect(...) as client:` or `client = await connect(...)`"
        )
        raise AttributeError(f"{text}, then `client.{name}`", name=name, obj=self)

    def __del__(self) -> None:
        if not self._used:
            text = f"connect({self._destination.location!r}) was neither awaited nor entered: nothing was connected"
            warnings.warn(text, RuntimeWarning, stacklevel=2)


def connect(url: str, **options: Unpack[Options]) -> Connecting:
    """Make a client of the hub at `url`, for `async with` or for `await`.

    Args:
        url: `tcp://host:port`, `tls://host:port`, `unix:///path`, `ws://host:port[/path]` or `wss://host:port[/path]`.
        options: See `Options`.

    Raises:
        InvalidEndpointError: The URL is none of a hub.
        UsageError: An option makes no sense.
        ConnectionLostError, RejectedError, ProtocolError: When awaited or entered: there is no connection. The text
            says what to do. Only the first attempt raises; a connection that is lost later is made anew.
    """
    settings = ClientSettings(**options)
    return Connecting(Remote(url, settings), settings)
