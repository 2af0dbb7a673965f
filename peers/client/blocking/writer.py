"""`BlockingWriter`: confirmed publishing that may be repeated, for threads.

Owner: whoever has it; any thread may call, and what several of them publish at a time goes together. What it does is
that of a `Writer`.
"""

from __future__ import annotations

from typing import Any

from peers.client.blocking.call import Call
from peers.client.writer import Writer

__all__ = ["BlockingWriter"]


class BlockingWriter:
    """Publishes messages that are recorded once each. Made by `BlockingClient.writer`.

    Args:
        call: Runs coroutines in the loop thread of the client.
        writer: In the loop thread.
    """

    def __init__(self, call: Call, writer: Writer) -> None:
        self._call = call
        self._writer = writer

    @property
    def name(self) -> str:
        """What the hub knows it by."""
        return self._writer.name

    def publish(
        self, topic: str, value: Any, *, sequence: int | None = None, timeout_s: float | None = None
    ) -> int | None:
        """Publish, and wait until the message is recorded; as `Writer.publish`.

        Raises:
            TimeoutError: It was not confirmed within `timeout_s`; it may still be recorded.
            UsageError, RejectedError, InvalidTopicError, InvalidValueError, ClosedError, PeerError: As
                `Writer.publish`.
        """
        return self._call(self._writer.publish(topic, value, sequence=sequence), timeout_s)
