"""Publishers and subscribers within the hub's own process: handlers like all others, without a socket.

```
LocalPublisher ─ end of turn ─▶ core.publish ─▶ handlers            any thread ─ mailbox ─▶ LocalPublisher
core ─▶ Handler ─▶ LocalSubscriber: async iterator                  paused while something waits to be read, so that
                └▶ LocalCallback: a function                        its queue is bounded and its policy decides
```

Owner: the core's event loop; only `publish_threadsafe` may be called elsewhere. Values are packed by the publisher and
unpacked by each subscriber, so that nobody shares a mutable object with anybody.

Invariants: a subscriber that does not read costs at most its queue's limits and one write (256 KiB, or one larger
batch); what it loses it is told where it is missing (`lost_messages`), as a client over a socket is.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from types import TracebackType
from typing import Any, Self

from hub.batch import Batch, Message
from hub.core import Core
from hub.errors import CloseCode, ClosedError, ConnectionLostError, InvalidTopicError, RejectedError
from hub.frame import HEADER, HEADER_BYTES
from hub.handler import WRITE_LIMIT_BYTES, Handler, Role
from hub.overflow import QueueLimits
from peers.client.inbox import Inbox
from peers.client.publications import Publications, checked_head
from peers.client.values import BadMessage, decode_batch, encode_value
from peers.mailbox import MAILBOX_BYTES, Mailbox
from peers.wire.hello import FRAME_LIMIT_BYTES

__all__ = ["LocalCallback", "LocalPublisher", "LocalSubscriber"]

_log = logging.getLogger("peers.local")


class LocalSubscriber:
    """An async iterator over the messages under some prefixes, for use with `with`.

    Args:
        core: Of the hub.
        prefixes: What to subscribe to.
        limits: Of its queue, and what happens when it is full.
        name: For people.
        on_bad_message: Called with what came and was not msgpack.

    Raises:
        InvalidTopicError: One of the prefixes is none.
    """

    def __init__(
        self,
        core: Core,
        prefixes: Iterable[str],
        limits: QueueLimits | None = None,
        *,
        name: str = "",
        on_bad_message: Callable[[BadMessage], object] | None = None,
    ) -> None:
        self.bad_messages = 0
        self._core = core
        self._on_bad_message = on_bad_message
        self._inbox = Inbox(self._decode, self._taken)
        self.handler = Handler(self, role=Role.LOCAL, limits=limits or QueueLimits(), name=name, address="local")
        _attach(core, self.handler, prefixes)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.unsubscribe()

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Coroutine[Any, Any, Message]:
        return self._inbox.next_message()

    @property
    def lost_messages(self) -> int:
        """How many messages were lost before the one that was read last."""
        return self._inbox.lost_messages

    async def batch(self) -> list[Message]:
        """Wait for messages and return what is there; empty only at the end.

        Raises:
            ConnectionLostError: The queue was full and its policy is to disconnect.
        """
        return await self._inbox.wait_batch()

    def unsubscribe(self) -> None:
        """Leave the hub; what was not read is thrown away, and iterating ends."""
        self._core.detach(self.handler, "unsubscribed")
        self._inbox.discard()

    # As the outlet of its handler.

    def send(self, batches: list[Batch]) -> None:
        """Take what one write would be, and no more until it was read."""
        for batch in batches:
            self._inbox.put(batch)
        self.handler.pause()

    def send_gap(self, lost_messages: int) -> None:
        """So many were lost here."""
        self._inbox.put_gap(lost_messages)

    def close(self, code: int, text: str) -> None:
        """The policy is to disconnect."""
        self._core.detach(self.handler, text)
        self._inbox.finish(ConnectionLostError(code, text))

    def _taken(self) -> None:
        if not self._inbox.size_bytes and not self.handler.closed:
            self.handler.resume()

    def _decode(self, batch: Batch) -> list[Message]:
        messages, bad = decode_batch(batch)
        for each in bad:
            self.bad_messages += each.messages
            if self._on_bad_message is not None:
                self._on_bad_message(each)
        return messages


class LocalCallback:
    """A function that is called with each message under some prefixes, in a later turn of the loop.

    Not in the turn that routed them, so that a function that publishes cannot keep the hub from its sockets. What the
    function raises is reported to the loop's exception handler.

    Args:
        core: Of the hub.
        prefixes: What to subscribe to.
        function: Called in the loop; should be quick.
        limits: Of its queue.
        name: For people.

    Raises:
        InvalidTopicError: One of the prefixes is none.
    """

    def __init__(
        self,
        core: Core,
        prefixes: Iterable[str],
        function: Callable[[Message], object],
        limits: QueueLimits | None = None,
        *,
        name: str = "",
    ) -> None:
        self.bad_messages = 0
        self.lost_messages = 0
        self.error: ConnectionLostError | None = None
        self._core = core
        self._function = function
        self._loop = asyncio.get_running_loop()
        self._batches: list[Batch] = []
        self.handler = Handler(self, role=Role.LOCAL, limits=limits or QueueLimits(), name=name, address="local")
        _attach(core, self.handler, prefixes)

    def unsubscribe(self) -> None:
        """Leave the hub; the function is not called any more."""
        self._core.detach(self.handler, "unsubscribed")
        self._batches.clear()

    # As the outlet of its handler.

    def send(self, batches: list[Batch]) -> None:
        """Take what one write would be, and no more until the function had it."""
        self._batches += batches
        self.handler.pause()
        self._loop.call_soon(self._deliver)

    def send_gap(self, lost_messages: int) -> None:
        """So many were lost here."""
        self.lost_messages += lost_messages

    def close(self, code: int, text: str) -> None:
        """The policy is to disconnect: `error` says so, and the function is not called any more."""
        self._core.detach(self.handler, text)
        self.error = ConnectionLostError(code, text)
        _log.warning("a subscriber in this process was too slow: %s", self.error)

    def _deliver(self) -> None:
        batches, self._batches = self._batches, []
        for batch in batches:
            messages, bad = decode_batch(batch)
            self.bad_messages += sum(each.messages for each in bad)
            for message in messages:
                if self.handler.closed:
                    return
                try:
                    self._function(message)
                except Exception as error:  # noqa: BLE001 -- of the caller's function
                    self._loop.call_exception_handler(
                        {"message": f"a subscriber's function failed on {message.topic}", "exception": error}
                    )
        self.handler.resume()


class LocalPublisher:
    """Publishes from within the hub's process.

    Args:
        core: Of the hub, whose loop is running.
        name: For people.
        mailbox_bytes: Most that other threads may have on the way.
    """

    def __init__(self, core: Core, *, name: str = "", mailbox_bytes: int = MAILBOX_BYTES) -> None:
        self._core = core
        self._loop = asyncio.get_running_loop()
        self._publications = Publications(2 * FRAME_LIMIT_BYTES)  # flushed long before, never full
        self._due = False
        self._closed = False
        self._mailbox: Mailbox[tuple[str, bytes]] = Mailbox(self._loop, self._take_mail, mailbox_bytes)
        self.handler = Handler(_Nowhere(), role=Role.LOCAL, limits=QueueLimits(), name=name, address="local")
        core.attach(self.handler)

    def publish_nowait(self, topic: str, value: Any) -> None:
        """Publish at the end of this turn, together with what else comes in it. In the core's loop only.

        Raises:
            InvalidTopicError: No client may publish to this topic.
            InvalidValueError: The value has no msgpack form.
            RejectedError: The value is too large.
            ClosedError: The publisher is closed.
        """
        if self._closed:
            raise ClosedError("the publisher is closed")
        self._append(topic, encode_value(value))

    def publish_threadsafe(self, topic: str, value: Any) -> None:
        """Publish from any thread; the value is packed there, and routed in a turn of the loop.

        Raises:
            BusyError: `mailbox_bytes` are on the way: the loop is behind.
            InvalidTopicError: No client may publish to this topic.
            InvalidValueError: The value has no msgpack form.
            RejectedError: The value is too large.
            ClosedError: The publisher, or the loop, is closed.
        """
        packed = encode_value(value)
        checked_head(topic)
        if len(packed) > FRAME_LIMIT_BYTES:
            raise RejectedError(CloseCode.TOO_BIG, f"a value of {len(packed)} bytes, the limit is {FRAME_LIMIT_BYTES}")
        self._mailbox.put_nowait((topic, packed), len(packed))

    def close(self) -> None:
        """Publish what is waiting, also from other threads, then leave the hub."""
        if self._closed:
            return
        self._mailbox.close(ClosedError("the publisher is closed"))
        self._take_mail()
        self._flush()
        self._closed = True
        self._core.detach(self.handler, "closed")

    def _append(self, topic: str, packed: bytes) -> None:
        self._publications.append(topic, packed)
        if self._publications.buffered_bytes >= WRITE_LIMIT_BYTES:
            self._flush()
        elif not self._due:
            self._due = True
            self._loop.call_soon(self._flush)

    def _take_mail(self) -> None:
        for topic, packed in self._mailbox.take():
            self._append(topic, packed)

    def _flush(self) -> None:
        """End of the turn: route what it brought."""
        self._due = False
        routes = self._core.routes
        for batch in self._publications.take_batches():
            key_length = HEADER.unpack_from(batch.frames)[3]
            key = batch.frames[4 : HEADER_BYTES + key_length]
            self._core.publish(self.handler, routes.table.get(key) or routes.miss(key), batch)


class _Nowhere:
    """The outlet of a handler that subscribes to nothing."""

    __slots__ = ()

    def send(self, batches: list[Batch]) -> None:
        """Never called."""

    def send_gap(self, lost_messages: int) -> None:
        """Never called."""

    def close(self, code: int, text: str) -> None:
        """Never called."""


def _attach(core: Core, handler: Handler, prefixes: Iterable[str]) -> None:
    core.attach(handler)
    try:
        core.subscribe(handler, prefixes)
    except InvalidTopicError:
        core.detach(handler, "bad prefix")
        raise
