"""`Service`: one function that answers requests under some prefixes. Made by `Client.serve` and `serve_batches`.

```
requests ─▶ function that returns ─▶ replies, in the same turn
        └─▶ async function ─▶ a task each, `concurrency` at once; the rest waits ─▶ replies, as they are done
```

What the function returns is the reply; what it raises is the reason of a failure, and logged the first time. When the
connection is lost, what runs goes on to its end and its reply is thrown away: whoever asked knows already.

Owner: one client's `Services`, in its event loop. Bound: what waits is what the hub lets be pending. Cost: figures are
in docs/performance.md, "Requests".
"""

from __future__ import annotations

import asyncio
import logging
import warnings
from collections import deque
from collections.abc import Awaitable, Coroutine, Sequence
from inspect import CORO_CREATED, getcoroutinestate
from typing import Any, NamedTuple, Protocol, cast

from hub.errors import UsageError
from hub.topics import check_prefix
from peers.client.opened import Opened
from peers.client.replies import Replies

__all__ = ["CONCURRENCY", "Answering", "Asking", "Run", "Service", "ServiceRequest"]

CONCURRENCY = 1024
"""Default of how many calls of an async function run at once."""

_CLOSED = "the service was closed"

_log = logging.getLogger("peers.client")


class ServiceRequest(NamedTuple):
    """One request, as a service's function gets it."""

    topic: str
    """The topic, or the name of the service where it was asked by that."""
    value: Any


class Asking(NamedTuple):
    """The requests of one frame, for one service."""

    topic: str
    first: int
    """Transaction id of the first request; the others follow."""
    values: list[Any]
    """A `ValueError` stands for each that cannot be read."""


class Run(NamedTuple):
    """A call of an async function, which has to be awaited."""

    first: int
    requests: int
    answer: Awaitable[Any]
    replies: Replies

    def drop(self) -> None:
        """Close the call, which will not be awaited."""
        if isinstance(self.answer, Coroutine):
            self.answer.close()
        elif isinstance(self.answer, asyncio.Future):
            self.answer.cancel()


class Keeper(Protocol):
    """The keeper of a service: `peers.client.services.Services`."""

    async def open(self, service: Service) -> None:
        """Tell the hub that the service answers requests."""

    async def close(self, service: Service) -> None:
        """Tell the hub that it no longer does."""

    def flush_soon(self) -> None:
        """Send soon what was answered outside of a read."""


