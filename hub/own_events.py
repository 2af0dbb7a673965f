"""`OwnEvents`: what the hub tells of itself, under topics of its own, and who here gets it.

```
announce ─▶ announcing: this process, or all of the hub's ─▶ tell_here ─▶ subscribers of the topic that may hear of hubs
```

Owner: the core. Cost: a lookup of the topic; a batch if anybody wants it. Not here: what there is to tell
(`hub.events`), how other processes of the hub are told (`peers.workers`).
"""

from __future__ import annotations

from collections.abc import Callable

from hub.batch import Batch
from hub.events import AUDIT_TOPIC, Event
from hub.handler import Handler
from hub.requests.hub_services import is_admin
from hub.routes import Routes

__all__ = ["OwnEvents"]


class OwnEvents:
    """Events of one hub, told to subscribers of it, and to no other hub.

    Args:
        routes: Says who subscribes to the topic of an event.
    """

    __slots__ = ("_routes", "announcing")

    def __init__(self, routes: Routes) -> None:
        self._routes = routes
        self.announcing: Callable[[Event], object] = self.tell_here
        """Takes what is announced. Where a hub is several processes, what is put here tells others, too."""

    def announce(self, event: Event) -> None:
        """Publish a message under one of the hub's own `$hub/` topics, to subscribers of this hub only."""
        self.announcing(event)

    def tell_here(self, event: Event) -> None:
        """Publish it to subscribers of this process, where a hub is several."""
        here = self._subscribers(event.topic)
        if here:
            batch = Batch.of(event.topic, (event.value,))
            for handler in here:
                handler.offer(batch)

    def is_wanted(self, topic: str) -> bool:
        """Return whether anybody here would get a message of the hub's own under this topic."""
        return bool(self._subscribers(topic))

    def _subscribers(self, topic: str) -> list[Handler]:
        wanting = self._routes.find(topic).handlers
        here = [handler for handler in wanting if handler.delivery.hears_of_hub(handler.prefixes)]
        return here if topic != AUDIT_TOPIC else [handler for handler in here if is_admin(handler)]
