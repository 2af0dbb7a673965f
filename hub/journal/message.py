"""`RecordedMessage`: a message that was read from a journal, for programs: a pair of topic and value like any other."""

from __future__ import annotations

from typing import Any

from hub.messages.batch import Message


class RecordedMessage(Message):
    """A topic and a value, with the place and the time of their record beside them.

    Args:
        topic: Topic of the message.
        value: Value of the message.
        offset: Of the record: a reader goes on at `offset + 1`.
        time_us: Time at which the hub took it, µs since 1970 UTC.
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
