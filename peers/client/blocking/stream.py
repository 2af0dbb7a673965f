"""`BlockingStream`: messages under some prefixes, for threads.

```
your threads ◀─ _ready ◀─ one call for a batch ─▶ │ loop thread: MessageStream │
```

Owner: whoever has it; any thread may call, and several may share it. Invariants: at most one thread at a time asks the
loop thread, the others wait for what it brings; each message is given to one reader, oldest first. Cost: reading
crosses threads once per batch, not per message (about 0.1 ms each time).
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress

from hub.batch import Message
from hub.errors import ClosedError, UsageError
from peers.client.blocking.call import Call
from peers.client.blocking.opened import Opened
from peers.client.routes import Wanted
from peers.client.stream import MessageStream

__all__ = ["BlockingStream"]


class BlockingStream(Opened):
    """Messages under some prefixes, oldest first, for threads. Made by `BlockingClient.subscribe`.

    Several threads may read one stream; each message is given to one of them.

    Args:
        call: Runs coroutines in the loop thread of the client.
        stream: In the loop thread; not open yet.
    """

    def __init__(self, call: Call, stream: MessageStream) -> None:
        self._call = call
        self._stream = stream
        # Fetched from the loop thread and not given to a reader yet.
        self._ready: deque[Message] = deque()
        # Set when the loop thread says that nothing more comes, and by `close`.
        self._ended = False
        # While one thread asks the loop thread; the others wait for what it brings.
        self._fetching = False
        self._changed = threading.Condition(threading.Lock())

    def __iter__(self) -> Iterator[Message]:
        self._check_open()
        return self

    def __next__(self) -> Message:
        try:
            return self.receive()
        except ClosedError:
            raise StopIteration from None

    @property
    def prefixes(self) -> tuple[Wanted, ...]:
        """The prefixes, or the rule or the name, that it subscribes to."""
        return self._stream.prefixes

    @property
    def lost_messages(self) -> int:
        """How many messages of this client the hub has lost before those that were fetched last."""
        return self._stream.lost_messages

    @property
    def breaks(self) -> int:
        """How often the connection was lost, and made anew, before what was fetched last."""
        return self._stream.breaks

    @property
    def live(self) -> bool:
        """Whether what comes now is live: see `MessageStream.live`."""
        return self._stream.live

    @property
    def position(self) -> int | None:
        """The position of a stream that began in the journal: see `MessageStream.position`."""
        return self._stream.position

    @property
    def epoch(self) -> int:
        """The epoch in which `position` was told: see `MessageStream.epoch`. Read it first: both move on."""
        return self._stream.epoch

    @property
    def buffered_bytes(self) -> int:
        """How much waits in the loop thread to be fetched, bytes."""
        return self._stream.buffered_bytes

    @property
    def ended(self) -> bool:
        """Whether nothing more comes: the stream or the client is closed, and all is read."""
        return self._ended and not self._ready

    def open(self, *, timeout_s: float | None = None) -> None:
        """Subscribe, and wait for the hub's confirmation; raises as `MessageStream.open`, and `TimeoutError`."""
        self._call(self._stream.open(), timeout_s)

    def receive(self, *, timeout_s: float | None = None) -> Message:
        """Return the oldest message, waiting for one.

        Raises:
            TimeoutError: None came within `timeout_s`.
            ClosedError: None will come.
            PeerError: The connection is lost for good.
            UsageError: The stream was not opened.
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
                yield self.receive(timeout_s=timeout_s)
            except (TimeoutError, ClosedError):
                return

    def batch(self, *, timeout_s: float | None = None) -> list[Message]:
        """Wait for messages and return those that are there; empty when none came in time, or at the end (`ended`).

        Raises:
            PeerError: The connection is lost for good.
            UsageError: The stream was not opened.
        """
        self._fill(None if timeout_s is None else time.monotonic() + timeout_s)
        return self._take()

    def batch_nowait(self) -> list[Message]:
        """Return the messages that are there, as `batch`; empty if there is none."""
        return self.batch(timeout_s=0)

    def close(self, *, timeout_s: float | None = None) -> None:
        """Unsubscribe, and throw away what was not read. Readers in other threads get the end."""
        with self._changed:
            self._ended = True
            self._ready.clear()
            self._changed.notify_all()
        with suppress(ClosedError):  # it has ended with its client
            self._call(self._stream.close(), timeout_s)

    # In the loop thread.

    async def _batch(self, timeout_s: float | None) -> tuple[list[Message], bool]:
        messages = self._stream.batch_nowait()
        if messages:
            return messages, False
        try:
            async with asyncio.timeout(timeout_s):
                messages = await self._stream.batch()
        except TimeoutError:
            return [], False
        return messages, not messages

    # Between the threads.

    def _check_open(self) -> None:
        if not self._stream.opened:
            raise UsageError("open the stream first: `with client.subscribe(...) as messages`")

    def _take(self) -> list[Message]:
        with self._changed:
            ready = list(self._ready)
            self._ready.clear()
        return ready

    def _fill(self, due_s: float | None) -> bool:
        """Wait until there is a message here; False when there was none in time, or at the end."""
        self._check_open()
        while True:
            with self._changed:
                if self._ready or self._ended:
                    return bool(self._ready)
                if self._fetching:
                    if not self._changed.wait(_left_s(due_s)):
                        return False
                    continue
                self._fetching = True
            self._fetch(_left_s(due_s))
            if due_s is not None and time.monotonic() >= due_s:
                return bool(self._ready)

    def _fetch(self, timeout_s: float | None) -> None:
        messages: list[Message] = []
        ended = False
        try:
            messages, ended = self._call(self._batch(timeout_s))
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
    """Return how long there is to wait; None for ever."""
    return None if due_s is None else max(0.0, due_s - time.monotonic())
