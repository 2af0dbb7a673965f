"""`MeshLinks`: the links of this hub to others of the mesh, and what it tells by them.

```
first link ─▶ filter, rules, services, names, leaves are told to the mesh from now on (`hub.own_interests`)
mesh: on_due ─▶ tell ─▶ whoever writes for that link
```

Owner: the core. Invariant: the mesh has a link from `add` to `discard`. Cost: that of `hub.mesh`.
Not here: links to hubs without a mesh, which are told directly (`peers.links.link`); what other hubs want
(`hub.far_hubs`).
"""

from __future__ import annotations

from collections.abc import Callable

from hub.far_hubs import FarHubs
from hub.handler import Handler
from hub.leaves import Leaves
from hub.mesh.mesh import Mesh
from hub.names.names import Names
from hub.origin import Origin
from hub.own_interests import OwnInterests
from hub.prefixes import PrefixSubscriptions
from hub.requests.requests import Requests
from hub.tags.subscriptions import RuleSubscriptions


class MeshLinks:
    """The links.

    Args:
        mesh: Which.
        far_hubs: What other hubs want.
        prefixes: What is wanted here, under prefixes.
        rules: The same by rules.
        requests: What is served here.
        names: Which names clients of this hub have.
        leaves: Which leaves this hub has.
    """

    __slots__ = ("_far_hubs", "_leaves", "_mesh", "_names", "_on_mesh", "_own", "_prefixes", "_requests", "_rules")

    def __init__(  # noqa: PLR0913, PLR0917 -- all that hubs tell each other
        self,
        mesh: Mesh[Handler],
        far_hubs: FarHubs,
        prefixes: PrefixSubscriptions,
        rules: RuleSubscriptions,
        requests: Requests,
        names: Names,
        leaves: Leaves,
    ) -> None:
        self._mesh = mesh
        self._far_hubs = far_hubs
        self._prefixes = prefixes
        self._rules = rules
        self._requests = requests
        self._names = names
        self._leaves = leaves
        # What this hub tells the mesh; None before the first link.
        self._own: OwnInterests | None = None
        # Link → what is called when it is to be told something; from `add` to `discard`.
        self._on_mesh: dict[Handler, Callable[[], object]] = {}

    def add(self, handler: Handler, hub: bytes, on_mesh: Callable[[], object], cost: int) -> None:
        """Make a link that is attached one of the mesh; see `Core.link`."""
        if self._own is None:
            self._own = self._begin()
        self._on_mesh[handler] = on_mesh
        handler.bring_from(Origin(hub, 0))
        handler.wanted_there = self._far_hubs.wanted_by(hub)
        self.write()
        self._mesh.link_up(handler, hub, cost=cost)

    def _begin(self) -> OwnInterests:
        """Tell the mesh from now on what is wanted, served and owned here."""
        own = OwnInterests(self._mesh)
        self._prefixes.asked_of_links.tell(own, own.change_filter)
        self._rules.tell(own, own.change_rule)
        self._requests.tell(own, own.change_served)
        self._names.tell(own, own.change_name)
        self._leaves.tell(own.change_leaves)
        return own

    def discard(self, handler: Handler) -> None:
        """A handler leaves; it does no harm if it is no link of the mesh."""
        if self._on_mesh.pop(handler, None) is not None:
            self.write()
            self._mesh.link_down(handler)

    def write(self) -> None:
        """Write what was routed by the ways of now: the news that these are others must not go before it."""
        for link in self._mesh.links:
            link.write_pending()

    def tell(self, link: Handler) -> None:
        """There is something to be told on a link; nobody hears of it if that has left."""
        on_mesh = self._on_mesh.get(link)
        if on_mesh is not None:
            on_mesh()
