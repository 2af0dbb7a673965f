"""A hub inside a program: `Hub` for asyncio, `BlockingHub` for threads. See docs/embedding.md.

Settings have the defaults of docs/configuration.md, but it listens nowhere; no file or environment is read. A hub is
started once; its clients end when it stops. Clients of this process reach it over pairs of sockets.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import socket
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self, Unpack

import structlog

from hub.errors import CloseCode, RejectedError, UsageError
from hub.settings.keys import DEFAULT, ConfigError
from peers.client.blocking import BlockingClient
from peers.client.client import Connecting
from peers.client.connection import Connection
from peers.client.conversation import Conversation, Introduction
from peers.client.routes import LocalRoutes
from peers.client.settings import ClientSettings, Options
from peers.client.wire import WireConversation
from peers.daemon.daemon import Daemon
from peers.daemon.sources import Loaded, given

__all__ = ["BlockingHub", "Hub"]


class _Inside:
    """A hub of this process, as a destination of clients; `take` serves one end of a pair of sockets in its loop."""

    location = "the hub of this process"
    shares_memory = False  # both ends are in one process

    def __init__(
        self, loop: asyncio.AbstractEventLoop, take: Callable[[socket.socket], Coroutine[Any, Any, None]]
    ) -> None:
        self._loop = loop
        self._take = take
        # Set when the hub begins to stop, for good: clients that have lost their connection then end.
        self.closed = False

    def converse(self, introduction: Introduction, routes: LocalRoutes) -> Conversation:
        return WireConversation(introduction, routes)

    def is_here(self) -> bool:
        """Return whether this is the thread of the hub's loop."""
        try:
            return asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False

    async def connect(self, make: Callable[[], Connection]) -> Connection:
        """Make one connection.

        Raises:
            RejectedError: The hub has stopped.
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
        connection = make()
        try:
            await connection.adopt(here)
        except BaseException:
            here.close()
            raise
        return connection

    async def _give(self, there: socket.socket) -> None:
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
        return f"no connection to {self.location}: {error}"


def _stopped() -> RejectedError:
    return RejectedError(CloseCode.GOING_AWAY, "the hub of this process has stopped")


class Hub:
    """A hub in this process, for `async with Hub() as hub`.

    Args:
        listen: URLs to listen on, as of `hub run --listen`; none by default.
        peers: URLs of hubs and Zeeks to link with, as of `hub run --peer`.
        journal: Folder of its journal; by default nothing is recorded.
        name: A name for people, in logs and statistics.
        settings: Other keys of docs/configuration.md, nested as in `hub.toml`: `{"queue": {"messages": 1000}}`.

    Raises:
        ConfigError: A URL or setting is invalid; the text says which.
    """

    def __init__(
        self,
        listen: Sequence[str] | str = (),
        *,
        peers: Sequence[str] | str = (),
        journal: str | os.PathLike[str] = "",
        name: str = "hub",
        settings: Mapping[str, object] | None = None,
    ) -> None:
        self._loaded = _merged(listen, peers, journal, name, settings or {})
        self._daemon: Daemon | None = None  # None until `start`: the hub as it runs, also after it has stopped
        self._inside: _Inside | None = None  # None until `start`: how clients of this process reach the hub

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def listening(self) -> list[str]:
        """URLs where it listens, with the ports chosen for port 0; empty before the start."""
        return [endpoint.location for endpoint in self._daemon.endpoints] if self._daemon is not None else []

    async def start(self) -> None:
        """Open the journal, listen, and dial peers; clients may connect when this returns.

        Raises:
            ListenError: An address cannot be listened on; nothing is left open.
            TlsError: TLS towards Zeeks cannot be set up; nothing is left open.
            JournalCorruptError, JournalUnavailableError: The journal cannot be opened; nothing is left open.
            UsageError: It was started before.
        """
        if self._daemon is not None:
            raise UsageError("a hub is started once; make another one")
        _log_as_the_program_does()
        self._daemon = daemon = Daemon(self._loaded, self._loaded.settings.name)
        daemon.server.memory.count_only_charged()
        await daemon.start()
        self._inside = _Inside(asyncio.get_running_loop(), daemon.take)

    async def stop(self) -> None:
        """Stop as `hub run` does on SIGTERM: write queues, for `limits.drain_s` at most, and close with 1001.

        Clients of this process end with `RejectedError`, others reconnect. Idempotent.
        """
        if self._inside is not None and self._daemon is not None and not self._inside.closed:
            self._inside.closed = True
            await self._daemon.stop()

    def connect(self, **options: Unpack[Options]) -> Connecting:
        """Make a client of this hub, for `async with hub.connect() as client` or `await`; in any event loop.

        Args:
            options: As for `peers.client.connect`.

        Raises:
            UsageError: The hub is not started; an option is invalid.
        """
        return Connecting(self._reached(), ClientSettings(**options))

    def connect_blocking(self, **options: Unpack[Options]) -> BlockingClient:
        """Make a client for threads, as `connect`; from any thread but that of the hub's loop, which has to answer.

        Raises:
            UsageError: The hub is not started; an option is invalid; this is the thread of the hub's loop.
            RejectedError: The hub has stopped.
        """
        inside = self._reached()
        if inside.is_here():
            text = "this is the thread of the hub's loop: use `hub.connect()` here, and `connect_blocking` in others"
            raise UsageError(text)
        client = BlockingClient(inside, ClientSettings(**options))
        client.open()
        return client

    def _reached(self) -> _Inside:
        if self._inside is None:
            raise UsageError("start the hub first: `async with Hub() as hub`")
        return self._inside


def _merged(
    listen: Sequence[str] | str,
    peers: Sequence[str] | str,
    journal: str | os.PathLike[str],
    name: str,
    settings: Mapping[str, object],
) -> Loaded:
    """Merge the arguments of a hub into its settings; raises ConfigError."""
    arguments: dict[str, object] = {"name": name}
    if listen:
        arguments["listen"] = [listen] if isinstance(listen, str) else list(listen)
    if peers:
        arguments["peers"] = [peers] if isinstance(peers, str) else list(peers)
    if journal:
        arguments["journal"] = {"path": os.fspath(journal)}
    loaded = given(("settings", settings), ("argument", arguments))
    if loaded.settings.workers > 1:
        text = "a hub inside a program is in its process alone; `hub run` starts workers"
        raise ConfigError(loaded.origins["workers"], "workers", text)
    return replace(loaded, listen=()) if loaded.origins["listen"] == DEFAULT else loaded


def _log_as_the_program_does() -> None:
    """Send log lines to the standard library's logger "peers", unless the program has configured structlog."""
    if not structlog.is_configured():
        structlog.configure(
            # As text: a key such as "name" would be refused by the standard library as an attribute of its record.
            processors=[structlog.stdlib.filter_by_level, structlog.processors.KeyValueRenderer(key_order=["event"])],
            wrapper_class=structlog.stdlib.BoundLogger,
            logger_factory=structlog.stdlib.LoggerFactory(),
        )


