"""`LinkProof`: what this hub shows to a hub that it has dialled, shown afresh before it ends, so that the link stays.

```
far hub: until=600 ─▶ 480 s later: the file of `access.peer_token` ─▶ TOKEN ─▶ far hub: confirmed, until=600 ─▶ ...
                                          └── not to be read, or refused: told in the log, and tried again
```

A link that has shown a certificate, or nothing, has nothing to show afresh; the far hub ends it in time, and it is
dialled again, with what is in the files by then.

Owner: one `Link`, which asks once a second. No I/O but that of `read`. Not here: the first token, which is in HELLO.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from hub.settings.config import ConfigError
from peers.wire.token import Renewal, encode_token

__all__ = ["LinkProof"]

_RENEWED_AFTER = 0.8
"""The part of a proof's time after which it is renewed: a fifth is left for what may go wrong."""

_AGAIN_AFTER = 0.5
"""The part of what is left after which it is tried again."""

_LEAST_S = 1.0
"""Between two attempts, seconds."""


class LinkProof:
    """The proof of one link.

    Args:
        read: Returns the token that is to be shown now, empty for none; may raise `ConfigError`.
        tell: Told what goes wrong.
    """

    __slots__ = ("_due_s", "_ends_s", "_last", "_read", "_tell")

    def __init__(self, read: Callable[[], str], tell: Callable[[str], None]) -> None:
        self._read = read
        self._tell = tell
        self._ends_s = math.inf
        """When what was shown ends, by the clock of the loop."""
        self._due_s = math.inf
        """When it is shown afresh."""
        self._last = 0
        """The number of the last TOKEN; 0 before the first."""

    def hold(self, left_s: float | None, now_s: float) -> None:
        """Take note of how long what was shown holds, None for good."""
        if left_s is None:
            self._ends_s = self._due_s = math.inf
        else:
            self._ends_s = now_s + left_s
            self._due_s = now_s + max(_LEAST_S, left_s * _RENEWED_AFTER)

    def is_last(self, number: int) -> bool:
        """Return whether that is the number of the last TOKEN."""
        return number == self._last > 0

    def next(self, now_s: float, numbers: Iterator[int]) -> bytes:
        """Return the frame that shows a token, if it is time for that; empty otherwise.

        Args:
            now_s: The time, by the clock of the loop.
            numbers: Gives it a number that nothing else has which the far hub answers.
        """
        if now_s < self._due_s or now_s >= self._ends_s:
            return b""
        self._due_s = now_s + max(_LEAST_S, (self._ends_s - now_s) * _AGAIN_AFTER)
        try:
            token = self._read()
        except ConfigError as error:
            self._tell(str(error))
            return b""
        if not token:
            return b""
        self._last = next(numbers)
        return encode_token(Renewal(self._last, token))
