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
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from functools import partial
from inspect import CORO_CREATED, getcoroutinestate
from operator import itemgetter
from typing import Any, NamedTuple, Protocol, cast

from hub.errors import UsageError
from hub.frame import BATCH_COUNT, FLAG_BATCH
from hub.request_frame import TRANSACTIONS, Reply, Status, failure
from hub.topics import check_prefix
from peers.client.publications import BATCH_BYTES
from peers.client.stream import Opened
from peers.client.values import InvalidValueError, encode_value, encode_values
from peers.shm.ring import joined
from peers.wire.hello import FRAME_LIMIT_BYTES

__all__ = [
    "CONCURRENCY",
    "Answering",
    "Asking",
    "Batches",
    "Each",
    "Replies",
    "Run",
    "Service",
    "ServiceRequest",
]

_REPLIES_LIMIT = 4096
"""Most answers that are joined to one frame, as of values that are published."""

_HEAD_BYTES = 5 + BATCH_COUNT.size
"""How much stands in a frame before its values, bytes."""

_REASON_CHARACTERS = 4096
"""How much of a reason is told, characters."""


class Replies:
    """The answers of one client that are not sent yet."""

    __slots__ = ("_answers", "_failures", "frame_limit_bytes")

    def __init__(self) -> None:
        self.frame_limit_bytes = FRAME_LIMIT_BYTES
        # Answers of this turn: id of the first, how many, and the values back to back. `take` and `clear` empty it.
        self._answers: list[tuple[int, int, bytes]] = []
        # Failures of this turn, likewise.
        self._failures: list[Reply] = []

    def __bool__(self) -> bool:
        return bool(self._answers) or bool(self._failures)

    def put(self, first: int, values: Sequence[Any]) -> None:
        """Answer requests, whose ids follow one another from `first` on, with values.

        Raises:
            InvalidValueError: A value has no msgpack form, or is too large: nothing was answered.
        """
        packed = encode_values(values)
        if len(packed) + _HEAD_BYTES > self.frame_limit_bytes:
            if len(values) == 1:
                limit = self.frame_limit_bytes - _HEAD_BYTES
                raise InvalidValueError(f"the reply has {len(packed)} bytes, the hub takes at most {limit}")
            self._put_halves(first, values)
        else:
            self._answers.append((first, len(values), packed))

    def put_one(self, number: int, value: Any) -> None:
        """Answer one request, and raise as `put`."""
        packed = encode_value(value)
        if len(packed) + _HEAD_BYTES > self.frame_limit_bytes:
            self.put(number, [value])
        self._answers.append((number, 1, packed))

    def _put_halves(self, first: int, values: Sequence[Any]) -> None:
        before = len(self._answers)
        half = len(values) // 2
        try:
            self.put(first, values[:half])
            self.put((first + half) % TRANSACTIONS, values[half:])
        except InvalidValueError:
            del self._answers[before:]
            raise

    def fail(self, first: int, count: int, reason: str) -> None:
        """Answer requests with a failure."""
        text = reason[:_REASON_CHARACTERS].encode("utf-8", "replace").decode()
        self._failures.append(failure(first, count, Status.FAILED, text))

    def take(self) -> Iterator[Reply]:
        """Remove everything, as frames."""
        answers, self._answers = self._answers, []
        failures, self._failures = self._failures, []
        if len(answers) > 1:
            answers.sort(key=itemgetter(0))
            answers = _joined(answers, min(BATCH_BYTES, self.frame_limit_bytes - _HEAD_BYTES))
        for first, count, packed in answers:
            if count == 1:
                yield Reply(first, Status.OK, packed)
            else:
                yield Reply(first, Status.OK, BATCH_COUNT.pack(count) + packed, FLAG_BATCH)
        yield from failures

    def clear(self) -> None:
        """Forget everything: the connection that it was for is lost."""
        self._answers.clear()
        self._failures.clear()


