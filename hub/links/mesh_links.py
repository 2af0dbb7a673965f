"""`MeshLinks`: the links of this hub to others of the mesh, and what its own clients want, serve and are called.

From the first link on, each change of the filter, rules, services, names and leaves of this hub goes to `Mesh.change`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from hub.handlers.handler import Handler
from hub.labels.rules import Rule
from hub.labels.subscriptions import RuleSubscriptions
from hub.links.leaves import Leaves
from hub.links.remote_hubs import RemoteHubs
from hub.mesh.announcement import Interests, Served
from hub.mesh.mesh import Mesh
from hub.messages.origin import Origin
from hub.names.claim import Announced
from hub.names.names import Names
from hub.prefixes.filter import Change
from hub.requests.requests import Requests
from hub.routing.subscriptions import PrefixSubscriptions


class MeshLinks:
    """The links; the mesh has each of them from `add` to `discard`."""

    __slots__ = (
        "_announced",
        "_leaves",
        "_mesh",
        "_names",
        "_on_mesh",
        "_prefixes",
        "_remote_hubs",
        "_requests",
        "_rules",
    )

    def __init__(  # noqa: PLR0913, PLR0917 -- all that hubs tell each other
        self,
        mesh: Mesh[Handler],
        remote_hubs: RemoteHubs,
        prefixes: PrefixSubscriptions,
        rules: RuleSubscriptions,
        requests: Requests,
        names: Names,
        leaves: Leaves,
    ) -> None:
        self._mesh, self._remote_hubs = mesh, remote_hubs
        self._prefixes, self._rules, self._requests = prefixes, rules, requests
        self._names, self._leaves = names, leaves
        # Name → how it was announced last, while a client of this hub holds it; None before the first link.
        self._announced: dict[str, Announced] | None = None
        # Link → what is called when it is to be sent something.
        self._on_mesh: dict[Handler, Callable[[], object]] = {}

    def add(self, handler: Handler, hub: bytes, on_mesh: Callable[[], object], cost: int) -> None:
        """Make a link that is attached one of the mesh; see `Core.link`."""
        if self._announced is None:
            self._begin()
        self._on_mesh[handler] = on_mesh
        handler.bring_from(Origin(hub, 0))
        handler.wanted_there = partial(self._remote_hubs.wanted_by, hub)
        self.write()
        self._mesh.link_up(handler, hub, cost=cost)

    def discard(self, handler: Handler) -> None:
        """A handler leaves; this does no harm if it is no link."""
        if self._on_mesh.pop(handler, None) is not None:
            self.write()
            self._mesh.link_down(handler)

    def write(self) -> None:
        """Write what was routed by the ways of now: news of other ways must not go before it."""
        for link in self._mesh.links:
            link.write_pending()

    def tell(self, link: Handler) -> None:
        """There is something to send on a link; it may have left."""
        on_mesh = self._on_mesh.get(link)
        if on_mesh is not None:
            on_mesh()

    def _begin(self) -> None:
        self._announced = {}
        self._prefixes.asked_of_links.tell(self, self._mesh.change)
        self._rules.tell(self._change_rule)
        self._requests.services.tell(self._change_served)
        self._names.tell(partial(self._change_name, self._announced))
        self._leaves.tell(self._mesh.change)

    def _change_rule(self, rule: Rule, added: bool) -> None:  # noqa: FBT001
        self._mesh.change(Interests((rule,)) if added else Interests(removed=(rule,)))

    def _change_served(self, change: Change) -> None:
        self._mesh.change(Interests(tuple(map(Served, change.added)), tuple(map(Served, change.removed))))

    def _change_name(self, told: dict[str, Announced], name: str, announced: Announced | None) -> None:
        before = told.pop(name, None)
        if announced is not None:
            told[name] = announced
        added = () if announced is None else (announced,)
        self._mesh.change(Interests(added, () if before is None else (before,)))
