"""`BlockingHub`: a hub with its own thread and event loop, for programs without one."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self, Unpack

from hub.errors import UsageError
from peers.client.blocking import BlockingClient
from peers.client.settings import Options
from peers.embedding.hub import Hub


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
        # Made in the thread before `start` returns:
        self._loop: asyncio.AbstractEventLoop
        self._stopping: asyncio.Event

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
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
        """Make a client of this hub, for `with hub.connect() as client`; from any thread.

        Args:
            options: As for `peers.client.connect`.

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
