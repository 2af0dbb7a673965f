"""`Requests`: the requests of a client to services, and the answers.

The requests of one turn to the same target leave as one frame. Requests without a connection wait for the next one, as
long as their time allows; from then on the hub keeps the time. Requests that were sent when the connection is lost end
with `ConnectionLostError` and are not repeated: they may have been carried out.
"""

from __future__ import annotations

import asyncio
import math
from asyncio import Future
from bisect import bisect_right, insort
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from hub.errors import (
    BusyError,
    ConnectionLostError,
    HubError,
    NoResponderError,
    NotAllowedError,
    RequestError,
    RequestFailedError,
    RequestOverflowError,
    RequestTimeoutError,
    RequestTooBigError,
    ResponderGoneError,
    UsageError,
)
from hub.messages.frame import BATCH_COUNT, BATCH_LIMIT_MESSAGES, FLAG_BATCH
from hub.messages.request_frame import FLAG_NAMED, TRANSACTIONS, Reply, Request, Status
from hub.names.claim import check_name
from hub.topics import check_topic
from peers.client.connection import Connection
from peers.client.conversation import ABNORMAL, Refusal, wake
from peers.client.publications import BATCH_BYTES
from peers.client.values import encode_values, joined, read_values
from peers.wire.control import reason_of
from peers.wire.hello import FRAME_LIMIT_BYTES, Hello

TIMEOUT_S = 30.0  # The default, as a hub's
TIMEOUT_LIMIT_S = 3600.0  # Longest time that a hub waits for an answer, seconds
OVERDUE_S = 10.0
"""How long after its time an answer counts as lost, seconds: a slow hub is waited for, a forgetful one is not."""

_BATCH_VALUES = 4096  # Most requests in a frame, as of values that are published
_MANY_BYTES = 1024 * 1024  # Largest frame of requests that were made together, so that others get their turn in between
_WRITE_BYTES = 256 * 1024
"""How many bytes are written in one go; also how much is collected in one turn before it is written early."""

_HEAD_BYTES = 8 + BATCH_COUNT.size  # The bytes of a frame before its values
_REQUEST_OVERHEAD_BYTES = 64  # Counted for the objects of a request that waits
_TOPICS_LIMIT = 65_536


class Block:
    """The requests of one frame, from the first one that is made to the last answer.

    Each has a future of its own; or all of them have one, `whole`, for the list of their answers.
    """

    __slots__ = ("_answers", "deadline_s", "first", "flags", "futures", "left", "packed", "requests", "size", "target",
                 "timeout_s", "whole")  # fmt: skip

    def __init__(
        self, target: bytes, flags: int, timeout_s: float, deadline_s: float, whole: Future[list[Any]] | None = None
    ) -> None:
        self.target = target
        self.flags = flags
        self.timeout_s = timeout_s
        self.deadline_s = deadline_s
        self.whole = whole
        self.futures: list[Future[Any] | None] = []  # In order; None for a request that has its answer
        self._answers: list[Any] | None = None
        self.packed: list[bytes] = []
        self.size = 0
        self.requests = 0
        # Transaction id of the first request, and how many are not answered: both are 0 until the block is sent.
        self.first = self.left = 0

    def put(self, start: int, answers: Sequence[Any]) -> int:
        """Take answers, values or `HubError`s, from the request at `start` on; return how many were missing."""
        fresh = self._put_each(start, answers) if self.whole is None else self._put_whole(self.whole, start, answers)
        self.left -= fresh
        return fresh

    def _put_each(self, start: int, answers: Sequence[Any]) -> int:
        end = start + len(answers)
        futures = self.futures
        is_all = len(answers) == len(futures)
        fresh = 0
        for future, answer in zip(futures if is_all else futures[start:end], answers, strict=True):
            if future is None:
                continue
            fresh += 1
            if future.done():
                continue  # the asker was cancelled
            if isinstance(answer, HubError):
                future.set_exception(answer)
            else:
                future.set_result(answer)
        if not is_all:
            futures[start:end] = [None] * (end - start)
        return fresh

    def _put_whole(self, whole: Future[list[Any]], start: int, answers: Sequence[Any]) -> int:
        if self._answers is None:
            if len(answers) == self.requests and not whole.done():  # the usual case
                whole.set_result(list(answers))
                return self.requests
            self._answers = [_OPEN] * self.requests
        fresh = 0
        for place, answer in enumerate(answers, start):
            if self._answers[place] is _OPEN:
                self._answers[place] = answer
                fresh += 1
        if not whole.done() and _OPEN not in self._answers:
            whole.set_result(self._answers)
        return fresh

    def fail(self, make: Callable[[], HubError]) -> None:
        self.put(0, failures(make, self.requests))


