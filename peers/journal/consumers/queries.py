"""`Queries`: the consumers that read the journal by themselves, as queries of Spark do, and only say how far they are.

```
query ── commit, about once a second ─▶ Queries ─▶ its lag, beside that of other consumers
                                           └─▶ Positions, when it has moved
```

Such a one has no members, is given nothing and holds nothing: what it has read, and where it begins anew, is its own
affair, and stands in its own checkpoint. So it may also go back, where it was started anew from an older place; that is
told. What retention deletes before it has come that far counts as lag, until it is past that.

Owner: `Consumers`, in the event loop. Bounds: `journal.consumers` and `journal.user_consumers`, for these and
the others together; one that was not heard of for `FORGOTTEN_S` is forgotten, and told. Cost: a question and a small
map for each commit; the disk only where one has moved. Not here: who may say so (`peers.journal.consumers.service`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from hub.consumers.consumer import ConsumerCounters, Progress
from hub.consumers.terms import Terms
from peers.journal.consumers.positions import Kept, Positions
from peers.journal.consumers.statistics import ConsumerStatistics

__all__ = ["FORGOTTEN_S", "Queries"]

FORGOTTEN_S: Final = 30 * 86_400
"""How long a query that is not heard of is kept, s: names that nobody uses would count for `journal.consumers`."""

_NOTHING_COUNTED: Final = ConsumerCounters(0, 0, 0, 0, 0, 0)


class _Query:
    """One query.

    Args:
        terms: Of which the prefixes alone have a meaning: what it reads.
        position: It is done with everything before this offset.
        heard_s: When it has said so, s since 1970.
    """

    __slots__ = ("heard_s", "position", "terms")

    def __init__(self, terms: Terms, position: int, heard_s: float) -> None:
        self.terms = terms
        self.position = position
        self.heard_s = heard_s

    def kept(self) -> Kept:
        """Return what is to be on the disk."""
        return Kept(self.terms, Progress(self.position), self.heard_s)


class Queries:
    """All of them at one hub.

    Args:
        positions: What is kept of them.
        announce: Tells of something that has happened to a consumer of that name.
        now_s: Returns the time, s since 1970.
    """

    def __init__(
        self,
        positions: Positions,
        announce: Callable[[str, dict[str, Any]], None],
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._positions = positions
        self._announce = announce
        self._now_s = now_s
        # Name → query.
        self._queries: dict[str, _Query] = {}
        self.forgotten_total = 0
        """How many were forgotten, as nothing was heard of them for too long."""

    def __len__(self) -> int:
        return len(self._queries)

    def __contains__(self, name: str) -> bool:
        return name in self._queries

    def __iter__(self) -> Iterator[str]:
        return iter(self._queries)

    def restore(self, name: str, terms: Terms, position: int, heard_s: float) -> None:
        """Take one that was kept on the disk."""
        self._queries[name] = _Query(terms, position, heard_s)

    def commit(self, name: str, terms: Terms, position: int) -> None:
        """Take note of how far one is, and of what it reads, which may be another than before."""
        now_s = self._now_s()
        query = self._queries.get(name)
        if query is None:
            query = self._queries[name] = _Query(terms, position, now_s)
            self._announce(name, {"state": "made", "prefixes": list(terms.prefixes), "position": position})
        elif (query.terms, query.position) == (terms, position):
            query.heard_s = now_s
            return
        elif position < query.position:
            self._announce(name, {"state": "back", "from": query.position, "to": position})
        query.terms, query.position, query.heard_s = terms, position, now_s
        self._positions.put(name, query.kept)

    def remove(self, name: str) -> bool:
        """Forget one, and say whether there was one."""
        return self._forget(name, "removed")

    def _forget(self, name: str, state: str) -> bool:
        query = self._queries.pop(name, None)
        if query is None:
            return False
        self._positions.put(name, None)
        self._announce(name, {"state": state, "position": query.position})
        return True

    def tick(self) -> None:
        """Forget those that were not heard of for too long; to be called about once a second."""
        oldest_s = self._now_s() - FORGOTTEN_S
        for name in [name for name, query in self._queries.items() if query.heard_s < oldest_s]:
            self.forgotten_total += self._forget(name, "forgotten")

    def statistics(self, committed: int) -> list[ConsumerStatistics]:
        """Return how all of them stand.

        Args:
            committed: Everything before this offset is on the disk.
        """
        now_s = self._now_s()
        return [
            ConsumerStatistics(
                name=name,
                prefixes=query.terms.prefixes,
                members=0,
                position=query.position,
                lag=max(0, committed - query.position),
                held=0,
                out=0,
                held_bytes=0,
                counters=_NOTHING_COUNTED,
                error="",
                committed_s=round(max(0.0, now_s - query.heard_s), 3),
            )
            for name, query in self._queries.items()
        ]

    def keep(self) -> None:
        """Have all written, with when they were heard of: of those that stand still nothing else does that."""
        for name, query in self._queries.items():
            self._positions.put(name, query.kept)
