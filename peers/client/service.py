"""`Service`: one function that answers requests under some prefixes; `Services`: those of one client.

The return value of the function is the reply, sent in the same turn; an async function is called in a task,
`concurrency` at once. An exception is the reason of a failure, and logged the first time. Each request is answered
once, unless its connection is lost before: then running calls go on to their end, and their replies are dropped. The
hub's limit of pending requests bounds waiting calls.
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
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from hub.errors import HubError, PeerError, UsageError
from hub.messages.frame import BATCH_COUNT, FLAG_BATCH
from hub.messages.request_frame import FLAG_NAMED, TRANSACTIONS, Reply, Request, Status, failure
from hub.topics import check_prefix, printable
from peers.client.conversation import SERVICES, Change, Changes, granted
from peers.client.publications import BATCH_BYTES
from peers.client.stream import Opened
from peers.client.values import InvalidValueError, encode_value, encode_values, joined, read_values
from peers.wire.control import Notice
from peers.wire.events import ServiceChange
from peers.wire.hello import FRAME_LIMIT_BYTES, Hello

if TYPE_CHECKING:
    from peers.client.connection import Connection

_REPLIES_LIMIT = 4096  # Most answers that are joined to one frame, as of values that are published
_HEAD_BYTES = 5 + BATCH_COUNT.size  # The bytes of a frame before its values
_REASON_CHARACTERS = 4096
_TARGETS_LIMIT = 65_536  # Most topics whose service is remembered
_CLOSED = "the service was closed"

_log = logging.getLogger("peers.client")


class Replies:
    """The answers of one client that are not sent yet."""

    def __init__(self, frame_limit_bytes: int = FRAME_LIMIT_BYTES) -> None:
        self.frame_limit_bytes = frame_limit_bytes
        # Answers of this turn: id of the first, how many, and the values back to back.
        self._answers: list[tuple[int, int, bytes]] = []
        self._failures: list[Reply] = []

    def __bool__(self) -> bool:
        return bool(self._answers) or bool(self._failures)

    def put(self, first: int, values: Sequence[Any]) -> None:
        """Answer requests from the id `first` on; after `InvalidValueError` (no msgpack, or too large) none is."""
        packed = encode_values(values)
        if len(packed) + _HEAD_BYTES <= self.frame_limit_bytes:
            self._answers.append((first, len(values), packed))
            return
        if len(values) == 1:
            limit = self.frame_limit_bytes - _HEAD_BYTES
            raise InvalidValueError(f"the reply has {len(packed)} bytes, the hub accepts at most {limit}")
        before = len(self._answers)
        half = len(values) // 2
        try:
            self.put(first, values[:half])
            self.put((first + half) % TRANSACTIONS, values[half:])
        except InvalidValueError:
            del self._answers[before:]
            raise

    def put_one(self, number: int, value: Any) -> None:
        """Answer one request, and raise as `put`."""
        packed = encode_value(value)
        if len(packed) + _HEAD_BYTES > self.frame_limit_bytes:
            self.put(number, [value])
        self._answers.append((number, 1, packed))

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


def _joined(answers: list[tuple[int, int, bytes]], limit_bytes: int) -> list[tuple[int, int, bytes]]:
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


class ServiceRequest(NamedTuple):
    """One request, as a service's function gets it."""

    topic: str  # The topic, or the name of the service where it was asked by that
    value: Any


_request = partial(tuple.__new__, ServiceRequest)  # `ServiceRequest(...)` costs twice as much


class _Run(NamedTuple):
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