_OPEN = object()


def failures(make: Callable[[], HubError], count: int) -> list[HubError]:
    return [make() for _ in range(count)]


class Pending:
    """The frames of one client that are sent and not answered."""

    def __init__(self) -> None:
        self._blocks: dict[int, Block] = {}
        self._firsts: list[int] = []  # The same ids, ascending
        self._next = 1
        self.requests = 0
        self.late = 0

    def __bool__(self) -> bool:
        return bool(self._blocks)

    def add(self, block: Block) -> int:
        """Take a block that is being sent; return the transaction id of its first request."""
        first, count = self._next, block.requests
        if first + count > TRANSACTIONS:
            first = 1
        self._next = first + count
        block.first, block.left = first, count
        self._blocks[first] = block
        if self._firsts and first < self._firsts[-1]:
            insort(self._firsts, first)
        else:
            self._firsts.append(first)
        self.requests += count
        return first

    def answer(self, first: int, answers: Sequence[Any]) -> None:
        """Take answers from the transaction id `first` on."""
        block = self._blocks.get(first)
        if block is not None and block.requests == len(answers):
            self._put(block, 0, answers)
            return
        done = 0
        for block, at, count in list(self._find(first, len(answers))):
            if block is None:
                self.late += count
            else:
                self._put(block, at, answers[done : done + count])
            done += count

    def overdue(self, before_s: float) -> list[int]:
        return [first for first, block in self._blocks.items() if block.deadline_s < before_s]

    def refuse(self, first: int, make: Callable[[], HubError]) -> None:
        """Answer a whole frame with errors."""
        block = self._blocks.get(first)
        if block is not None:
            self._put(block, 0, failures(make, block.requests))

    def _put(self, block: Block, at: int, answers: Sequence[Any]) -> None:
        answered = block.put(at, answers)
        self.requests -= answered
        self.late += len(answers) - answered
        if not block.left:
            del self._blocks[block.first]
            del self._firsts[bisect_right(self._firsts, block.first) - 1]

    def _find(self, first: int, count: int) -> Iterator[tuple[Block | None, int, int]]:
        """Yield, for the ids from `first` on, the block or None, the place in it, and how many ids."""
        firsts = self._firsts
        end = first + count
        place = max(0, bisect_right(firsts, first) - 1)
        while first < end:
            block = self._blocks[firsts[place]] if place < len(firsts) else None
            if block is None or block.first >= end:
                yield None, 0, end - first
                return
            block_end = block.first + block.requests
            if first < block.first:
                yield None, 0, block.first - first
                first = block.first
            if first < block_end:
                taken = min(end, block_end) - first
                yield block, first - block.first, taken
                first += taken
            place += 1

    def fail_all(self, make: Callable[[], HubError]) -> None:
        blocks = list(self._blocks.values())
        self._blocks.clear()
        self._firsts.clear()
        self.requests = 0
        for block in blocks:
            block.fail(make)


