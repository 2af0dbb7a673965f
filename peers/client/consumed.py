"""`ConsumedMessage`: a message that a named consumer has delivered, which whoever is done with it acknowledges.

It is a pair of topic and value like any other, with the place of its record. Owner: the program. Not here: what becomes
of an acknowledgement (`peers.client.consumer_stream`).
"""

from __future__ import annotations

from typing import Any, Protocol

from hub.journal.message import RecordedMessage

__all__ = ["ConsumedMessage"]


class _Stream(Protocol):
    """What a message has come by."""

    async def ack(self, *messages: ConsumedMessage) -> None:
        """Acknowledge."""

    async def nak(self, *messages: ConsumedMessage, delay_s: float = 0.0) -> None:
        """Refuse."""

    async def in_progress(self, *messages: ConsumedMessage) -> None:
        """Ask for more time."""


class ConsumedMessage(RecordedMessage):
    """A topic and a value, to be acknowledged: `await message.ack()`."""

    deliveries: int
    """How often it was delivered, as far as the hub that runs knows: 1 for the first time."""
    session: int
    """In which membership of its stream it came: it can be acknowledged as long as that lasts."""
    _stream: _Stream

    @classmethod
    def of(  # noqa: PLR0913, PLR0917 -- as it came
        cls,
        topic: str,
        value: Any,
        offset: int,
        time_us: int,
        deliveries: int,
        session: int,
        stream: _Stream,
    ) -> ConsumedMessage:
        """Make a message."""
        made: ConsumedMessage = tuple.__new__(cls, (topic, value))
        made.offset, made.time_us, made.deliveries = offset, time_us, deliveries
        made.session, made._stream = session, stream
        return made

    async def ack(self) -> None:
        """Say that the program is done with it, so that it is not delivered again; as `ConsumerStream.ack`."""
        await self._stream.ack(self)

    async def nak(self, delay_s: float = 0.0) -> None:
        """Say that the program cannot do it now, so that it is delivered again; as `ConsumerStream.nak`."""
        await self._stream.nak(self, delay_s=delay_s)

    async def in_progress(self) -> None:
        """Say that the program still works on it; as `ConsumerStream.in_progress`."""
        await self._stream.in_progress(self)
