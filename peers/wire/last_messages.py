"""`LastMessages`: what a client had sent before it read this side's CLOSE.

```
Session ── close_but_hear ──▶ CLOSE goes out, nothing more is said
   └─▶ LastMessages: MESSAGES ─▶ runs, as ever;  CLOSE ─▶ the end;  all else is thrown away
```

Purpose: a publisher is not answered, so it cannot know which of its messages the hub has read when it reads CLOSE. A
hub that stops tells publishers first, and hears them out. What would have to be answered is thrown away: messages with
CONFIRM, requests, subscriptions. Their senders learn from the end of the connection that there will be no answer.

Owner: one connection, which has it in place of the session (`peers.connections.conversation.Session`). No I/O.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from hub.errors import ProtocolError
from hub.frame import Frame
from hub.stretch import Run, Stretch
from peers.wire.control import decode_close
from peers.wire.events import Closing
from peers.wire.kinds import Kind
from peers.wire.scanner import NEED_DATA, NeedData, Scanner

__all__ = ["LastMessages"]

R = TypeVar("R")


class LastMessages(Generic[R]):
    """A conversation in which this side has said its last word, and the other one perhaps has not.

    Args:
        scanner: That of the session, with what was fed to it and not acted on.
    """

    __slots__ = ("_scanner", "feed")

    closed = True
    has_outgoing = False
    unfinished = rejected_messages = 0

    def __init__(self, scanner: Scanner[R]) -> None:
        self._scanner = scanner
        self.feed = scanner.feed

    @property
    def has_more(self) -> bool:
        """Whether something is left of what was read."""
        return self._scanner.has_more

    @property
    def held_bytes(self) -> int:
        """How many bytes were read and not acted on."""
        return self._scanner.waiting_bytes

    def next_event(self) -> Run[R] | Stretch[R] | Closing | NeedData | None:
        """Return the next messages, or the end; None for what is thrown away."""
        try:
            item = self._scanner.next_item()
            if type(item) is Run or type(item) is Stretch or item is NEED_DATA:
                return item
            if isinstance(item, Frame) and item.kind == Kind.CLOSE:
                return self._end(*decode_close(item.body))
        except ProtocolError as error:
            return self._end(error.code, error.text)
        return None

    def take_outgoing(self) -> bytes:
        """Return nothing: CLOSE was the last word."""
        return b""

    def _end(self, code: int, text: str) -> Closing:
        self._scanner.forget()
        return Closing(code, text, by_far_side=True)
