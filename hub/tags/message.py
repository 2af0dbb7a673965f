"""`TaggedMessage`: a message that bears more than its topic, for programs.

It is a pair of topic and value like any other, so that whoever does not care takes it apart as before.
"""

from __future__ import annotations

from typing import Any

from hub.batch import Message
from hub.tags.envelope import Envelope

__all__ = ["TaggedMessage"]


class TaggedMessage(Message):
    """A topic and a value, with labels and names beside them.

    Args:
        envelope: The labels and names that it bears beside its topic.
        value: The value.
    """

    _envelope: Envelope
    origin: bytes = b""

    def __new__(cls, envelope: Envelope, value: Any) -> TaggedMessage:  # noqa: PYI034 -- not of classes made of it
        """Make the pair of topic and value."""
        made = tuple.__new__(cls, (envelope.topic, value))
        made._envelope = envelope  # noqa: SLF001 -- our own
        return made

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels, ascending, each once."""
        return self._envelope.labels

    @property
    def sender(self) -> str:
        """Name of whoever has published the message; empty where nobody has said it."""
        return self._envelope.sender

    @property
    def destination(self) -> str:
        """Name to whose owner alone the message was sent; empty for none."""
        return self._envelope.destination

    def __repr__(self) -> str:
        named = "".join(
            f", {name}={value!r}" for name, value in self._envelope._asdict().items() if name != "topic" and value
        )
        return f"TaggedMessage(topic={self.topic!r}, value={self.value!r}{named})"
