"""`Prospect`: what becomes at this hub of a message of some topic, without one: who would get it, and who would not.

It asks the same rights, the same route and the same upstream as `Core.publish` does of a message.

Owner: nobody; it is a value. Cost: that of a route that is looked up, and the links of this hub. Not here: labels and
names on a message, which may lead to others than the topic alone.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from hub.handler import Handler
from hub.mesh.mesh import Mesh
from hub.routes import Route

__all__ = ["Outcome", "Prospect", "prospect"]


class Outcome(StrEnum):
    """Whether a message is taken at all."""

    TAKEN = "taken"
    POLICY = "policy"
    """The link that brings it may not bring this topic here."""
    OVERTAKEN = "overtaken"
    """A newer epoch of its origin has come before it."""
    ANOTHER_WAY = "another way"
    """What comes of that epoch is taken from another link."""


class Prospect(NamedTuple):
    """What becomes of a message."""

    outcome: Outcome
    subscribers: int = 0
    """How many get it here: no peer hubs, and no leaves that are left to another hub."""
    onward: tuple[Handler, ...] = ()
    """The links on which it goes on."""
    barred: tuple[Handler, ...] = ()
    """The links that lead to somebody who wants it, and may not take it."""


def prospect(route: Route, source: Handler | None, mesh: Mesh[Handler]) -> Prospect:
    """Return what becomes of a message that is taken.

    Args:
        route: Of its topic.
        source: The link that brings it; None where it enters the mesh here.
        mesh: Says which links lead to whom.
    """
    origin = None if source is None else source.origin
    handlers = route.handlers if source is None else route.of_way(source.way)
    leading = mesh.traffic.onward(mesh.hub if origin is None else origin.hub, route.far) if route.barred else ()
    return Prospect(
        Outcome.TAKEN,
        sum(not one.delivery.is_left for one in route.near),
        tuple(one for one in handlers if one.is_link and one.id),  # what only counts is attached nowhere
        tuple(link for link in leading if link in route.barred),
    )