class BlockingHub:
    """A hub in a thread of this process, for `with BlockingHub() as hub`. Arguments and errors are those of `Hub`."""

    def __init__(
        self,
        listen: Sequence[str] | str = (),
        *,
        peers: Sequence[str] | str = (),
        journal: str | os.PathLike[str] = "",
        name: str = "hub",
        settings: Mapping[str, object] | None = None,
    ) -> None:
        self._hub = Hub(listen, peers=peers, journal=journal, name=name, settings=settings)
        self._thread = threading.Thread(target=self._run, name=f"hub {name}", daemon=True)
        self._started: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._loop: asyncio.AbstractEventLoop  # Made in the thread before `start` returns:
        self._stopping: asyncio.Event

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def listening(self) -> list[str]:
        """URLs where it listens, with the ports chosen for port 0; empty before the start."""
        return self._hub.listening

    def start(self) -> None:
        """Start the thread and the hub; raises as `Hub.start`."""
        if self._thread.ident is not None:
            raise UsageError("a hub is started once; make another one")
        self._thread.start()
        try:
            self._started.result()
        except BaseException:
            self._thread.join()
            raise

    def stop(self) -> None:
        """Stop as `Hub.stop`, and end the thread; idempotent."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join()

    def connect(self, **options: Unpack[Options]) -> BlockingClient:
        """Make a client of this hub, as `Hub.connect_blocking`, for `with hub.connect() as client`; from any thread.

        Raises:
            UsageError: The hub is not started; an option is invalid.
            RejectedError: The hub has stopped.
        """
        if not self._started.done():
            raise UsageError("start the hub first: `with BlockingHub() as hub`")
        return self._hub.connect_blocking(**options)

    # In the thread.

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            if self._started.done():
                raise
            self._started.set_exception(error)  # it belongs to the thread that waits for the start

    async def _serve(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        async with self._hub:
            self._started.set_result(None)
            await self._stopping.wait()
