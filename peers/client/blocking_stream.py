"""`BlockingStream`: messages under some prefixes, for threads.

Owner: whoever reads it; several threads may. Cost: reading crosses threads once per batch, not per message (about
0.1 ms each time).
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from types import TracebackType
from typing import Any, Self

from hub.batch import Message
from hub.errors import ClosedError, UsageError
from peers.client.stream import MessageStream

__all__ = ["BlockingStream"]


class BlockingStream:
    """Messages under some prefixes, oldest first, for threads. Made by `BlockingClient.subscribe`.

    Several threads may read one stream; each message is given to one of them.
    """

    def __init__(
        self,
        call: Callable[[Coroutine[Any, Any, Any]], Any],
        make: Callable[..., MessageStream],
        prefixes: tuple[str | tuple[str, ...], ...],
        buffer_bytes: int | None,
    ) -> None:
        self._call = call
        self._make = make
        self._prefixes = prefixes
        self._buffer_bytes = buffer_bytes
        self._stream: MessageStream | None = None
        self._ready: deque[Message] = deque()
        self._ended = False
        self._fetching = False  # one thread at a time asks the loop thread; others wait for what it brings
        self._changed = threading.Condition(threading.Lock())
        if not prefixes:
            raise UsageError("subscribe to one prefix or more; the empty text matches everything")

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[Message]:
        return self

    def __next__(self) -> Message:
        try:
            return self.receive()
        except ClosedError:
            raise StopIteration from None

    @property
    def lost_messages(self) -> int:
        """How many messages of this client the hub has lost before those that were fetched last."""
        return self._stream.lost_messages if self._stream is not None else 0

    @property
    def breaks(self) -> int:
        """How often the connection was lost, and made anew, before what was fetched last."""
        return self._stream.breaks if self._stream is not None else 0

    @property
    def position(self) -> int | None:
        """Of a stream that began in the journal: see `MessageStream.position`."""
        return self._stream.position if self._stream is not None else None

    @property
    def ended(self) -> bool:
        """Whether nothing more comes: the stream or the client is closed, and all is read."""
        return self._ended and not self._ready

    def open(self) -> None:
        """Subscribe, and wait for the hub's confirmation.

        Raises:
            InvalidTopicError: One of the prefixes is none.
            RejectedError: The hub refuses.
            ClosedError, PeerError: The client is closed, or has ended with an error.
        """
        if self._stream is not None:
            raise UsageError("a stream is opened once; subscribe again for another one")
        self._stream = self._call(self._open())

    def receive(self, timeout_s: float | None = None) -> Message:
        """Return the oldest message, waiting for one.

        Raises:
            TimeoutError: None came within `timeout_s`.
            ClosedError: None will come.
            PeerError: The connection is lost for good.
        """
        due_s = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            try:
                return self._ready.popleft()
            except IndexError:
                pass
            if not self._fill(due_s):
                if self._ended:
                    raise ClosedError("the stream is closed")
                raise TimeoutError(f"no message within {timeout_s} s")

    def iterate(self, timeout_s: float) -> Iterator[Message]:
        """Iterate until no message has come for `timeout_s`, or to the end."""
        while True:
            try:
                yield self.receive(timeout_s)
            except (TimeoutError, ClosedError):
                return

    def batch(self, timeout_s: float | None = None) -> list[Message]:
        """Wait for messages and return those that are there; empty when none came in time, or at the end (`ended`).

        Raises:
            PeerError: The connection is lost for good.
        """
        self._fill(None if timeout_s is None else time.monotonic() + timeout_s)
        with self._changed:
            ready = list(self._ready)
            self._ready.clear()
        return ready

    def close(self) -> None:
        """Unsubscribe, and throw away what was not read. Readers in other threads get the end."""
        with self._changed:
            self._ended = True
            self._ready.clear()
            self._changed.notify_all()
        if self._stream is None:
            return
        try:
            self._call(self._stream.close())
        except ClosedError:
            return  # with its client

    # In the loop thread.

    async def _open(self) -> MessageStream:
        stream = self._make(*self._prefixes, buffer_bytes=self._buffer_bytes)
        await stream.open()
        return stream

    async def _batch(self, stream: MessageStream, timeout_s: float | None) -> tuple[list[Message], bool]:
        try:
            async with asyncio.timeout(timeout_s):
                messages = await stream.batch()
        except TimeoutError:
            return [], False
        return messages, not messages

    # Between the threads.

    def _fill(self, due_s: float | None) -> bool:
        """Wait until there is a message here; False when there was none in time, or at the end."""
        if self._stream is None:
            raise UsageError("open the stream first: `with client.subscribe(...) as messages`")
        while True:
            with self._changed:
                if self._ready or self._ended:
                    return bool(self._ready)
                if self._fetching:
                    if not self._changed.wait(_left_s(due_s)):
                        return False
                    continue
                self._fetching = True
            self._fetch(self._stream, _left_s(due_s))
            if due_s is not None and time.monotonic() >= due_s:
                return bool(self._ready)

    def _fetch(self, stream: MessageStream, timeout_s: float | None) -> None:
        messages: list[Message] = []
        ended = False
        try:
            messages, ended = self._call(self._batch(stream, timeout_s))
        except ClosedError:
            ended = True
        finally:
            with self._changed:
                self._fetching = False
                if not self._ended:
                    self._ready.extend(messages)
                    self._ended = ended
                self._changed.notify_all()


def _left_s(due_s: float | None) -> float | None:
    """How long there is to wait, None for ever."""
    return None if due_s is None else max(0.0, due_s - time.monotonic())
