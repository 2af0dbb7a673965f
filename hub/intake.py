"""`Intake`: which messages of links are taken, and who here is told of those that are lost.

```
messages of a link ─▶ accepts ─┬─ yes: the link bears it (`accepted_at`, `way`), until ways change
                               └─ no:  counted ─▶ tell_gaps: whoever wanted them, where it is sure that he gets none
```

Owner: the core. Cost: whether a link's messages are taken is asked once, until ways change; a reader looks at
`accepted_at` first. Not here: what is decided by (`hub.mesh.traffic`), when a gap is told (`hub.intake`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hub.handler import Handler
from hub.mesh.traffic import Traffic
from hub.routes import Route


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


class Intake:
    """What a hub takes of its links.

    Args:
        traffic: Which messages are taken of which link.
        gaps: Who is told, as this read ends, that messages for him were lost.
    """

    __slots__ = ("_gaps", "_traffic")

    def __init__(self, traffic: Traffic[Handler], gaps: Gaps) -> None:
        self._traffic = traffic
        self._gaps = gaps

    def accepts(self, link: Handler, messages: int) -> bool:
        """Return whether what a link brings is taken; otherwise count it.

        A hub that is no part of the mesh says nothing of origins, and is believed: what it brings goes no further.
        """
        origin = link.origin
        if origin is None or self._traffic.accepts(link, origin.hub, origin.epoch):
            link.accepted_at = self._traffic.upstreams.turnover
            link.way = None if origin is None else self._traffic.way(link, origin.hub)
            return True
        link.published_messages += messages  # they have arrived, as far as the link is concerned
        link.look_at += messages
        link.looked_messages += messages
        self._traffic.refuse(link, origin, messages)
        return False

    def is_lost(self, link: Handler) -> bool:
        """Return whether what is not taken of a link is sure not to come by another one."""
        return link.origin is not None and self._traffic.is_lost(link, link.origin.hub, link.origin.epoch)

    def tell_gaps(self, link: Handler, runs: Iterable[tuple[Route, int]]) -> None:
        """Tell subscribers of this hub what was not taken of a link, where it is sure that they do not get it.

        Args:
            link: Which.
            runs: Routes, each with how many messages.
        """
        if not self.is_lost(link):
            return
        granted = link.publishes_in
        for route, messages in runs:
            if granted is None or route.domains in granted:  # what it may not bring is missed by nobody
                for handler in route.near:
                    self._gaps.add(handler, messages)
