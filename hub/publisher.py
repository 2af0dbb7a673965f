"""What of what came may its source publish? The route says it, or, while policies change, each topic.

Owner: nobody. Cost: a verdict for each domain that the source was not asked for yet, 0.5 µs; nothing where the core has
found it in the set of those (`hub.handler.Handler.publishes_in`).

Not here: what becomes of the rest (`hub.refusals`), what decides (`hub.policy`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from hub.batch import Batch
from hub.errors import CloseCode, RejectedError
from hub.frame import Frame, encode_frame
from hub.handler import Handler
from hub.policy.policy import Rights
from hub.policy.refusal import not_granted
from hub.routes import Route, changes_refused
from hub.topics import printable

__all__ = ["is_decided_by_route", "may_publish", "not_granted_to", "not_its_own", "parted"]


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
