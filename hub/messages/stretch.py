"""`Stretch`: the messages of one read, cut into runs, without an object for each message.

```
data:  [/a][/a][/b][/c][/b][/b][/a] [SUBSCRIBE] ...
       └─ run ─┘└run┘└run┘└─ run ─┘└run┘          runs: consecutive frames with the same route object
       └──────────── stretch ──────────┘           all under the same subscriptions: no control frame within
```

A read that is one run is a `Run`, which is a batch already. `gathered` joins the runs that each handler receives of a
stretch: one batch, also where topics alternate. Handlers that get the same runs share the batch. That
costs one or two list operations a run, and one batch and one offer a handler instead of one a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

from hub.messages.batch import BATCH_OVERHEAD_BYTES, Batch

try:
    from hub.messages._runs import find_runs, join_runs
except ImportError:  # not built: no compiler was there
    from hub.messages.runs import find_runs, join_runs

__all__ = ["Run", "Stretch", "find_runs"]

R = TypeVar("R")
H = TypeVar("H")


class Run(Batch, Generic[R]):
    """A batch with its route: messages of one read that go the same way."""

    __slots__ = ("route",)

    def __init__(self, route: R, frames: bytes, messages: int) -> None:
        # As `Batch` does: a call less for each read, since most bring one run.
        self.frames = frames
        self.messages = messages
        self.frames_bytes = frames_bytes = len(frames)
        self.size_bytes = frames_bytes + BATCH_OVERHEAD_BYTES
        self.origin = None
        self._forms = None
        self._is_sound = False
        self.route = route


class Stretch(Generic[R]):
    """Several runs of one read that stand behind one another."""

    __slots__ = ("_data", "_places", "_start", "ends", "messages", "routes")

    routes: list[R]  # The route of each run

    ends: list[int]  # Where each run ends in the read

    messages: list[int]  # How many messages each run holds

    def __init__(self, data: bytes, start: int, runs: tuple[list[R], list[int], list[int]]) -> None:
        self._data = data
        self._start = start
        self.routes, self.ends, self.messages = runs
        # Empty until needed.
        self._places: dict[R, list[int]] = {}

    def whole(self) -> Batch:
        """Return all of it as one batch. The read is not copied if it holds nothing else."""
        data, start, end = self._data, self._start, self.ends[-1]
        return Batch(data if end - start == len(data) else data[start:end], sum(self.messages))

    def only(self, is_wanted: Callable[[R], bool]) -> Batch:
        """Return the runs with wanted routes, at least one, as one batch."""
        return self._joined(
            sorted(number for route, some in self.places.items() if is_wanted(route) for number in some)
        )

    def __iter__(self) -> Iterator[Run[R]]:
        start = self._start
        for route, end, messages in zip(self.routes, self.ends, self.messages, strict=True):
            yield Run(route, self._data[start:end], messages)
            start = end

    def run(self, number: int) -> Run[R]:
        """Return one run, by its place among them, as a batch of its own."""
        start = self.ends[number - 1] if number else self._start
        return Run(self.routes[number], self._data[start : self.ends[number]], self.messages[number])

    @property
    def places(self) -> dict[R, list[int]]:
        """Each route once, with the numbers of its runs."""
        places = self._places
        if not places:
            for number, route in enumerate(self.routes):
                if route in places:
                    places[route].append(number)
                else:
                    places[route] = [number]
        return places

    def gathered(self, handlers_of: Callable[[R], Sequence[H]]) -> Iterator[tuple[Sequence[H], Batch]]:
        """Yield handlers, each once, and the batch that they get; `handlers_of` gives the handlers of a route."""
        places = self.places
        wanting = {route: handlers_of(route) for route in places}
        handlers = {handler for some in wanting.values() for handler in some}
        if len(handlers) == sum(map(len, wanting.values())):  # no handler wants two of these routes
            for route, some in wanting.items():
                if some:
                    yield some, self._joined(places[route])
            return
        yield from self._by_interest(places, wanting)

    def _by_interest(
        self, places: dict[R, list[int]], wanting: dict[R, Sequence[H]]
    ) -> Iterator[tuple[Sequence[H], Batch]]:
        """Give one batch to all handlers that want the same of these routes."""
        interests: dict[H, list[R]] = {}
        for route, some in wanting.items():
            for handler in some:
                interests.setdefault(handler, []).append(route)
        together: dict[tuple[R, ...], list[H]] = {}
        for handler, routes in interests.items():
            together.setdefault(tuple(routes), []).append(handler)
        for routes_wanted, some in together.items():
            numbers = sorted(number for route in routes_wanted for number in places[route])
            yield some, self.whole() if len(numbers) == len(self.routes) else self._joined(numbers)

    def _joined(self, numbers: list[int]) -> Batch:
        frames, messages = join_runs(self._data, self._start, self.ends, self.messages, numbers)
        return Batch(frames, messages)
