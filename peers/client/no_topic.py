"""`NoTopic`: the sink of what bears no topic that this version can read."""

from __future__ import annotations

from collections.abc import Callable

from hub.batch import Batch
from peers.client.values import BadMessage

__all__ = ["NoTopic"]


class NoTopic:
    """Reports what comes to it."""

    __slots__ = ("_report",)

    def __init__(self, report: Callable[[BadMessage], None]) -> None:
        self._report = report

    def put(self, batch: Batch) -> None:
        """Report it."""
        for frame in batch.parts():
            topic = frame.key.decode("utf-8", "replace")
            reason = f"its routing key (flags 0b{frame.flags:08b}) is no topic that this version reads"
            self._report(BadMessage(topic, frame.body, frame.messages, reason))

    def put_gap(self, lost_messages: int) -> None:
        """Of no interest here."""

    def put_break(self) -> None:
        """Of no interest here."""

    def finish(self, error: Exception | None) -> None:
        """Of no interest here."""
