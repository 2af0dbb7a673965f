"""`Refusals`: what of what came is refused, since its source may not publish it, and who is told of that.

```
Core.publish, publish_stretch ──▶ what the route, or the topics, grant ──▶ routed on
                                                    └─▶ the rest: counted out, and told (`on_refused`)
```

Owner: the core, which asks only where something may have to be refused: a message with a sender, changes of a store, or
a domain in which the source was not seen to publish yet. Invariants: what is refused reaches nobody; what came beside
it in the same read does. Whoever confirms messages asks before (`check`), and tells it in an answer.

Cost: nothing for what the core does not ask; else that of `hub.refusals`, and the text of a refusal.

Not here: who may publish what (`hub.refusals`, `hub.policy`), the frame that tells it (`peers.connections`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import cast

from hub.batch import Batch
from hub.errors import CloseCode, RejectedError
from hub.frame import Frame, encode_frame
from hub.handler import Handler
from hub.policy.policy import Rights
from hub.policy.refusal import not_granted
from hub.routes import Route, changes_refused
from hub.stretch import Stretch
from hub.topics import printable


def not_its_own(route: Route, refused: Batch) -> RejectedError:
    """Return what is said to a handler of messages that bear the name of another one, or tell changes of a store."""
    if not route.sender:
        return changes_refused(next(iter(refused.topics())).decode())
    return RejectedError(CloseCode.NOT_ALLOWED, f"sender {printable(route.sender)}: that name is not yours")


def is_decided_by_route(source: Handler, routes: Iterable[Route]) -> bool:
    """Return whether routes say what `source` may publish on them.

    They do not while a policy takes the place of another: for what was read before, and for who has the rights of the
    one before. Then each topic is asked for.
    """
    rights = source.rights
    return rights is None or all(
        route.domains is not None and route.domains.policy is rights.policy for route in routes
    )


def may_publish(source: Handler, route: Route) -> bool:
    """Return whether a route is granted to `source`, as the route says; remember it if it is."""
    rights, domains = source.rights, route.domains
    return rights is None or (domains is not None and rights.may_in(source.acts.publishing, domains))


def parted(source: Handler, route: Route, batch: Batch) -> tuple[Batch | None, Batch | None]:
    """Return what of a batch is granted to `source`, and what is not; None for nothing."""
    if is_decided_by_route(source, (route,)):
        return (batch, None) if may_publish(source, route) else (None, batch)
    return _parted_by_topics(source, batch)


def _parted_by_topics(source: Handler, batch: Batch) -> tuple[Batch | None, Batch | None]:
    rights, action = source.rights, source.acts.publishing
    if rights is None:
        return batch, None
    granted = {topic: rights.may(action, topic.decode()) for topic in set(batch.topics())}
    if len(set(granted.values())) == 1:
        return (batch, None) if all(granted.values()) else (None, batch)
    frames: dict[bool, list[Frame]] = {True: [], False: []}
    for frame in batch.parts():
        frames[granted[frame.topic]].append(frame)
    return _joined(frames[True]), _joined(frames[False])


def _joined(frames: list[Frame]) -> Batch:
    """Return frames as one batch."""
    raw = b"".join([encode_frame(frame.kind, frame.body, key=frame.key, flags=frame.flags) for frame in frames])
    return Batch(raw, sum([frame.messages for frame in frames]))


def not_granted_to(source: Handler, refused: Batch) -> RejectedError:
    """Return what is said to a handler with rights of messages that it may not publish: it names the first topic."""
    topic = next(iter(refused.topics())).decode()
    return not_granted(cast("Rights", source.rights), source.acts.publishing, topic)


OnRefused = Callable[[RejectedError, int], object]
"""Tells a handler that so many of its messages were refused."""

HandlersOf = Callable[[Route], tuple[Handler, ...]]
"""Gives those who get what comes on a route."""


class Refusals:
    """What is refused, and the functions that tell it."""

    __slots__ = ("on_refused",)

    def __init__(self) -> None:
        # Handler → the function that tells it of refused messages. Its connection puts it here, if it can tell them.
        self.on_refused: dict[Handler, OnRefused] = {}

    def forget(self, handler: Handler) -> None:
        """Tell a handler nothing more, as it has left."""
        self.on_refused.pop(handler, None)

    def refuse_owned(self, source: Handler, route: Route, batch: Batch) -> None:
        """Refuse a batch that another one alone may publish."""
        self._tell(source, not_its_own(route, batch), batch.messages)

    def granted(self, source: Handler, route: Route, batch: Batch) -> Batch | None:
        """Return what of a batch `source` may publish, None for nothing of it; refuse the rest."""
        granted, refused = parted(source, route, batch)
        if refused is not None:
            self._tell(source, not_granted_to(source, refused), refused.messages)
        return granted

    def granted_of(self, source: Handler, stretch: Stretch[Route], handlers_of: HandlersOf) -> HandlersOf:
        """Refuse what `source` may not publish of a stretch, by what its routes say; return who gets the rest.

        Args:
            source: Who publishes. What is refused no longer counts as published by it.
            stretch: What it publishes.
            handlers_of: Who gets what comes on each route, as far as it is granted.
        """
        refused: set[Route] = set()
        for route, numbers in stretch.places.items():
            if not route.may_bring(source):
                error = not_its_own(route, stretch.run(numbers[0]))
            elif not may_publish(source, route):
                error = not_granted_to(source, stretch.run(numbers[0]))
            else:
                continue
            refused.add(route)
            messages = sum([stretch.messages[number] for number in numbers])
            source.published_messages -= messages
            self._tell(source, error, messages)
        return partial(_nobody_for, refused, handlers_of) if refused else handlers_of

    @staticmethod
    def check(source: Handler, route: Route, batch: Batch) -> None:
        """Check that `source` may publish on a route, for callers that tell it otherwise than through `on_refused`.

        Raises:
            RejectedError: It may not: the messages bear a name that is not its own, tell changes of a store, or are
                not granted to it.
        """
        if not route.may_bring(source):
            raise not_its_own(route, batch)
        if source.is_unbound or source.publishes_in is None or route.domains in source.publishes_in:
            return
        _, refused = parted(source, route, batch)
        if refused is not None:
            raise not_granted_to(source, refused)

    def _tell(self, source: Handler, error: RejectedError, messages: int) -> None:
        tell = self.on_refused.get(source)
        if tell is not None:
            tell(error, messages)


def _nobody_for(refused: set[Route], handlers_of: HandlersOf, route: Route) -> tuple[Handler, ...]:
    return () if route in refused else handlers_of(route)
