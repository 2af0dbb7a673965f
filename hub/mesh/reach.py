"""`Reach`: which hubs of the mesh can be reached, and how long those are remembered that cannot.

Owner: `Mesh`. Invariants: a hub that cannot be reached stays known for `FORGET_S`, as it may come back with the next
link; `on_reach` is called once for each time that one is lost or found. No clock: times are arguments, seconds. Cost: a
look goes over all hubs, once for many changes: a mesh that is made has one for each link.

Not here: which hubs are linked (`hub.mesh.graph`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Final

from hub.mesh.graph import Graph
from hub.mesh.record import Record

__all__ = ["FORGET_S", "LOOK_S", "Reach"]

FORGET_S: Final = 60.0
"""How long a hub is remembered that cannot be reached, seconds."""

LOOK_S: Final = 1.0
"""How long after a change it is looked which hubs can be reached, at the latest."""


class Reach:
    """Which hubs can be reached.

    Args:
        graph: Which hubs are linked.
        records: Every hub that is known; when each was lost is kept there.
        on_reach: As for `Mesh`.
    """

    __slots__ = ("_changed_s", "_forget_s", "_graph", "_look_s", "_on_reach", "_records")

    def __init__(self, graph: Graph, records: dict[bytes, Record], on_reach: Callable[[bytes, bool], object]) -> None:
        self._graph, self._records, self._on_reach = graph, records, on_reach
        # When the graph has changed last; when it is next looked which hubs can be reached, infinite if that is known.
        self._changed_s, self._look_s = 0.0, math.inf
        # When the next hub is to be forgotten; infinite while all can be reached.
        self._forget_s = math.inf

    def change(self, now_s: float) -> None:
        """The graph may be another one since now."""
        self._changed_s = now_s
        self._look_s = min(self._look_s, now_s + LOOK_S)

    def look(self, now_s: float) -> None:
        """Look which hubs can be reached, if it is time for that."""
        if self._look_s > now_s:
            return
        self._look_s = math.inf
        reached = self._graph.reached
        for hub, record in self._records.items():
            was_lost, is_lost = record.is_lost, hub not in reached
            record.lost_s = min(record.lost_s, self._changed_s) if is_lost else math.inf
            if is_lost is not was_lost:
                self._on_reach(hub, not is_lost)
        self._wait_to_forget()

    def find_the_lost(self) -> None:
        """Hubs that were lost may be reached again: then others are to be told of them at once."""
        if self._forget_s < math.inf:
            reached = self._graph.reached
            for hub, record in self._records.items():
                if record.is_lost and hub in reached:
                    record.lost_s = math.inf
                    self._on_reach(hub, True)

    def forget(self, now_s: float, forget: Callable[[Iterable[Record]], None]) -> None:
        """Let hubs be forgotten that could not be reached for long.

        Args:
            now_s: The time.
            forget: Called with them, if it is time for that; takes them out of the records.
        """
        if self._forget_s <= now_s:
            forget([record for record in self._records.values() if record.lost_s + FORGET_S <= now_s])
            self._wait_to_forget()

    def _wait_to_forget(self) -> None:
        self._forget_s = FORGET_S + min(record.lost_s for record in self._records.values())

    @property
    def due_s(self) -> float:
        """When there is something to look for, or to forget; infinite for never."""
        return min(self._look_s, self._forget_s)
