"""`Voice`: what a client tells its program beside messages: losses, refusals, what it cannot read.

Each is counted, told to the function that the program gave to `connect`, and logged the first time: more of its kind do
not flood the log. What such a function raises is reported to the event loop, and stops nothing.

Owner: one client, in its event loop. Not here: what it means for the connection (`peers.client.client`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from hub.batch import Batch, Message
from hub.errors import RejectedError
from hub.topics import printable
from peers.client.settings import ClientSettings
from peers.client.values import BadMessage, decode_batch

__all__ = ["Voice"]

_log = logging.getLogger("peers.client")


class Voice:
    """Of one client.

    Args:
        settings: With the functions of its program.
    """

    __slots__ = ("_loop", "_settings", "_warned", "bad_messages", "dropped_messages", "rejected_messages")

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._warned: set[str] = set()
        self.dropped_messages = 0
        self.rejected_messages = 0
        self.bad_messages = 0

    def drop(self, messages: int) -> None:
        """The hub has lost messages for this client."""
        self.dropped_messages += messages
        self.call(self._settings.on_dropped, messages)

    def reject(self, error: RejectedError, messages: int) -> None:
        """Published messages were refused."""
        self.rejected_messages += messages
        self._warn_once(f"messages were refused: {error}", "rejected")
        self.call(self._settings.on_rejected, error)

    def bad(self, bad: BadMessage) -> None:
        """Something came that is not what its encoding says."""
        self.bad_messages += bad.messages
        self._warn_once(f"bad message under {printable(bad.topic)}: {bad.reason}", "bad")
        self.call(self._settings.on_bad_message, bad)

    def decode(self, batch: Batch) -> list[Message]:
        """Return the messages of a batch; tell what of it cannot be read."""
        messages, bad = decode_batch(batch)
        for each in bad:
            self.bad(each)
        return messages

    def call(self, function: Callable[[Any], object], argument: object) -> None:
        """Call one of the program's functions; what it raises is reported, not passed on."""
        try:
            function(argument)
        except Exception as error:  # noqa: BLE001 -- of the caller's function
            self._loop.call_exception_handler({"message": "a function given to connect() failed", "exception": error})

    def _warn_once(self, text: str, kind: str) -> None:
        if kind not in self._warned:
            self._warned.add(kind)
            _log.warning("%s (logged once; see statistics())", text)
