"""`RecordedMessage`: a message read from a journal."""

from __future__ import annotations

from typing import Any

from hub.messages.batch import Message


class RecordedMessage(Message):
    """A pair of topic and value, with the offset and the time of its record.

    A reader goes on at `offset + 1`. `time_us` is when the hub took the message, µs since 1970 UTC.
    """

    offset: int
    time_us: int

    def __new__(  # noqa: PYI034 -- no class is made of it
        cls, topic: str, value: Any, offset: int, time_us: int
    ) -> RecordedMessage:
        made = tuple.__new__(cls, (topic, value))
        made.offset = offset
        made.time_us = time_us
        return made

    def __repr__(self) -> str:
        return f"RecordedMessage(topic={self.topic!r}, value={self.value!r}, offset={self.offset})"
