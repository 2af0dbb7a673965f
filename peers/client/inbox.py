"""`Inbox`: what waits for one reader, in order, still packed, with the places where something is missing.

```
put(batch) ... ─▶ [batch][batch](gap 17)[batch](break) ─▶ take(): decoded up to the next mark
                                 ▲ lost_messages counts it when the reader gets there
```

Owner: one stream of a client, or one subscriber in the hub's process; both are thin shells around it. It holds what it
is given: the bound is kept by who gives (a client stops reading its socket, a handler has its queue).

Invariants: messages are read once each, in order; all messages that one `take` returns stand between the same two
marks; a cancelled wait loses nothing.

Cost: O(1) to put; decoding is paid by the reader.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Final

from hub.batch import Batch, Message

__all__ = ["Inbox"]

_TAKE_BYTES = 256 * 1024
"""How much of what waits is decoded in one go: about 10 ms of small values, so that the loop stays responsive."""


class _Mark(Enum):
    BREAK = "the connection was lost here"


_BREAK: Final = _Mark.BREAK


class Inbox:
    """Batches on their way to one reader.

    Args:
        decode: From a batch to its messages; reports what is not msgpack by itself.
        on_taken: Called when something was taken, or was not there.
    """

    __slots__ = (
        "_decode",
        "_error",
        "_items",
        "_on_taken",
        "_ready",
        "_something",
        "breaks",
        "finished",
        "lost_messages",
        "size_bytes",
    )

    def __init__(self, decode: Callable[[Batch], list[Message]], on_taken: Callable[[], None]) -> None:
        # How much waits, still packed, bytes.
        self.size_bytes = 0
        # How many messages were lost before the one that was read last; raised as the reader comes to a gap.
        self.lost_messages = 0
        # How often the connection was lost before the message that was read last.
        self.breaks = 0
        # True once `finish` or `discard` was called: nothing more is taken in.
        self.finished = False
        self._decode = decode
        self._on_taken = on_taken
        # What waits: batches, and marks between them. A number is a gap of so many messages.
        self._items: deque[Batch | int | _Mark] = deque()
        # Messages that were decoded for `next_message`, the oldest last.
        self._ready: list[Message] = []
        # The reason why nothing more comes; None before the end, and where it was asked for.
        self._error: Exception | None = None
        # Set while there is something to read, or nothing more comes.
        self._something = asyncio.Event()

    def __bool__(self) -> bool:
        """Return whether anything waits to be read."""
        return bool(self._items) or bool(self._ready)

    def put(self, batch: Batch) -> None:
        """Take a batch of messages."""
        if self.finished:
            return
        self._items.append(batch)
        self.size_bytes += batch.size_bytes
        self._something.set()

    def put_gap(self, lost_messages: int) -> None:
        """Take note that so many messages were lost here."""
        self._items.append(lost_messages)

    def put_break(self) -> None:
        """Take note that the connection was lost here: what was published until the next one is missing."""
        self._items.append(_BREAK)

    def finish(self, error: Exception | None = None) -> None:
        """Take nothing more; `error` is raised once the reader has read what is here."""
        if not self.finished:
            self.finished = True
            self._error = error
            self._something.set()

    def discard(self) -> None:
        """Throw away what waits: the reader reads no more."""
        self._items.clear()
        self._ready.clear()
        self.size_bytes = 0
        self.finish()
        self._on_taken()

    def take(self) -> list[Message]:
        """Return the oldest messages, those that `next_message` has decoded first; empty if there is none."""
        if self._ready:
            ready, self._ready = self._ready, []
            ready.reverse()
            return ready
        messages: list[Message] = []
        taken_bytes = 0
        items = self._items
        while items and taken_bytes < _TAKE_BYTES:
            item = items[0]
            if isinstance(item, Batch):
                messages += self._decode(item)
                taken_bytes += item.size_bytes
            elif messages:
                break
            elif item is _BREAK:
                self.breaks += 1
            else:
                self.lost_messages += item
            items.popleft()
        self.size_bytes -= taken_bytes
        if not items and not self.finished:
            self._something.clear()
        self._on_taken()
        return messages

    async def wait_batch(self) -> list[Message]:
        """Return the oldest messages, one or more; empty only at the end.

        Raises:
            PeerError: The reason why nothing more comes, unless it was asked for.
        """
        while True:
            messages = self.take()
            if messages:
                return messages
            if self.finished and not self._items:
                if self._error is not None:
                    raise self._error.with_traceback(None)  # else each call would lengthen it
                return []
            await self._something.wait()

    async def next_message(self) -> Message:
        """Return the oldest message.

        Raises:
            StopAsyncIteration: The end.
            PeerError: As for `wait_batch`.
        """
        if not self._ready:
            messages = await self.wait_batch()
            if not messages:
                raise StopAsyncIteration
            messages.reverse()
            self._ready = messages
        return self._ready.pop()
