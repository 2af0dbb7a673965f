"""`LoopThread`: the thread in which a blocking client's event loop runs, and the ways into it.

```
your threads ─ put ─▶ Mailbox ─ forward ─▶ │ loop thread: Exchange │ ─▶ hub
             ─ call, submit ─────────────▶ │                       │
```

Any thread may call what is not a coroutine; the coroutines run in the loop thread. Messages leave in the order of the
calls; `forward` moves all that was put before it was called, so that what follows it goes behind. Bound: the mailbox,
the batch taken out of it, and the client's own buffer. Cost: an append under a lock to put, about 0.1 ms for a call.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from hub.errors import BusyError, ClosedError, HubError, InternalError, RejectedError, RequestTimeoutError, UsageError
from hub.request_frame import Status
from peers.client.dial import Destination
from peers.client.exchange import Exchange
from peers.client.publications import Target
from peers.client.settings import ClientSettings
from peers.client.values import BadMessage

MAILBOX_BYTES = 1024 * 1024
"""Default limit; a running loop empties it within milliseconds."""

_ITEM_BYTES = 120
"""Cost of an item beside its payload: a pair (56), a bytes object (33), its place in a list (8), rounded up."""

_log = logging.getLogger("peers.client")

T = TypeVar("T")


class Mailbox(Generic[T]):
    """A queue of items for a loop.

    Args:
        on_mail: Called in the loop when something has come; it must lead to `take`.
        limit_bytes: Most bytes held, but for a single larger item.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, on_mail: Callable[[], object], limit_bytes: int = MAILBOX_BYTES
    ) -> None:
        self._loop = loop
        self._on_mail = on_mail
        self._limit_bytes = limit_bytes
        self._items: list[T] = []
        """Not empty: the loop was woken."""
        self._size_bytes = 0
        self._waiting = 0
        """Threads that wait in `put`."""
        self._error: Exception | None = None
        """The argument of `close`."""
        self._room = threading.Condition(threading.Lock())
        """Its lock guards all fields above."""

    def put_nowait(self, item: T, size_bytes: int) -> None:
        """Add an item; any thread may call it.

        Raises:
            BusyError: There is no room.
            Exception: The one that was given to `close`.
        """
        with self._room:
            if not self._has_room(size_bytes):
                raise BusyError(f"{self._size_bytes} bytes wait for the loop, the limit is {self._limit_bytes}")
            self._append(item, size_bytes)

    def put(self, item: T, size_bytes: int, timeout_s: float | None = None) -> None:
        """Add an item, and wait for room. Not for the loop's own thread, which makes room.

        Raises:
            BusyError: There was no room within `timeout_s`.
            Exception: The one that was given to `close`.
        """
        with self._room:
            if not self._has_room(size_bytes):
                self._waiting += 1
                try:
                    found = self._room.wait_for(lambda: self._has_room(size_bytes), timeout_s)
                finally:
                    self._waiting -= 1
                if not found:
                    raise BusyError(f"no room in the mailbox within {timeout_s} s")
            self._append(item, size_bytes)

    def take(self) -> list[T]:
        """Remove and return everything; for the loop only."""
        with self._room:
            items, self._items = self._items, []
            self._size_bytes = 0
            if self._waiting:
                self._room.notify_all()
            return items

    def close(self, error: Exception) -> None:
        """Accept nothing more: `put` raises `error`. Items can still be taken."""
        with self._room:
            self._error = error
            self._room.notify_all()

    def _has_room(self, size_bytes: int) -> bool:
        """Return whether `put` need not wait. An empty mailbox accepts any item."""
        if self._error is not None:
            return True
        return not self._items or self._size_bytes + size_bytes + _ITEM_BYTES <= self._limit_bytes

    def _append(self, item: T, size_bytes: int) -> None:
        if self._error is not None:
            raise self._error.with_traceback(None)
        if not self._items:
            try:
                self._loop.call_soon_threadsafe(self._on_mail)
            except RuntimeError as error:
                raise ClosedError("the event loop is closed") from error
        self._items.append(item)
        self._size_bytes += size_bytes + _ITEM_BYTES