class Service(Opened):
    """A function that answers requests; use it in an `async with` statement. Made by `Client.serve`."""

    def __init__(  # noqa: PLR0913 -- as `Client.serve` has it
        self,
        services: Services,
        prefixes: Sequence[str] | str,
        function: Callable[[Any], Any],
        *,
        concurrency: int,
        close_timeout_s: float,
        batches: bool,
    ) -> None:
        # Set by `open` and `close`: a service of which neither is called answers nothing, and warns of it in the end.
        self._used = True
        if concurrency < 1:
            raise UsageError(f"concurrency is {concurrency}: give 1 or more")
        if not prefixes and not isinstance(prefixes, str):
            raise UsageError("serve one prefix or more; the empty text matches everything")
        several = (prefixes,) if isinstance(prefixes, str) else prefixes
        self.prefixes = tuple(dict.fromkeys(check_prefix(prefix) for prefix in several))
        self.requests = 0  # How many requests came
        self.failures = 0  # How many of them were answered with a failure
        self._services = services
        self._function = function
        self._concurrency = concurrency
        self._close_timeout_s = close_timeout_s
        self._batches = batches
        self._waiting: deque[_Run] = deque()
        self._running: dict[int, tuple[asyncio.Task[None], _Run]] = {}  # Number of a call → its task
        self._last_call = 0
        self._warned: set[type[BaseException]] = set()  # Types of errors that were logged; each is logged once
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
        await self._services.open(self)

    async def close(self) -> None:
        """Serve no longer: nothing new comes; running calls may take the client's `close_timeout_s`."""
        self._used = True
        await self._services.close(self)
        try:
            async with asyncio.timeout(self._close_timeout_s):
                while self._running:
                    await asyncio.wait([task for task, _ in self._running.values()])
        except TimeoutError:
            _log.warning("a service is closed although %d of its calls still run: they are cancelled", self.running)
        finally:
            self.cancel()

    def receive(self, topic: str, first: int, values: list[Any], replies: Replies) -> None:
        """Answer the requests of one frame; a `ValueError` stands for each value that cannot be read."""
        self.requests += len(values)
        if self._batches:
            self._answer_batch(first, values, replies)
        else:
            self._answer_each(topic, first, values, replies)

    def disconnected(self) -> None:
        """Drop the calls that have not begun: their requests ended with the connection."""
        waiting, self._waiting = self._waiting, deque()
        for run in waiting:
            run.drop()

    def cancel(self) -> None:
        """End running and waiting calls; they are answered with a failure where there is still a connection."""
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
        self._services.flush_soon()

    def _answer_each(self, topic: str, first: int, values: list[Any], replies: Replies) -> None:
        function, begun = self._function, 0
        answers: list[Any] = []
        for at, value in enumerate(values):
            try:
                if isinstance(value, ValueError):
                    raise value  # noqa: TRY301 -- as if the function had found it
                answer = function(_request((topic, value)))
            except Exception as error:  # noqa: BLE001 -- of the caller's function: it is the reply
                self._put(first + begun, answers, replies)
                answers, begun = [], at + 1
                self._fail((first + at) % TRANSACTIONS, 1, error, replies)
                continue
            if hasattr(answer, "__await__"):
                if answers:
                    self._put(first + begun, answers, replies)
                    answers = []
                begun = at + 1
                self._start(_Run((first + at) % TRANSACTIONS, 1, answer, replies))
            else:
                answers.append(answer)
        self._put(first + begun, answers, replies)

    def _put(self, first: int, answers: list[Any], replies: Replies) -> None:
        """Answer with the results of the function, one by one where not all of them can be sent."""
        if not answers:
            return
        try:
            replies.put(first % TRANSACTIONS, answers)
        except InvalidValueError as error:
            if len(answers) == 1:
                self._fail(first % TRANSACTIONS, 1, error, replies)
                return
            for at, answer in enumerate(answers):
                self._put(first + at, [answer], replies)

    def _answer_batch(self, first: int, values: list[Any], replies: Replies) -> None:
        try:
            bad = next((value for value in values if isinstance(value, ValueError)), None)
            if bad is not None:
                raise bad  # noqa: TRY301 -- as if the function had found it
            answers = self._function(values)
        except Exception as error:  # noqa: BLE001 -- of the caller's function: it is the reply
            self._fail(first, len(values), error, replies)
            return
        run = _Run(first, len(values), answers, replies)
        if hasattr(answers, "__await__"):
            self._start(run)
        else:
            self._finish(run, answers)

    def _finish(self, run: _Run, result: Any) -> None:
        try:
            if not self._batches:
                run.replies.put_one(run.first, result)
                return
            if not isinstance(result, list | tuple) or len(result) != run.requests:
                text = f"a function of {run.requests} values must return a list of as many replies"
                raise InvalidValueError(text)  # noqa: TRY301 -- as if they could not be sent
            run.replies.put(run.first, result)
        except InvalidValueError as error:
            self._fail(run.first, run.requests, error, run.replies)

    def _start(self, run: _Run) -> None:
        if len(self._running) >= self._concurrency:
            self._waiting.append(run)
            return
        self._last_call = call = self._last_call + 1
        self._running[call] = asyncio.get_running_loop().create_task(self._await(run, call)), run

    async def _await(self, run: _Run, call: int) -> None:
        try:
            result = await run.answer
        except asyncio.CancelledError:
            run.replies.fail(run.first, run.requests, _CLOSED)
            raise
        except Exception as error:  # noqa: BLE001 -- of the caller's function: it is the reply
            self._fail(run.first, run.requests, error, run.replies)
        else:
            self._finish(run, result)
        finally:
            self._services.flush_soon()
            del self._running[call]
            while self._waiting and len(self._running) < self._concurrency:
                self._start(self._waiting.popleft())

    def _fail(self, first: int, count: int, error: BaseException, replies: Replies) -> None:
        self.failures += count
        replies.fail(first, count, str(error) or type(error).__name__)
        if type(error) not in self._warned:
            self._warned.add(type(error))
            text = "the service under %s has failed (logged once for each kind of error): %r"
            _log.warning(text, self.prefixes, error, exc_info=error)


