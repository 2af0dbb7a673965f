"""`Origins`: by which hubs messages have entered the mesh, told by the hub in front of them, and said by each message.

```
hub: HELLO with `origins`, ORIGIN ... ─▶ Origins.mark ─▶ run.origin ─▶ decoding ─ with_origin ─▶ message.origin
```

Owner: one connection that has asked for it; the others pay one look at each batch that is decoded. Cost: 0.4 µs a
message.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from hub.batch import Message
from hub.origin import Origin
from hub.stretch import Run
from hub.tags.envelope import TaggedMessage
from peers.client.conversation import Event
from peers.wire.hello import Hello

__all__ = ["OriginMessage", "Origins", "with_origin"]


class OriginMessage(Message):
    """A topic and a value, with the hub beside them where they have entered the mesh.

    Args:
        topic: Topic of the message.
        value: Value of the message.
        origin: Id of the hub.
    """

    origin: bytes = b""

    def __new__(cls, topic: str, value: Any, origin: bytes = b"") -> OriginMessage:  # noqa: PYI034 -- as `TaggedMessage`
        """Make the pair."""
        made = tuple.__new__(cls, (topic, value))
        made.origin = origin
        return made

    def __repr__(self) -> str:
        return f"OriginMessage(topic={self.topic!r}, value={self.value!r}, origin={self.origin.hex()!r})"


def with_origin(messages: Iterable[Message], origin: bytes) -> list[Message]:
    """Return messages that have just been decoded, with their origin."""
    new = tuple.__new__  # the loop is paid for every message; `OriginMessage(...)` costs twice as much
    marked: list[Message] = []
    for message in messages:
        made = message if isinstance(message, TaggedMessage) else new(OriginMessage, message)
        made.origin = origin
        marked.append(made)
    return marked


class Origins:
    """What a hub says of where the messages have entered that it delivers now."""

    __slots__ = ("now",)

    def __init__(self) -> None:
        self.now: Origin | None = None
        """None until HELLO, and for good where the hub does not tell."""

    def mark(self, events: Iterable[Event | Origin]) -> Iterator[Event]:
        """Yield what a hub says, runs with their origin."""
        for event in events:
            if isinstance(event, Origin):
                self.now = event
                continue
            if isinstance(event, Run):
                event.origin = self.now
            elif isinstance(event, Hello) and event.origins:
                self.now = Origin(event.id, 0)
            yield event
