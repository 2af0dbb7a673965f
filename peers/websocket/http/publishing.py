"""`Publishing`: the messages of one POST, and its answer.

```
Values ─▶ publish ─▶ commands ─▶ confirmed, refused                at once
                          └─▶ recorded, refused                 once the journal has it, in the order of the messages
Done   ─▶ is_settled ─▶ answer: {"messages": 3, "offsets": [[17, 3]]}
```

Values behind a rejected one are not published; the answer says how many were.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final

from hub.errors import CloseCode, RejectedError
from peers.commands.publish import Publication
from peers.websocket.http.content import Target, Values, error_body, json_body, status_of

_MESSAGES_PER_EVENT: Final = 64
"""Messages of one frame that cost as much of a turn's share as another event."""

RANGES_LIMIT: Final = 1_000
"""Most ranges of offsets in an answer: messages of one POST stand together unless others publish, too."""


class Publishing:
    """One POST.

    Args:
        target: Where its messages go.
        act: Publishes.
    """

    def __init__(self, target: Target, act: Callable[[Publication], int]) -> None:
        self._target = target
        self._act = act
        self._last = 0
        self._pending: dict[int, tuple[int, int]] = {}
        """The number of each frame that is not answered: its first line, and its number of messages."""
        self._offsets: list[list[int]] = []
        """First offset and number of messages of each range that is recorded."""
        self._untold = 0
        """Messages that are recorded in further ranges."""
        self._refusal: tuple[int, str, int] | None = None
        """Code, text and line of the first rejection."""
        self.is_done = False
        self.messages = 0
        """Messages that were published, and recorded where that was asked for."""

    @property
    def is_refused(self) -> bool:
        """Whether a value was rejected: nothing more is published."""
        return self._refusal is not None

    @property
    def is_settled(self) -> bool:
        """Whether it can be answered."""
        return (self.is_done or self.is_refused) and not self._pending

    def publish(self, values: Values) -> int:
        """Publish values, unless one was rejected before; return the share of a turn."""
        if self._refusal is not None:
            return 0
        self._last += 1
        publication = self._target.publication(values.packed, self._last)
        self._pending[self._last] = (values.line, publication.messages)
        return 1 + publication.messages // _MESSAGES_PER_EVENT + self._act(publication)

    def refuse(self, code: int, text: str, line: int = 0) -> None:
        """Reject this value and all behind it."""
        if self._refusal is None:
            self._refusal = (code, text, line)

    # What the hub says of it.

    def confirmed(self, request: int) -> None:
        """A frame was published."""
        _, messages = self._pending.pop(request, (0, 0))
        self.messages += messages

    def refused(self, error: RejectedError, request: int) -> None:
        """A frame was not published, or not recorded."""
        line, _ = self._pending.pop(request, (0, 0))
        self.refuse(error.code, error.text, line)

    def recorded(self, request: int, offset: int, messages: int) -> None:
        """A frame is in the journal."""
        self.confirmed(request)
        ranges = self._offsets
        if ranges and sum(ranges[-1]) == offset:
            ranges[-1][1] += messages
        elif len(ranges) < RANGES_LIMIT:
            ranges.append([offset, messages])
        else:
            self._untold += messages

    # The answer.

    def answer(self) -> tuple[HTTPStatus, bytes]:
        """Return status and body."""
        told: dict[str, Any] = {"messages": self.messages}
        if self._target.confirm:
            told["offsets"] = self._offsets
            if self._untold:
                told["untold"] = self._untold
        if self._refusal is None:
            return HTTPStatus.OK, json_body(told)
        code, text, line = self._refusal
        return status_of(code), error_body(CloseCode(code), text, line, **told)
