"""`OwnInterests`: what clients of this hub want, serve and are called, and its leaves, on their way to the other hubs.

```
filter, rules, services, names, leaves ─ each change ─▶ Mesh.change ─▶ announcements
```

Owner: the core, from the first link to a hub of the mesh on. Invariant: the mesh holds what these have told.
Not here: what other hubs want (`hub.far_hubs`).
"""

from __future__ import annotations

from hub.filter import Change
from hub.handler import Handler
from hub.mesh.announcement import Interests, Served
from hub.mesh.mesh import Mesh
from hub.names.claim import Announced
from hub.tags.rules import Rule


class OwnInterests:
    """What this hub tells the mesh.

    Args:
        mesh: Which.
    """

    __slots__ = ("_announced", "_mesh")

    def __init__(self, mesh: Mesh[Handler]) -> None:
        self._mesh = mesh
        # Name → how it was announced last; until it is nobody's here.
        self._announced: dict[str, Announced] = {}

    def change_filter(self, change: Change) -> None:
        """Prefixes are wanted here, or no longer."""
        self._mesh.change(change)

    def change_rule(self, rule: Rule, added: bool) -> None:  # noqa: FBT001 -- as all who are told of rules
        self._mesh.change(Interests((rule,)) if added else Interests(removed=(rule,)))

    def change_served(self, change: Change) -> None:
        self._mesh.change(Interests(tuple(map(Served, change.added)), tuple(map(Served, change.removed))))

    def change_leaves(self, change: Interests) -> None:
        """This hub has a leaf, or has it no longer."""
        self._mesh.change(change)

    def change_name(self, name: str, announced: Announced | None) -> None:
        """A name is held here, otherwise than before, or no longer."""
        before = self._announced.pop(name, None)
        if announced is not None:
            self._announced[name] = announced
        added = () if announced is None else (announced,)
        self._mesh.change(Interests(added, () if before is None else (before,)))
