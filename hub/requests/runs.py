"""`Runs`: answers for the same requester whose ids follow one another, so that they travel as one frame."""

from __future__ import annotations

from hub.frame import BATCH_LIMIT_MESSAGES
from hub.requests.layout import TRANSACTIONS
from hub.requests.pending import Party

__all__ = ["Run", "Runs"]


class Run:
    """Some requests in a row of one requester."""

    __slots__ = ("asker", "count", "first", "place")

    def __init__(self, asker: Party, first: int, count: int, place: int) -> None:
        self.asker = asker
        self.first = first
        self.count = count
        self.place = place  # of the first, in the reply that they are cut from


class Runs:
    """Runs in the order in which they were found."""

    __slots__ = ("requests", "runs")

    def __init__(self) -> None:
        self.runs: list[Run] = []
        self.requests = 0

    def add(self, asker: Party, first: int, count: int, place: int = 0) -> None:
        """Add requests: to the last run, if they go on from it.

        Args:
            asker: Whose they are.
            first: Transaction id of the first.
            count: How many.
            place: Of the first, in the reply that they are cut from; 0 for answers that all say the same.
        """
        self.requests += count
        last = self.runs[-1] if self.runs else None
        if (
            last is not None
            and last.asker is asker
            and (last.first + last.count) % TRANSACTIONS == first
            and (place == last.place + last.count or not place)
            and last.count + count <= BATCH_LIMIT_MESSAGES
        ):
            last.count += count
        else:
            self.runs.append(Run(asker, first, count, place))