class Services:
    """The services of one client; a prefix is served by one of them."""

    def __init__(self) -> None:
        self._changes: Changes[Service] = Changes(SERVICES)
        self._loop = asyncio.get_running_loop()
        self._replies = Replies()  # Answers that were not sent yet; a new object for each connection
        # Prefix → the service that answers; until the hub has confirmed its end.
        self._services: dict[str, Service] = {}
        self._held: dict[Service, None] = {}  # Services that the hub has confirmed and that were not closed
        # Topic → prefix and service that answer it; emptied when a service comes or goes.
        self._targets: dict[bytes, tuple[str, Service | None]] = {}
        self._flush_due = False
        self.requests = 0  # How many requests came since the beginning

    @property
    def waiting(self) -> bool:
        return bool(self._changes)

    async def open(self, service: Service) -> None:
        """Serve; see `Service.open`. Cancellation: takes it back."""
        self._changes.check_open()
        for prefix in service.prefixes:
            if prefix in self._services:
                raise UsageError(f"this client serves {printable(prefix)} already; others can, over other connections")
        self._services.update(dict.fromkeys(service.prefixes, service))
        self._targets.clear()
        try:
            await granted(self._ask(service, serve=True))
        except asyncio.CancelledError:
            self._ask(service, serve=False)
            self._let_go(service)
            raise
        except HubError:
            self._let_go(service)
            raise

    async def close(self, service: Service) -> None:
        """Serve no longer, and wait until the hub sends nothing more; see `Service.close`."""
        if service not in self._held:
            return
        del self._held[service]
        try:
            if self._changes.connection is not None:
                await asyncio.wait([self._ask(service, serve=False)])
        finally:
            self._let_go(service)

    def flush_soon(self) -> None:
        """Send replies at the end of this turn of the loop."""
        if not self._flush_due:
            self._flush_due = True
            self._loop.call_soon(self._flush_now)

    def receive(self, request: Request) -> None:
        topic, service = self._targets.get(request.target) or self._find(request.target)
        values = read_values(request.flags & ~FLAG_NAMED, request.values)
        self.requests += len(values)
        if service is None:
            self._replies.fail(request.first, len(values), "this client no longer serves that")
        else:
            service.receive(topic, request.first, values, self._replies)

    def flush(self) -> None:
        """Put replies into frames; the caller writes them."""
        connection, replies = self._changes.connection, self._replies
        if replies and connection is not None:
            for reply in replies.take():
                connection.conversation.send(reply)

    def answer(self, notice: Notice) -> PeerError | None:
        """Take the hub's answer about a service; return an error if it withdraws an earlier grant."""
        taken = self._changes.take(notice)
        if taken is None:
            return None
        change, error = taken
        service = change.about
        if change.adds and error is None and self._services.get(service.prefixes[0]) is service:
            self._held[service] = None
        return error if change.again else None

    def connected(self, connection: Connection, hello: Hello) -> None:
        self._replies.frame_limit_bytes = hello.frame
        self._changes.connected(connection)
        for service in self._held:
            self._ask(service, serve=True, again=True)

    def disconnected(self) -> None:
        self._replies = Replies(self._replies.frame_limit_bytes)  # running calls answer into the old one
        self._changes.disconnected()
        for service in dict.fromkeys(self._services.values()):
            service.disconnected()

    def finish(self, ended: HubError) -> None:
        self._changes.finish(ended)
        for service in dict.fromkeys(self._services.values()):
            service.cancel()

    def _find(self, target: bytes) -> tuple[str, Service | None]:
        topic = target.decode("utf-8", "replace")
        # The longest prefix wins, as in the hub.
        found = max((prefix for prefix in self._services if topic.startswith(prefix)), key=len, default=None)
        if len(self._targets) >= _TARGETS_LIMIT:
            self._targets.clear()
        place = self._targets[target] = (topic, None if found is None else self._services[found])
        return place

    def _let_go(self, service: Service) -> None:
        for prefix in service.prefixes:
            if self._services.get(prefix) is service:
                del self._services[prefix]
        self._held.pop(service, None)
        self._targets.clear()

        def is_over(change: Change[Service]) -> bool:
            return change.about is service and change.adds

        self._changes.drop(is_over)

    def _ask(self, service: Service, *, serve: bool, again: bool = False) -> asyncio.Future[HubError | None]:
        prefixes = list(service.prefixes)
        return self._changes.ask(
            service, lambda number: ServiceChange(serve, prefixes, number), adds=serve, again=again
        )

    def _flush_now(self) -> None:
        self._flush_due = False
        self.flush()
        if self._changes.connection is not None:
            self._changes.connection.write_outgoing()
