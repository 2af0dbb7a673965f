"""`FarSide`: whoever asks something of the hub, as the verbs see it: a list of what can be told to such a far side.

```
event ─▶ Verbs.act ─▶ core, journal ─▶ FarSide ─▶ NOTICE frames, or `confirmed`, `error`, … messages
```

Each protocol implements it once (`peers.connections.tcp`, `peers.websocket.dialogue`). An implementation adds what
it tells to the output of its session, so that answers stand before the messages that the same read has let through.
"""

from __future__ import annotations

from typing import Protocol

from hub.errors import CloseCode, InvalidNameError, InvalidTopicError, RejectedError
from hub.names.claim import Change

__all__ = ["INVALID", "FarSide", "rejection"]

INVALID = (RejectedError, InvalidTopicError, InvalidNameError)
"""The errors that the core raises for a request that it does not take."""


def rejection(error: Exception) -> RejectedError:
    """Translate an error of the core into the one that the far side is told. No other place translates errors."""
    if isinstance(error, RejectedError):
        return error
    return RejectedError(CloseCode.BAD_DATA, str(error))


class FarSide(Protocol):
    """Tells the far side, in the words of its protocol, what has become of what it asked for."""

    @property
    def frame_limit_bytes(self) -> int:
        """Largest answer that it takes, bytes."""

    def confirm(
        self, request: int, offset: int | None = None, *, text: str = "", messages: int = 0, again: bool = False
    ) -> None:
        """Tell that a request was carried out. For request 0 nothing is told: nobody waits for that number.

        Args:
            request: The number of the request.
            offset: For a subscription, where the journal stood when it began; for a COMMIT, the offset of its first
                message; None for other requests.
            text: "queued" for a claim to a name that somebody else owns for now; empty otherwise.
            messages: How many messages a COMMIT has committed; 0 for other requests.
            again: Whether this COMMIT had been carried out before, so that nothing was committed this time.
        """

    def reject(self, error: RejectedError, request: int = 0) -> None:
        """Tell that one request was refused."""

    def refuse(self, error: RejectedError, count: int, request: int = 0) -> None:
        """Tell that `count` messages, requests or replies were refused. Refusals of one read may be told as one sum."""

    def recorded(self, request: int, offset: int, messages: int) -> None:
        """Tell that messages are in the journal, the first of them at `offset`."""

    def unrecorded(self, error: RejectedError, request: int, messages: int) -> None:
        """Tell that messages which were to be confirmed are not in the journal."""

    def send_records(self, answer: bytes | bytearray, request: int) -> None:
        """Hand on the frame that a reader process has made for a FETCH."""

    def tell_name(self, change: Change) -> None:
        """Tell that a claim to a service name has another standing than the one that was told last."""

    def expect_answers(self) -> None:
        """Take note that the far side has asked something whose answer may not be dropped.

        Such answers pile up if the far side does not read them. So from now on the hub does not read from it while it
        does not read from the hub.
        """

    def put_off(self, rest: object) -> None:
        """Keep `rest`, and bring it to the verbs in a later turn, before anything else that the far side asks."""

    def write_later(self) -> None:
        """Write soon what was told. This is for what is told outside of a read, as a read ends with a write anyway."""