def _joined(answers: list[tuple[int, int, bytes]], limit_bytes: int) -> list[tuple[int, int, bytes]]:
    """Join what follows one another."""
    frames: list[tuple[int, int, bytes]] = []
    parts: list[bytes] = []
    begin, following, size = answers[0][0], answers[0][0], 0
    for first, count, packed in answers:
        size += len(packed)
        if parts and (first != following or following + count - begin > _REPLIES_LIMIT or size > limit_bytes):
            frames.append((begin, following - begin, joined(parts)))
            parts, size, begin = [], len(packed), first
        parts.append(packed)
        following = first + count
    frames.append((begin, following - begin, joined(parts)))
    return frames


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


_request = partial(tuple.__new__, ServiceRequest)  # `ServiceRequest(...)` costs twice as much


class Each:
    """The way of a function that gets one request.

    Args:
        function: Gets a `ServiceRequest`, returns the reply, or something to be awaited for it.
    """

    __slots__ = ("_function",)

    def __init__(self, function: Callable[[ServiceRequest], Any]) -> None:
        self._function = function

    def answer(self, service: Service, asking: Asking, replies: Replies) -> None:
        """Call the function for each request."""
        function, topic, begun = self._function, asking.topic, 0
        answers: list[Any] = []
        for at, value in enumerate(asking.values):
            try:
                if isinstance(value, ValueError):
                    raise value  # noqa: TRY301 -- as if the function had found it
                answer = function(_request((topic, value)))
            except Exception as error:  # noqa: BLE001 -- of the caller's function: whoever asked is told
                self._put(service, asking.first + begun, answers, replies)
                answers, begun = [], at + 1
                service.fail((asking.first + at) % TRANSACTIONS, 1, error, replies)
                continue
            if hasattr(answer, "__await__"):
                if answers:
                    self._put(service, asking.first + begun, answers, replies)
                    answers = []
                begun = at + 1
                service.start(Run((asking.first + at) % TRANSACTIONS, 1, answer, replies))
            else:
                answers.append(answer)
        self._put(service, asking.first + begun, answers, replies)

    @staticmethod
    def _put(service: Service, first: int, answers: list[Any], replies: Replies) -> None:
        """Answer with what the function has returned, one by one where not all of it can be sent."""
        if not answers:
            return
        try:
            replies.put(first % TRANSACTIONS, answers)
        except InvalidValueError as error:
            if len(answers) == 1:
                service.fail(first % TRANSACTIONS, 1, error, replies)
                return
            for at, answer in enumerate(answers):
                Each._put(service, first + at, [answer], replies)

    def finish(self, service: Service, run: Run, result: Any) -> None:
        """Answer the one request of a call."""
        try:
            run.replies.put_one(run.first, result)
        except InvalidValueError as error:
            service.fail(run.first, 1, error, run.replies)


class Batches:
    """The way of a function that gets several requests at once.

    Args:
        function: Gets the values of a frame, returns the replies in their order, or something to be awaited for them.
    """

    __slots__ = ("_function",)

    def __init__(self, function: Callable[[list[Any]], Any]) -> None:
        self._function = function

    def answer(self, service: Service, asking: Asking, replies: Replies) -> None:
        """Call the function once for all requests of a frame."""
        first, count = asking.first, len(asking.values)
        try:
            bad = next((value for value in asking.values if isinstance(value, ValueError)), None)
            if bad is not None:
                raise bad  # noqa: TRY301 -- as if the function had found it
            answers = self._function(asking.values)
        except Exception as error:  # noqa: BLE001 -- of the caller's function: whoever asked is told
            service.fail(first, count, error, replies)
            return
        if hasattr(answers, "__await__"):
            service.start(Run(first, count, answers, replies))
        else:
            self.finish(service, Run(first, count, answers, replies), answers)

    def finish(self, service: Service, run: Run, result: Any) -> None:
        """Answer all requests of a call."""
        try:
            if not isinstance(result, list | tuple) or len(result) != run.requests:
                text = f"a function of {run.requests} values must return a list of as many replies"
                raise InvalidValueError(text)  # noqa: TRY301 -- as if they could not be sent
            run.replies.put(run.first, result)
        except InvalidValueError as error:
            service.fail(run.first, run.requests, error, run.replies)
