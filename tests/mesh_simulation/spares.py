"""`SparesWorld`: hubs that dial each other: those that they were told to, and spares. The mesh is the real one.

```
told to ─┐                   ┌─▶ nobody is there, or there is a link: failed
spares ──┴─▶ dial(address) ──┴─▶ a link, which ends when one of its hubs does, or its way is cut
```

A way between two hubs that is cut takes no link until the end. Whoever was told to dial tries once a second.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random

from hub.mesh.spares import Spares, View
from hub.mesh.tree import reached
from tests.mesh_simulation.hub import Hub
from tests.mesh_simulation.network import Clock, End, Link
from tests.mesh_simulation.truth import Truth

__all__ = ["Member", "SparesWorld"]

_LOOK_EVERY_S = 1.0
_ANSWER_S = 0.02
"""How long it takes to learn that nobody is there."""

_DELAY_S = 0.005


class Member(Hub):
    """A hub with spares.

    Args:
        number: Its address is made of it.
        degree: As the setting.
        world: Where it is.
        address: Where it says that it may be dialled; empty for nowhere.
    """

    def __init__(self, number: int, degree: int, world: SparesWorld, address: str) -> None:
        chance = world.chance
        super().__init__(chance.randbytes(16), world.clock, chance.uniform(0, 1000), world.truth)
        self.number = number
        self.address = address
        self.mesh.records[self.id].addresses = (address,) if address else ()
        self.spares = Spares(self.id, degree, chance)
        self.may_dial: Callable[[str], bool] = lambda _: True
        self.dialled = 0
        self._world = world
        self._awaited: dict[bytes, bytes] = {}  # who answers → the hub that was dialled
        world.clock.after(chance.uniform(0, _LOOK_EVERY_S), self._look)

    def _look(self) -> None:
        if not self.is_alive:
            return
        self._world.clock.after(_LOOK_EVERY_S, self._look)
        mesh = self.mesh
        addresses = {hub: record.addresses for hub, record in mesh.records.items()}
        graph = mesh.graph
        linked = self.ends.__contains__
        view = View(graph.links, graph.reached, graph.changes, linked, addresses, self.may_dial)
        dial, let_go = self.spares.look(view, self._now_s)
        if let_go is not None:
            self.ends[let_go].close()
        if dial is not None:
            self.dialled += 1
            self._world.clock.after(_ANSWER_S, partial(self._dial, dial.hub, dial.address))

    def _dial(self, hub: bytes, address: str) -> None:
        far = self._world.dial(self, address)
        if far is None:
            self.spares.failed(hub, self._now_s)
        else:
            self._awaited[far.id] = hub

    def link_up(self, end: End, far: bytes) -> None:
        """As any link, and perhaps a spare."""
        super().link_up(end, far)
        if far in self._awaited:
            self.spares.linked(self._awaited.pop(far), far, self._now_s)

    def link_down(self, end: End) -> None:
        """As any link, and perhaps a spare."""
        far = end.far.node.id
        super().link_down(end)
        if far in self.spares.hubs:
            self.spares.lost(far, self._now_s)


class SparesWorld:
    """Hubs, numbered from 0.

    Args:
        told: Who is told to dial whom.
        degree: Of all hubs.
        seed: Of ids, of when hubs look, and of what they draw.
        silent: The hubs that advertise no address.
    """

    def __init__(
        self, told: tuple[tuple[int, int], ...], degree: int = 2, seed: int = 0, silent: frozenset[int] = frozenset()
    ) -> None:
        self.chance = Random(seed)  # noqa: S311 -- the same each time
        self.clock = Clock()
        self.truth = Truth()
        self.members: list[Member] = []
        self.links: list[Link] = []
        self._told = told
        self._cut: set[frozenset[int]] = set()
        for number in range(1 + max(max(pair) for pair in told)):
            address = "" if number in silent else f"tcp://{number}:7400"
            self.members.append(Member(number, degree, self, address))
        for near, far in told:
            self._keep(near, far)

    def _keep(self, near: int, far: int) -> None:
        self.clock.after(_LOOK_EVERY_S, partial(self._keep, near, far))
        if self.members[near].is_alive:
            self._connect(self.members[near], self.members[far])

    def dial(self, near: Member, address: str) -> Member | None:
        """Return who has answered and will be linked; None for nobody."""
        for far in self.members:
            if far.address == address:
                return far if self._connect(near, far) else None
        return None

    def _connect(self, near: Member, far: Member) -> bool:
        pair = {near.number, far.number}
        if near is far or not far.is_alive or frozenset(pair) in self._cut:
            return False
        if any({one.number, other.number} == pair for one, other in self.linked()):
            return False
        self.links.append(Link(self.clock, (near, far), _DELAY_S))
        return True

    def linked(self) -> list[tuple[Member, Member]]:
        """The hubs of each link that there is, or that is about to be."""
        self.links = [link for link in self.links if not link.is_loose]
        return [(link.ends[0].node, link.ends[1].node) for link in self.links]  # type: ignore[misc]

    # What happens.

    def run_for(self, time_s: float) -> None:
        """Let time pass."""
        self.clock.run_for(time_s)

    def crash(self, number: int) -> None:
        """Let a hub end; its links are reset."""
        self.members[number].crash()
        for link in list(self.links):
            if any(end.node is self.members[number] for end in link.ends):
                link.reset()

    def cut(self, one: int, other: int) -> None:
        """Let the way between two hubs be gone."""
        self._cut.add(frozenset((one, other)))
        for link in list(self.links):
            if {end.node.number for end in link.ends} == {one, other}:  # type: ignore[attr-defined]
                link.reset()

    def heal(self) -> None:
        """Let all ways be there again."""
        self._cut.clear()

    # What there is.

    @property
    def alive(self) -> list[Member]:
        """Those that have not crashed."""
        return [member for member in self.members if member.is_alive]

    def is_in_one_piece(self, *, without: int | None = None, without_link: tuple[int, int] | None = None) -> bool:
        """Whether all that are alive are linked, directly or by others; also if one hub, or one link, were gone."""
        numbers = {member.number for member in self.alive} - {without}
        graph: dict[bytes, dict[bytes, int]] = {bytes([number]): {} for number in numbers if number is not None}
        for one, other in self.linked():
            pair = one.number, other.number
            if numbers.issuperset(pair) and set(pair) != set(without_link or ()):
                graph[bytes([pair[0]])][bytes([pair[1]])] = graph[bytes([pair[1]])][bytes([pair[0]])] = 1
        return len(reached(min(graph), graph)) == len(graph)

    def survives_any_failure(self) -> bool:
        """Whether any hub and any link may fail."""
        pairs = [(one.number, other.number) for one, other in self.linked()]
        return all(self.is_in_one_piece(without=member.number) for member in self.alive) and all(
            self.is_in_one_piece(without_link=pair) for pair in pairs
        )

    @property
    def dialled(self) -> int:
        """How many spares were dialled so far."""
        return sum(member.dialled for member in self.members)
