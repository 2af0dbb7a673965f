"""`Gaps`: who is told, as a read ends, that messages for him were lost before they came here.

```
a run that newer messages have overtaken ─▶ its route: who of this hub wanted it ─▶ end of the read ─▶ one gap for each
```

Newer messages of the same hub have come before them, so there is no place in a stream where they would have stood: the
gap is told behind all that the read has brought.

Owner: the core. Cost: that of an offer for each run and handler, and a notice for each handler and read, however many
runs were refused. Not here: what is lost (`hub.mesh.upstream`), how a gap is told (`hub.handler`).
"""

from __future__ import annotations

from collections.abc import Callable

from hub.handler import Handler

__all__ = ["Gaps"]


class Gaps:
    """What is to be told when this read ends.

    Args:
        on_dirty: Called with this object when there is something; leads to `flush`.
    """

    __slots__ = ("_messages", "_on_dirty")

    def __init__(self, on_dirty: Callable[[Gaps], object]) -> None:
        self._on_dirty = on_dirty
        # Handler → how many messages; emptied by `flush`.
        self._messages: dict[Handler, int] = {}

    def add(self, handler: Handler, messages: int) -> None:
        """A handler would have got messages."""
        if not self._messages:
            self._on_dirty(self)
        self._messages[handler] = self._messages.get(handler, 0) + messages

    pending_bytes = 0
    write_cost = 1
    can_wait = False

    def flush(self) -> None:
        """Tell them."""
        told, self._messages = self._messages, {}
        for handler, messages in told.items():
            handler.tell_gap(messages)