class Service(Opened):
    """A function that answers requests; use it in an `async with` statement.

    Args:
        keeper: The services of the client.
        prefixes: Prefixes of the topics whose requests it answers.
        answering: The way in which the function is called.
        concurrency: Most calls that are awaited at once.
        close_timeout_s: How long `close` waits for calls that run.
    """

    def __init__(
        self, keeper: Keeper, prefixes: Sequence[str], answering: Answering, concurrency: int, close_timeout_s: float
    ) -> None:
        # Set by `open` and `close`: a service of which neither is called answers nothing, and warns of it in the end.
        self._used = True
        if concurrency < 1:
            raise UsageError(f"concurrency is {concurrency}: give 1 or more")
        if not prefixes:
            raise UsageError("serve one prefix or more; the empty text matches everything")
        self.prefixes = tuple(dict.fromkeys(check_prefix(prefix) for prefix in prefixes))
        self.requests = 0
        """How many requests came."""
        self.failures = 0
        """How many of them were answered with a failure."""
        self._keeper = keeper
        self._answering = answering
        self._concurrency = concurrency
        self._close_timeout_s = close_timeout_s
        # Calls that wait until others have ended, as `concurrency` of them run.
        self._waiting: deque[Run] = deque()
        # Number of a call → its task; from its beginning until it has ended.
        self._running: dict[int, tuple[asyncio.Task[None], Run]] = {}
        self._last_call = 0
        # Types of errors that were logged; each is logged once.
        self._warned: set[type[BaseException]] = set()
        self._used = False

    def __del__(self) -> None:
        if not self._used:
            text = f"the service under {self.prefixes} was never opened: write `async with client.serve(...):`"
            warnings.warn(text, RuntimeWarning, stacklevel=2)

    @property
    def running(self) -> int:
        """How many calls are awaited."""
        return len(self._running)

    async def open(self) -> None:
        """Serve, and wait until the hub has confirmed. Without a connection that takes until there is one.

        Raises:
            UsageError: This client serves one of the prefixes already.
            RejectedError: The hub refuses.
            ClosedError, PeerError: The client is closed, or has ended with an error.
        """
        self._used = True
        await self._keeper.open(self)

    async def close(self) -> None:
        """Serve no longer: nothing new comes; what runs is waited for, as long as the client's `close_timeout_s`."""
        self._used = True
        await self._keeper.close(self)
        try:
            async with asyncio.timeout(self._close_timeout_s):
                while self._running:
                    await asyncio.wait([task for task, _ in self._running.values()])
        except TimeoutError:
            _log.warning("a service is closed although %d of its calls still run: they are cancelled", self.running)
        finally:
            self.cancel()

    # For the keeper.

    def receive(self, asking: Asking, replies: Replies) -> None:
        """Answer requests, or begin to."""
        self.requests += len(asking.values)
        self._answering.answer(self, asking, replies)

    def disconnected(self) -> None:
        """Drop the calls that have not begun, as the connection is lost and nobody waits for them."""
        waiting, self._waiting = self._waiting, deque()
        for run in waiting:
            run.drop()

    def cancel(self) -> None:
        """End what runs, and what waits; it is answered with a failure where there is still a connection."""
        waiting, self._waiting = self._waiting, deque()
        for run in waiting:
            run.drop()
            run.replies.fail(run.first, run.requests, _CLOSED)
        for call, (task, run) in list(self._running.items()):
            if getcoroutinestate(cast("Coroutine[Any, Any, None]", task.get_coro())) == CORO_CREATED:
                del self._running[call]  # it will not even begin
                run.drop()
                run.replies.fail(run.first, run.requests, _CLOSED)
            task.cancel()
        self._keeper.flush_soon()

    # For the ways of answering.

    def start(self, run: Run) -> None:
        """Await a call, now or when there is room."""
        if len(self._running) >= self._concurrency:
            self._waiting.append(run)
            return
        self._last_call = call = self._last_call + 1
        self._running[call] = asyncio.get_running_loop().create_task(self._await(run, call)), run

    async def _await(self, run: Run, call: int) -> None:
        try:
            result = await run.answer
        except asyncio.CancelledError:
            run.replies.fail(run.first, run.requests, _CLOSED)
            raise
        except Exception as error:  # noqa: BLE001 -- of the caller's function: whoever asked is told
            self.fail(run.first, run.requests, error, run.replies)
        else:
            self._answering.finish(self, run, result)
        finally:
            self._keeper.flush_soon()
            del self._running[call]
            if self._waiting:
                self._start_waiting()

    def _start_waiting(self) -> None:
        while self._waiting and len(self._running) < self._concurrency:
            self.start(self._waiting.popleft())

    def fail(self, first: int, count: int, error: BaseException, replies: Replies) -> None:
        """Answer requests with what the function has raised."""
        self.failures += count
        replies.fail(first, count, str(error) or type(error).__name__)
        if type(error) not in self._warned:
            self._warned.add(type(error))
            text = "the service under %s has failed (told once for each kind of error): %r"
            _log.warning(text, self.prefixes, error, exc_info=error)


class Answering(Protocol):
    """A way in which a service's function is called."""

    def answer(self, service: Service, asking: Asking, replies: Replies) -> None:
        """Answer requests, or begin to."""

    def finish(self, service: Service, run: Run, result: Any) -> None:
        """Answer with the outcome of a call that was awaited."""
