"""`ConsumedMessage`: a message that a named consumer has delivered, which whoever is done with it acknowledges.

It is a pair of topic and value like any other, with the place of its record. Owner: the program. Not here: what becomes
of an acknowledgement (`peers.client.consumer_stream`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from hub.journal.message import RecordedMessage

__all__ = ["Acknowledge", "ConsumedMessage"]

Acknowledge = Callable[["ConsumedMessage"], Awaitable[None]]


class ConsumedMessage(RecordedMessage):
    """A topic and a value, to be acknowledged: `await message.ack()`."""

    deliveries: int
    """How often it was delivered, as far as the hub that runs knows: 1 for the first time."""
    session: int
    """In which membership of its stream it came: it can be acknowledged as long as that lasts."""
    _acknowledge: Acknowledge

    @classmethod
    def of(  # noqa: PLR0913, PLR0917 -- as it came
        cls,
        topic: str,
        value: Any,
        offset: int,
        time_us: int,
        deliveries: int,
        session: int,
        acknowledge: Acknowledge,
    ) -> ConsumedMessage:
        """Make a message."""
        made: ConsumedMessage = tuple.__new__(cls, (topic, value))
        made.offset, made.time_us, made.deliveries = offset, time_us, deliveries
        made.session, made._acknowledge = session, acknowledge
        return made

    async def ack(self) -> None:
        """Say that the program is done with it, so that it is not delivered again; as `ConsumerStream.ack`."""
        await self._acknowledge(self)
