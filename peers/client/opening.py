"""`connect`: the way to a client."""

from __future__ import annotations

from collections.abc import Generator
from types import TracebackType
from typing import Any, Unpack

from peers.client.client import Client
from peers.client.settings import ClientSettings, Options
from peers.endpoints import Endpoint

__all__ = ["Connecting", "connect"]


class Connecting:
    """What `connect` returns: await it for a client, or enter it for one that is closed at the end."""

    __slots__ = ("_client", "_endpoint", "_settings")

    def __init__(self, endpoint: Endpoint, settings: ClientSettings) -> None:
        self._endpoint = endpoint
        self._settings = settings
        self._client: Client | None = None

    async def _open(self) -> Client:
        client = Client(self._endpoint, self._settings)
        await client.open()
        return client

    def __await__(self) -> Generator[Any, None, Client]:
        return self._open().__await__()

    async def __aenter__(self) -> Client:
        self._client = await self._open()
        return self._client

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._client is not None:
            await self._client.close()


def connect(url: str, **options: Unpack[Options]) -> Connecting:
    """Make a client of the hub at `url`, for `async with` or for `await`.

    Args:
        url: `tcp://host:port`, `unix:///path` or `ws://host:port[/path]`.
        options: See `Options`.

    Raises:
        InvalidEndpointError: The URL is none of a hub.
        UsageError: An option makes no sense.
        ConnectionLostError, RejectedError, ProtocolError: When awaited or entered: there is no connection. The text
            says what to do. Only the first attempt raises; a connection that is lost later is made anew.
    """
    return Connecting(Endpoint.parse_remote(url), ClientSettings(**options))