_ERRORS: dict[int, type[RequestError]] = {
    Status.FAILED: RequestFailedError,
    Status.NO_RESPONDER: NoResponderError,
    Status.RESPONDER_GONE: ResponderGoneError,
    Status.TIMED_OUT: RequestTimeoutError,
    Status.OVERFLOW: RequestOverflowError,
    Status.NOT_ALLOWED: NotAllowedError,
    Status.TOO_BIG: RequestTooBigError,
}


def unfailed(answers: list[Any]) -> list[Any]:
    for answer in answers:
        if isinstance(answer, HubError):
            raise answer
    return answers


def _timed_out(text: str = "there was no connection within the time that the request gives") -> RequestError:
    return RequestTimeoutError(Status.TIMED_OUT, text)


def _another(error: HubError) -> HubError:
    """Copy an error: a raised one has the place where it was raised."""
    return type(error)(*error.args)


def _readable(answer: Any) -> Any:
    if isinstance(answer, ValueError):
        return RequestFailedError(Status.FAILED, f"the reply cannot be read: {answer}")
    return answer


class Requests:
    """The asking side of one client."""

    def __init__(self, buffer_bytes: int, before_write: Callable[[], None]) -> None:
        self._buffer_bytes = buffer_bytes
        self._before_write = before_write
        self._loop = asyncio.get_running_loop()
        self._connection: Connection | None = None
        self._frame_limit = FRAME_LIMIT_BYTES  # Both limits follow the hub that is connected
        self._batch_limit = BATCH_BYTES
        self._open: dict[str, Block] = {}  # Target → the block that requests of this turn join
        self._ready: deque[Block] = deque()
        self._buffered_bytes = 0
        self._pending = Pending()
        self._flush_due = False
        self._timer: asyncio.Handle | None = None  # The timer for requests that wait to be sent
        self._due_s = 0.0  # of the timer: a handle of uvloop does not know it, if it was due at once
        self._sweeper: asyncio.TimerHandle | None = None  # The timer for requests that were sent
        self._room = asyncio.Event()
        self._ended: HubError | None = None

    @property
    def waiting(self) -> bool:
        return bool(self._pending)

    @property
    def pending(self) -> int:
        """How many requests have no answer yet, also those that wait to be sent."""
        unsent = sum(block.requests for block in self._ready) + sum(block.requests for block in self._open.values())
        return self._pending.requests + unsent

    @property
    def late_replies(self) -> int:
        return self._pending.late

    def ask_nowait(self, target: str, packed: bytes, timeout_s: float, *, named: bool = False) -> asyncio.Future[Any]:
        """Ask; the request leaves at the end of this turn of the loop. Raises as `Client.request_nowait`."""
        size = len(packed)
        block = self._open.get(target)
        if (
            block is None
            or block.timeout_s != timeout_s
            or block.size + size > self._batch_limit
            or block.requests >= _BATCH_VALUES
            or (block.flags == FLAG_NAMED) is not named
        ):
            block = self._begin(target, size, timeout_s, named=named)
        charge = size + _REQUEST_OVERHEAD_BYTES
        if self._buffered_bytes + charge > self._buffer_bytes and self._buffered_bytes:
            raise self._busy()
        future: asyncio.Future[Any] = self._loop.create_future()
        block.packed.append(packed)
        block.size += size
        block.requests += 1
        block.futures.append(future)
        self._buffered_bytes += charge
        if not self._flush_soon() and self._buffered_bytes >= _WRITE_BYTES:
            self.write()
        return future

    async def ask(self, target: str, packed: bytes, timeout_s: float, *, named: bool = False) -> Any:
        """Ask when there is room, and wait for the answer; raises as `Client.request`."""
        while True:
            try:
                future = self.ask_nowait(target, packed, timeout_s, named=named)
            except BusyError:
                await self._room.wait()
            else:
                return await future

    async def ask_many(self, target: str, values: list[Any], timeout_s: float, *, named: bool = False) -> list[Any]:
        """Ask several things at once, in as few frames as possible; return the answers or `HubError`s in order."""
        if not values:
            return []
        wholes: list[Future[list[Any]]] = []
        for packed, requests in self._pieces(values):
            while self._buffered_bytes and self._buffered_bytes + len(packed) > self._buffer_bytes:
                await self._room.wait()
            wholes.append(self._loop.create_future())
            block = self._block(target, timeout_s, wholes[-1], named=named)
            block.packed.append(packed)
            block.size, block.requests = len(packed), requests
            self._buffered_bytes += len(packed) + _REQUEST_OVERHEAD_BYTES * requests
            self._ready.append(block)
            self._flush_soon()
        return [answer for whole in wholes for answer in await whole]

    def receive(self, reply: Reply) -> None:
        if reply.status == Status.OK:
            answers = read_values(reply.flags, reply.values)
            if any(isinstance(answer, ValueError) for answer in answers):
                answers = [_readable(answer) for answer in answers]
        else:
            text = reason_of(reply)
            error = _ERRORS.get(reply.status, RequestError)
            answers = [error(reply.status, text) for _ in range(reply.requests)]
        self._pending.answer(reply.first, answers)

    def refuse(self, refusal: Refusal) -> None:
        self._pending.refuse(refusal.first, lambda: RequestTooBigError(Status.TOO_BIG, refusal.text))

    def connected(self, connection: Connection, hello: Hello) -> None:
        self._connection = connection
        self._frame_limit = hello.frame
        self._batch_limit = min(BATCH_BYTES, hello.frame - _HEAD_BYTES)
        self.write()

    def disconnected(self) -> None:
        """Fail requests that were sent: they may have been carried out or not. The others go on waiting."""
        self._connection = None
        text = "the connection was lost before the answer; the service may have carried the request out or not"
        self._pending.fail_all(lambda: ConnectionLostError(ABNORMAL, text))
        self._watch()

    def finish(self, ended: HubError) -> None:
        self._ended = ended
        self._connection = None
        self._seal()
        ready, self._ready = self._ready, deque()
        self._buffered_bytes = 0
        for block in ready:
            block.fail(lambda: _another(ended))
        self._pending.fail_all(lambda: _another(ended))
        for timer in (self._timer, self._sweeper):
            if timer is not None:
                timer.cancel()
        wake(self._room)

    def write(self) -> None:
        """Send waiting requests, as long as the operating system takes them."""
        self._seal()
        connection = self._connection
        if connection is None or not self._ready:
            return
        self._before_write()
        now_s = self._loop.time()
        while self._ready and connection.writable:
            written = 0
            while self._ready and written < _WRITE_BYTES:
                written += self._send(self._ready.popleft(), connection, now_s)
            connection.write_outgoing()
        if self._pending and self._sweeper is None:
            self._sweeper = self._loop.call_later(OVERDUE_S, self._sweep)
        if self._buffered_bytes <= self._buffer_bytes // 2:
            wake(self._room)

    def _begin(self, target: str, size: int, timeout_s: float, *, named: bool) -> Block:
        if size + _HEAD_BYTES > self._frame_limit:
            text = f"a value of {size} bytes, the hub accepts at most {self._frame_limit - _HEAD_BYTES} bytes"
            raise RequestTooBigError(Status.TOO_BIG, text)
        block = self._block(target, timeout_s, named=named)
        full = self._open.pop(target, None)
        if full is not None and full.requests:
            self._ready.append(full)
        self._open[target] = block
        return block

    def _block(self, target: str, timeout_s: float, whole: Future[list[Any]] | None = None, *, named: bool) -> Block:
        if self._ended is not None:
            raise _another(self._ended)
        if not 0 < timeout_s <= TIMEOUT_LIMIT_S:
            raise UsageError(f"timeout_s is {timeout_s:g}: give more than 0 and at most {TIMEOUT_LIMIT_S:g} seconds")
        deadline_s = self._loop.time() + timeout_s
        return Block(_checked(target, named), FLAG_NAMED if named else 0, timeout_s, deadline_s, whole)

    def _busy(self) -> BusyError:
        return BusyError(
            f"{self._buffered_bytes} bytes of requests wait to be sent, the limit is {self._buffer_bytes}: the hub or "
            "the network is slower than this client; wait with `await request()`, or connect with larger buffer_bytes"
        )

    def _pieces(self, values: list[Any]) -> list[tuple[bytes, int]]:
        limit = min(_MANY_BYTES, self._frame_limit - _HEAD_BYTES)
        packed = encode_values(values)
        if len(packed) <= limit and len(values) <= BATCH_LIMIT_MESSAGES:
            return [(packed, len(values))]
        if len(values) == 1:
            if len(packed) > self._frame_limit - _HEAD_BYTES:
                text = (
                    f"a value of {len(packed)} bytes, the hub accepts at most {self._frame_limit - _HEAD_BYTES} bytes"
                )
                raise RequestTooBigError(Status.TOO_BIG, text)
            return [(packed, 1)]
        half = len(values) // 2
        return self._pieces(values[:half]) + self._pieces(values[half:])

    def _flush_soon(self) -> bool:
        """Write at the end of this turn; return False where that was due already."""
        if self._flush_due:
            return False
        self._flush_due = True
        self._loop.call_soon(self._flush)
        return True

    def _flush(self) -> None:
        self._flush_due = False
        self.write()
        self._watch()

    def _seal(self) -> None:
        if self._open:
            self._ready.extend([block for block in self._open.values() if block.requests])
            self._open = {}

    def _send(self, block: Block, connection: Connection, now_s: float) -> int:
        """Send a block; return its size in bytes."""
        requests, size = block.requests, block.size
        self._buffered_bytes -= size + _REQUEST_OVERHEAD_BYTES * requests
        timeout_ms = math.ceil((block.deadline_s - now_s) * 1000)
        if timeout_ms <= 0:
            block.fail(_timed_out)
            return 0
        if size + _HEAD_BYTES > self._frame_limit:
            text = f"{size} bytes of requests that waited are more than this hub accepts at once"
            block.fail(lambda: RequestTooBigError(Status.TOO_BIG, text))
            return 0
        flags, values = block.flags, joined(block.packed)
        block.packed = []
        if requests > 1:
            flags, values = flags | FLAG_BATCH, BATCH_COUNT.pack(requests) + values
        connection.conversation.send(Request(block.target, self._pending.add(block), timeout_ms, values, flags))
        return size

    def _watch(self) -> None:
        if not self._ready:
            return
        due_s = min(block.deadline_s for block in self._ready)
        if self._timer is not None:
            if not self._timer.cancelled() and self._due_s <= due_s:
                return
            self._timer.cancel()
        self._timer, self._due_s = self._loop.call_at(due_s, self._expire), due_s

    def _expire(self) -> None:
        self._timer = None
        now_s = self._loop.time()
        due = [block for block in self._ready if block.deadline_s <= now_s]
        self._ready = deque(block for block in self._ready if block.deadline_s > now_s)
        for block in due:
            self._buffered_bytes -= block.size + _REQUEST_OVERHEAD_BYTES * block.requests
            block.fail(_timed_out)
        wake(self._room)
        self._watch()

    def _sweep(self) -> None:
        self._sweeper = None
        for first in self._pending.overdue(self._loop.time() - OVERDUE_S):
            self._pending.refuse(first, lambda: _timed_out("the hub has not answered, not even that there is no reply"))
        if self._pending:
            self._sweeper = self._loop.call_later(OVERDUE_S, self._sweep)


@lru_cache(_TOPICS_LIMIT)
def _checked(target: str, named: bool) -> bytes:  # noqa: FBT001 -- on or off
    return (check_name(target) if named else check_topic(target)).encode()
