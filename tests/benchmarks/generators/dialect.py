"""`Dialect`: how one protocol spells what the engine sends and must receive, and how a connection is opened.

The engine knows topics as components and interests as topics or prefixes; a dialect makes of them what people who use
that broker would write. A dialect talks only while connections are set up (blocking, through a `Channel`). During a run
it is not called, but for the rare bytes that are no messages (`control_bytes`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

from generators.channel import Channel

__all__ = ["Dialect", "Interest", "Role", "Topic"]

Role = Literal["publisher", "subscriber"]
Topic = tuple[str, ...]
"""The components of a topic."""


class Interest(NamedTuple):
    """What a subscriber subscribes to."""

    topic: Topic
    below: bool = False
    """Whether it is all topics with further components below this one, not this one itself."""


class Dialect(Protocol):
    """One protocol, for the ports of one running broker."""

    unit_messages: int
    """How many messages one frame has; more than 1 only for a protocol that has batches."""

    def connect(self, role: Role) -> Channel:
        """Open a connection and shake hands."""

    def subscribe(self, channel: Channel, interests: Sequence[Interest]) -> None:
        """Subscribe, and return when the broker has done so."""

    def publication(self, topic: Topic, payloads: Sequence[bytes]) -> bytes:
        """Return what a publisher sends; `payloads` are `unit_messages` many."""

    def delivery(self, topic: Topic, payloads: Sequence[bytes], interest: Interest, place: int) -> bytes:
        """Return what a subscriber then gets (through a WebSocket: of message content, see `content`).

        Args:
            topic: Of the publication.
            payloads: Of the publication.
            interest: The one that matched.
            place: Its place among those of this connection.
        """

    def control_bytes(self, data: bytes) -> int:
        """Say what stands at the start of `data`, which is not the message that must come.

        Returns:
            Size of something that may come at any time (a ping); 0 if more must be read to know; -1 if it is an error.
        """

    def content(self, message: memoryview) -> memoryview | bytes:
        """Return of one WebSocket message what `delivery` wrote for the messages in it."""