class LoopThread:
    """The loop of one client, in a thread of its own."""

    def __init__(self, destination: Destination, settings: ClientSettings) -> None:
        self._destination = destination
        self._settings = settings
        self._thread = threading.Thread(target=self._run, name=f"hub client {settings.name}".rstrip(), daemon=True)
        self._ready: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._closing = threading.Lock()
        # Taken from the mailbox, and not yet by the client; only the holder of `_forwarding` takes from it.
        self._pending: deque[tuple[Target, bytes]] = deque()
        # Made in the loop thread before `open` returns:
        self.exchange: Exchange
        self.loop: asyncio.AbstractEventLoop
        self._mailbox: Mailbox[tuple[Target, bytes]]
        self._mail: asyncio.Event
        self._forwarding: asyncio.Lock
        self._stop: asyncio.Event

    # From any thread.

    def open(self) -> None:
        """Start, and make the first connection.

        Raises:
            HubError: There is none; the thread has ended.
        """
        self._thread.start()
        try:
            self._ready.result()
        except HubError:
            self._thread.join()
            raise

    def close(self) -> None:
        """Send what was put, for at most `close_timeout_s`, and end the client and the thread. May be called twice."""
        self._check_outside("close")
        with self._closing:
            if self._thread.is_alive():
                with contextlib.suppress(RuntimeError):  # the loop has ended by itself
                    self.loop.call_soon_threadsafe(self._stop.set)
                self._thread.join()

    def put(self, where: Target, packed: bytes, timeout_s: float | None) -> None:
        """Publish when there is room.

        Raises:
            BusyError: There was none within `timeout_s`.
            ClosedError, PeerError: The client is closed, or has ended with an error.
        """
        self._check_outside("publish, which waits; use publish_nowait")
        self._mailbox.put((where, packed), len(packed), timeout_s)

    def put_nowait(self, where: Target, packed: bytes) -> None:
        """Publish; raises as `put`."""
        self._mailbox.put_nowait((where, packed), len(packed))

    def call(self, work: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """Run a coroutine in the loop thread and wait for it.

        Raises:
            TimeoutError: It took longer, and was cancelled.
            ClosedError: The client is closed.
        """
        try:
            return self.submit(work, timeout_s).result()
        except concurrent.futures.CancelledError:
            raise ClosedError("the client is closed") from None

    def submit(self, work: Coroutine[Any, Any, T], timeout_s: float | None = None) -> concurrent.futures.Future[T]:
        """Run a coroutine in the loop thread; return the future of its outcome."""
        if threading.current_thread() is self._thread:
            work.close()
            self._check_outside("this")
        timed = work if timeout_s is None else _within(work, timeout_s)
        try:
            return asyncio.run_coroutine_threadsafe(timed, self.loop)
        except RuntimeError:
            timed.close()
            work.close()
            raise ClosedError("the client is closed") from None

    def report_bad(self, bad: BadMessage) -> None:
        """Report it in the loop thread."""
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self.loop.call_soon_threadsafe(self.exchange.reports.bad, bad)

    def _check_outside(self, what: str) -> None:
        if threading.current_thread() is self._thread:
            raise UsageError(f"a function called by the client cannot call {what}: it would wait for itself")

    # In the loop thread.

    async def forward(self) -> None:
        """Give the client all that was put before; raises the error with which the client has ended."""
        async with self._forwarding:
            self._mail.clear()
            pending = self._pending
            pending.extend(self._mailbox.take())
            while pending:
                try:
                    await self.exchange.publishing.put(*pending[0])
                except RejectedError as error:
                    if self.exchange.ended is not None:
                        raise
                    self.exchange.reports.reject(error, 1)  # larger than the hub takes now; the caller has gone on
                pending.popleft()

    async def forward_within(self, timeout_s: float) -> float:
        """Forward what was put before a request; return what is left of the request's time.

        Raises:
            RequestTimeoutError: Nothing is left.
            ClosedError, PeerError: As `forward`.
        """
        if (not self._pending and not self._mail.is_set()) or not timeout_s > 0:
            return timeout_s
        due_s = self.loop.time() + timeout_s
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(due_s):
                await self.forward()
        left_s = due_s - self.loop.time()
        if left_s <= 0:
            text = "what was published before could not be sent within the time that the request gives"
            raise RequestTimeoutError(Status.TIMED_OUT, text)
        return left_s

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except BaseException as error:  # noqa: BLE001 -- it belongs to the thread that waits for the connection
            if not self._ready.done():
                self._ready.set_exception(error)
            else:
                _log.exception("the loop thread of a blocking client failed")

    async def _main(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._mail, self._stop, self._forwarding = asyncio.Event(), asyncio.Event(), asyncio.Lock()
        self._mailbox = Mailbox(self.loop, self._mail.set)
        self.exchange = exchange = Exchange(self._destination, self._settings)
        await exchange.open()
        self._ready.set_result(None)
        pump = asyncio.create_task(self._pump())
        watch = asyncio.create_task(self._watch())
        await self._stop.wait()
        self._mailbox.close(ClosedError("the client is closed"))
        watch.cancel()
        if exchange.connection is not None:
            with contextlib.suppress(TimeoutError, HubError):
                async with asyncio.timeout(self._settings.close_timeout_s):
                    await self.forward()
        pump.cancel()
        self._pending.extend(self._mailbox.take())
        exchange.publishing.give_up(len(self._pending))
        await exchange.close()
        callers = asyncio.all_tasks() - {asyncio.current_task()}
        if callers:
            await asyncio.wait(callers, timeout=1.0)  # what other threads wait for is answered before the loop ends

    async def _pump(self) -> None:
        """Forward the mailbox, as fast as the client takes it."""
        try:
            while True:
                await self._mail.wait()
                await self.forward()
        except HubError as error:
            self._mailbox.close(error)
        except Exception as error:
            self._mailbox.close(InternalError(f"a bug of the client, please report it: {error!r}"))
            raise

    async def _watch(self) -> None:
        """Close the mailbox with the error with which the client ends."""
        try:
            await self.exchange.wait_closed()
        except HubError as error:
            self._mailbox.close(error)


async def _within(work: Coroutine[Any, Any, T], timeout_s: float) -> T:
    async with asyncio.timeout(timeout_s):
        return await work
