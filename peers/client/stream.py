"""`MessageStream`: a subscription that is read by iterating. `CallbackSubscription`: one that calls.

A stream holds what it has not been asked for yet up to `buffer_bytes`, packed. Above that the client stops reading its
socket: then the hub's queue for this client fills, and its policy decides. Nothing is dropped on this side. What a
callback gets is not held at all: it is called within the turn that read the messages.

Owner: one client. Not here: who is asked for what (`peers.client.subscriptions`), streams that begin in the journal
(`peers.client.follower`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from types import TracebackType
from typing import Any, Protocol, Self

from hub.batch import Batch, Message
from hub.errors import UsageError
from peers.client.inbox import Inbox
from peers.client.interest import Claim
from peers.client.places import Places
from peers.client.routes import Wanted
from peers.client.subscriptions import Subscriptions

__all__ = ["CallbackSubscription", "MessageStream", "Source"]

Decode = Callable[[Batch], list[Message]]


class Source(Protocol):
    """Where the messages of a stream come from: `Subscriptions`, or what begins in the journal."""

    async def open(self, sink: MessageStream, wants: Iterable[Wanted]) -> list[Claim]:
        """Let messages come; raises as `MessageStream.open`."""

    def release(self, sink: MessageStream, claims: list[Claim]) -> asyncio.Future[Any] | None:
        """Let nothing more come; returns what is done when the hub knows, too."""

    def hold(self, sink: MessageStream) -> None:
        """The stream is full."""

    def let_go(self, sink: MessageStream) -> None:
        """It has room again."""


class MessageStream:
    """Messages under some prefixes, oldest first.

    Made by `Client.subscribe`; use it with `async with`, or call `open` and `close`. One message is given to one
    reader; several readers share a stream.

    Args:
        source: Of its messages.
        prefixes: What to subscribe to: prefixes, or a rule, or a name.
        decode: From a batch to messages.
        buffer_bytes: Held, unread, before the client stops reading from the hub.
        places: Of a stream that begins in the journal.
    """

    __slots__ = ("_buffer_bytes", "_claims", "_held", "_inbox", "_places", "_source", "prefixes")

    def __init__(
        self,
        source: Source,
        prefixes: tuple[Wanted, ...],
        decode: Decode,
        buffer_bytes: int,
        places: Places | None = None,
    ) -> None:
        self.prefixes = prefixes
        self._source = source
        self._buffer_bytes = buffer_bytes
        self._places = places
        self._inbox = Inbox(decode, self._taken)
        self._claims: list[Claim] | None = None
        self._held = False

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close_nowait()

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Coroutine[Any, Any, Message]:
        return self._inbox.next_message()

    @property
    def lost_messages(self) -> int:
        """How many messages of this client the hub has lost before the message that was read last.

        The hub counts for the client as a whole; with several subscriptions, those lost may belong to another.
        """
        return self._inbox.lost_messages

    @property
    def breaks(self) -> int:
        """How often the connection was lost, and made anew, before the message that was read last.

        What was published in between is missing; nobody knows how much that is.
        """
        return self._inbox.breaks

    @property
    def live(self) -> bool:
        """Whether a stream that began in the journal has all history, so that what comes now is live; others are."""
        return self._places is None or self._places.live

    @property
    def position(self) -> int | None:
        """Of a stream that began in the journal: everything recorded before this offset was read; None of others.

        A stream that is subscribed to from here misses nothing; what was read last may come again. Once the stream is
        live it stays where that began: the hub does not tell the offsets of what it delivers.
        """
        return self._places.position if self._places is not None else None

    @property
    def buffered_bytes(self) -> int:
        """What waits to be read."""
        return self._inbox.size_bytes

    async def open(self) -> None:
        """Subscribe, and wait for the hub's confirmation.

        Raises:
            InvalidTopicError: One of the prefixes is none.
            GoneError: Where it is to begin was deleted from the journal, or is not there yet.
            RejectedError: The hub refuses; the text says why.
            ClosedError, PeerError: The client is closed, or has ended with an error.
            UsageError: The stream was opened before.
        """
        if self._claims is not None:
            raise UsageError("a stream is opened once; subscribe again for another one")
        self._claims = []
        self._claims = await self._source.open(self, self.prefixes)

    async def batch(self) -> list[Message]:
        """Wait for messages and return all that are there, up to about 256 KiB; empty only at the end.

        The cheapest way to read: one call for many messages. `lost_messages` and `breaks` hold for the first of them,
        and nothing is missing between them.

        Cancellation: loses nothing.

        Raises:
            PeerError: The connection is lost for good; raised when everything that had come was read.
        """
        return await self._inbox.wait_batch()

    def batch_nowait(self) -> list[Message]:
        """Return the messages that are there, as `batch`, empty if there is none."""
        return self._inbox.take()

    def close_nowait(self) -> None:
        """Unsubscribe and throw away what was not read; do not wait for the hub."""
        self._release()

    async def close(self) -> None:
        """Unsubscribe, throw away what was not read, and wait until the hub has confirmed."""
        answer = self._release()
        if answer is not None:
            await asyncio.wait([answer])

    def _release(self) -> asyncio.Future[Any] | None:
        answer = self._source.release(self, self._claims or [])
        self._inbox.discard()
        return answer

    # As a sink.

    def put(self, batch: Batch) -> None:
        """Take messages."""
        inbox = self._inbox
        inbox.put(batch)
        if inbox.size_bytes > self._buffer_bytes and not self._held:
            self._held = True
            self._source.hold(self)

    def put_gap(self, lost_messages: int) -> None:
        """Messages were lost here."""
        self._inbox.put_gap(lost_messages)

    def put_break(self) -> None:
        """The connection was lost here."""
        self._inbox.put_break()

    def finish(self, error: Exception | None) -> None:
        """Nothing more comes."""
        self._inbox.finish(error)

    def _taken(self) -> None:
        if self._places is not None:
            self._places.taken()
        if self._held and self._inbox.size_bytes <= self._buffer_bytes // 2:
            self._held = False
            self._source.let_go(self)


class CallbackSubscription:
    """Messages under some prefixes, each given to a function.

    Made by `Client.subscribe_callback`. What the function raises is reported to the event loop's exception handler,
    and the next message is given to it.
    """

    __slots__ = ("_claims", "_decode", "_function", "_subscriptions", "breaks", "lost_messages", "prefixes")

    def __init__(
        self,
        subscriptions: Subscriptions,
        prefixes: tuple[str, ...],
        decode: Decode,
        function: Callable[[Message], object],
    ) -> None:
        self.prefixes = prefixes
        self.lost_messages = 0
        self.breaks = 0
        self._subscriptions = subscriptions
        self._decode = decode
        self._function = function
        self._claims: list[Claim] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close_nowait()

    async def open(self) -> None:
        """Subscribe; raises as `MessageStream.open`."""
        self._claims = await self._subscriptions.open(self, self.prefixes)

    def close_nowait(self) -> None:
        """Unsubscribe; do not wait for the hub. The function is not called any more."""
        self._subscriptions.release(self, self._claims)

    async def close(self) -> None:
        """Unsubscribe, and wait until the hub has confirmed."""
        answer = self._subscriptions.release(self, self._claims)
        if answer is not None:
            await asyncio.wait([answer])

    # As a sink.

    def put(self, batch: Batch) -> None:
        """Call for each message."""
        function = self._function
        for message in self._decode(batch):
            try:
                function(message)
            except Exception as error:  # noqa: BLE001 -- of the caller's function: reported where asyncio reports such
                asyncio.get_running_loop().call_exception_handler(
                    {"message": f"a subscriber's function failed on {message.topic}", "exception": error}
                )

    def put_gap(self, lost_messages: int) -> None:
        """Messages were lost here."""
        self.lost_messages += lost_messages

    def put_break(self) -> None:
        """The connection was lost here."""
        self.breaks += 1

    def finish(self, error: Exception | None) -> None:
        """Nothing more comes; the client tells by itself."""
