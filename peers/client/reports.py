"""`Reports`: events that a client reports to its program beside messages: losses, rejections, unreadable messages.

Each is counted, given to the function that the program gave to `connect`, and logged the first time. An exception of
such a function is reported to the event loop, and stops nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any

from hub.errors import PeerError, RejectedError
from hub.labels.envelope import TaggedMessage
from hub.messages.batch import Batch, Message
from hub.topics import printable
from peers.client.routes import Sink
from peers.client.settings import ClientSettings
from peers.client.values import BadMessage, decode_batch

_log = logging.getLogger("peers.client")


class OriginMessage(Message):
    """A topic and a value, with the id of the hub where they have entered the mesh."""

    origin: bytes = b""

    def __new__(cls, topic: str, value: Any, origin: bytes = b"") -> OriginMessage:  # noqa: PYI034 -- as `TaggedMessage`
        made = tuple.__new__(cls, (topic, value))
        made.origin = origin
        return made

    def __repr__(self) -> str:
        return f"OriginMessage(topic={self.topic!r}, value={self.value!r}, origin={self.origin.hex()!r})"


def with_origin(messages: Iterable[Message], origin: bytes) -> list[Message]:
    new = tuple.__new__  # the loop is paid for every message; `OriginMessage(...)` costs twice as much
    marked: list[Message] = []
    for message in messages:
        made = message if isinstance(message, TaggedMessage) else new(OriginMessage, message)
        made.origin = origin
        marked.append(made)
    return marked


class Reports(Sink):
    """The reports of one client. As a sink it gets messages whose routing key is no topic that this version reads."""

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._warned: set[str] = set()
        self.dropped_messages = 0
        self.rejected_messages = 0
        self.bad_messages = 0

    def drop(self, messages: int) -> None:
        """Report that the hub has dropped messages for this client."""
        self.dropped_messages += messages
        self.call(self._settings.on_dropped, messages)

    def cut(self, lost: range) -> None:
        """Report that the journal has lost the records of these offsets, which were read."""
        _log.warning("records %d to %d are lost, others have their offsets", lost.start, lost.stop - 1)
        self.call(self._settings.on_cut, lost)

    def reject(self, error: RejectedError, messages: int) -> None:
        """Report that publications were rejected, or a right withdrawn."""
        self.rejected_messages += messages
        self._warn_once(f"rejected by the hub: {error}", "rejected")
        self.call(self._settings.on_rejected, error)

    def tell(self, error: PeerError) -> None:
        """Report that the hub rejects something other than a message."""
        self.call(self._settings.on_rejected, error)

    def bad(self, bad: BadMessage) -> None:
        """Report data that does not match its encoding."""
        self.bad_messages += bad.messages
        self._warn_once(f"bad message under {printable(bad.topic)}: {bad.reason}", "bad")
        self.call(self._settings.on_bad_message, bad)

    def put(self, batch: Batch) -> None:
        for frame in batch.parts():
            topic = frame.key.decode("utf-8", "replace")
            reason = f"its routing key (flags 0b{frame.flags:08b}) is no topic that this version reads"
            self.bad(BadMessage(topic, frame.body, frame.messages, reason))

    def decode(self, batch: Batch, kind: type[Message] = Message) -> list[Message]:
        """Return the messages of a batch, of this class; report unreadable ones."""
        messages, bad = decode_batch(batch, kind)
        for each in bad:
            self.bad(each)
        return messages if batch.origin is None else with_origin(messages, batch.origin.hub)

    def call(self, function: Callable[[Any], object], argument: object) -> None:
        """Call one of the program's functions; its exceptions are reported to the event loop."""
        try:
            function(argument)
        except Exception as error:  # noqa: BLE001 -- of the caller's function
            self._loop.call_exception_handler({"message": "a function given to connect() failed", "exception": error})

    def _warn_once(self, text: str, kind: str) -> None:
        if kind not in self._warned:
            self._warned.add(kind)
            _log.warning("%s (logged once; see statistics())", text)
