"""`BlockingConsumerStream`: messages of a named consumer, for threads.

```
your threads ◀─ receive, batch ─ │ loop thread: ConsumerStream │
             ── ack ───────────▶ │                             │
```

Owner: whoever has it; any thread may call, and several may share it. Invariant: each message is given to one reader;
what waits in the loop thread was looked at by nobody. Cost: each call crosses threads (about 0.1 ms), so `batch` and
`ack` of many messages are the cheap ones.
"""

from __future__ import annotations

from collections.abc import Iterator

from hub.errors import ClosedError
from hub.journal.message import RecordedMessage
from peers.client.blocking.call import Call
from peers.client.blocking.opened import Opened
from peers.client.consumed import ConsumedMessage
from peers.client.consumer_stream import ConsumerStream

__all__ = ["BlockingConsumedMessage", "BlockingConsumerStream"]


class BlockingConsumedMessage(RecordedMessage):
    """A topic and a value, to be acknowledged: `message.ack()`."""

    deliveries: int
    """How often it was delivered, as far as the hub that runs knows: 1 for the first time."""
    _stream: BlockingConsumerStream
    _message: ConsumedMessage

    @classmethod
    def of(cls, message: ConsumedMessage, stream: BlockingConsumerStream) -> BlockingConsumedMessage:
        """Make the face of a message for threads."""
        made: BlockingConsumedMessage = tuple.__new__(cls, message)
        made.offset, made.time_us, made.deliveries = message.offset, message.time_us, message.deliveries
        made._stream, made._message = stream, message
        return made

    @property
    def in_loop(self) -> ConsumedMessage:
        """The message as the loop thread has it."""
        return self._message

    def ack(self) -> None:
        """Say that the program is done with it, so that it is not delivered again; as `ConsumerStream.ack`."""
        self._stream.ack(self)

    def nak(self, delay_s: float = 0.0) -> None:
        """Say that the program cannot do it now, so that it is delivered again; as `ConsumerStream.nak`."""
        self._stream.nak(self, delay_s=delay_s)

    def in_progress(self) -> None:
        """Say that the program still works on it; as `ConsumerStream.in_progress`."""
        self._stream.in_progress(self)


class BlockingConsumerStream(Opened):
    """Messages of a named consumer, each to be acknowledged, for threads. Made by `BlockingClient.consume`.

    Args:
        call: Runs coroutines in the loop thread of the client.
        stream: In the loop thread; not open yet.
    """

    def __init__(self, call: Call, stream: ConsumerStream) -> None:
        self._call = call
        self._stream = stream

    def __iter__(self) -> Iterator[BlockingConsumedMessage]:
        return self

    def __next__(self) -> BlockingConsumedMessage:
        try:
            return self.receive()
        except ClosedError:
            raise StopIteration from None

    @property
    def name(self) -> str:
        """What the consumer is called."""
        return self._stream.name

    @property
    def late_acks(self) -> int:
        """How many messages were acknowledged too late to count: they were delivered again."""
        return self._stream.late_acks

    @property
    def ended(self) -> bool:
        """Whether nothing more comes, and all is read."""
        return self._stream.ended

    def open(self, *, timeout_s: float | None = None) -> None:
        """Become a member; raises as `ConsumerStream.open`, and `TimeoutError`."""
        self._call(self._stream.open(), timeout_s)

    def receive(self, *, timeout_s: float | None = None) -> BlockingConsumedMessage:
        """Return the oldest message, waiting for one.

        Raises:
            TimeoutError: None came within `timeout_s`.
            ClosedError, HubError: As `ConsumerStream.receive`.
        """
        return BlockingConsumedMessage.of(self._call(self._stream.receive(), timeout_s), self)

    def batch(self, *, timeout_s: float | None = None) -> list[BlockingConsumedMessage]:
        """Return all messages that are there, waiting for one; an empty list once the stream is closed.

        Raises:
            TimeoutError: None came within `timeout_s`.
            HubError: As `ConsumerStream.receive`.
        """
        return [BlockingConsumedMessage.of(each, self) for each in self._call(self._stream.batch(), timeout_s)]

    def ack(self, *messages: BlockingConsumedMessage, timeout_s: float | None = None) -> None:
        """Say that the program is done with messages; as `ConsumerStream.ack`."""
        self._call(self._stream.ack(*[message.in_loop for message in messages]), timeout_s)

    def ack_up_to(self, message: BlockingConsumedMessage, *, timeout_s: float | None = None) -> None:
        """Acknowledge a message, and all that were handed out before it."""
        self._call(self._stream.ack_up_to(message.in_loop), timeout_s)

    def nak(self, *messages: BlockingConsumedMessage, delay_s: float = 0.0, timeout_s: float | None = None) -> None:
        """Say that the program cannot do messages now; as `ConsumerStream.nak`."""
        self._call(self._stream.nak(*[message.in_loop for message in messages], delay_s=delay_s), timeout_s)

    def in_progress(self, *messages: BlockingConsumedMessage, timeout_s: float | None = None) -> None:
        """Say that the program still works on messages; as `ConsumerStream.in_progress`."""
        self._call(self._stream.in_progress(*[message.in_loop for message in messages]), timeout_s)

    def close(self, *, timeout_s: float | None = None) -> None:
        """Tell the hub what was acknowledged, and be no member any more; what was not is for others, at once."""
        self._call(self._stream.close(), timeout_s)
