"""`Replies`: answers to a client or hub, in the words of its protocol.

```
event ─▶ Commands.act ─▶ core, journal ─▶ Replies ─▶ NOTICE frames, or `confirmed`, `error`, … messages
```

Each protocol implements it once (`peers.connections.tcp`, `peers.websocket.dialogue`), in the output of its session, so
that answers precede the messages that the same read has let through.
"""

from __future__ import annotations

from typing import Protocol

from hub.errors import CloseCode, InvalidNameError, InvalidTopicError, RejectedError
from hub.names.claim import Change

INVALID = (RejectedError, InvalidTopicError, InvalidNameError)
"""Errors of the core for rejected requests."""


def rejection(error: Exception) -> RejectedError:
    """Translate an error of the core into one for the far side."""
    if isinstance(error, RejectedError):
        return error
    return RejectedError(CloseCode.BAD_DATA, str(error))


class Replies(Protocol):
    """Answers requests of a client or hub."""

    @property
    def frame_limit_bytes(self) -> int:
        """Largest answer that it takes, bytes."""

    def confirm(
        self, request: int, offset: int | None = None, *, text: str = "", messages: int = 0, again: bool = False
    ) -> None:
        """A request was carried out. Request 0 is not answered.

        Args:
            offset: The journal's position when a subscription began, or the first offset of a COMMIT.
            text: "queued" for a claim to a name with another owner.
            messages: Messages of a COMMIT.
            again: Whether this COMMIT was carried out before.
        """

    def reject(self, error: RejectedError, request: int = 0) -> None:
        """A request was rejected."""

    def refuse(self, error: RejectedError, count: int, request: int = 0) -> None:
        """`count` messages, requests or replies were rejected; those of one read may be summed up."""

    def recorded(self, request: int, offset: int, messages: int) -> None:
        """Messages are in the journal, the first of them at `offset`."""

    def unrecorded(self, error: RejectedError, request: int, messages: int) -> None:
        """Messages with CONFIRM are not in the journal."""

    def send_records(self, answer: bytes | bytearray, request: int) -> None:
        """Pass on the frame that a reader process made for a FETCH."""

    def tell_name(self, change: Change) -> None:
        """The claim to a service name has changed."""

    def expect_answers(self) -> None:
        """The far side waits for answers that may not be dropped: stop reading while it does not read."""

    def put_off(self, rest: object) -> None:
        """Bring `rest` to the commands in a later turn, before anything else of the far side."""

    def write_later(self) -> None:
        """Write answers soon; only for answers outside of a read."""
