"""Errors about Broker data: one for invalid bodies and values, one for invalid JSON messages."""

from __future__ import annotations

__all__ = ["InvalidDataError", "InvalidInputError"]


class InvalidDataError(ValueError):
    """Bytes or a Python object that are no Broker value. The text is one sentence and names the byte position."""


class InvalidInputError(ValueError):
    """A JSON message of a client that is no data message.

    Attributes:
        context: What follows `input #N ` in the reply to the client.
    """

    def __init__(self, context: str) -> None:
        super().__init__(context)
        self.context = context
