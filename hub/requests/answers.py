"""Answers on their way back: those of one requester travel together, and a reply for several is cut for each of them.

Cost: O(1) for each run of answers; cutting walks over the values of the reply once. No state.
"""

from __future__ import annotations

from hub.batch import value_ends
from hub.frame import BATCH_COUNT, BATCH_LIMIT_MESSAGES, FLAG_BATCH, KIND_MESSAGES, Frame
from hub.request_frame import TRANSACTIONS, Reply, Status
from hub.requests.pending import Participant

__all__ = ["AnswerRun", "AnswerRuns", "cut_values"]


class AnswerRun:
    """Some requests in a row of one requester, which are answered together."""

    __slots__ = ("asker", "count", "first", "place")

    def __init__(self, asker: Participant, first: int, count: int, place: int) -> None:
        self.asker = asker
        self.first = first
        self.count = count
        # Place of the first of them in the reply that they are cut from.
        self.place = place


class AnswerRuns:
    """Runs of answers, in the order in which they were found."""

    __slots__ = ("requests", "runs")

    def __init__(self) -> None:
        self.runs: list[AnswerRun] = []
        # How many requests all runs together have.
        self.requests = 0

    def add(self, asker: Participant, first: int, count: int, place: int = 0) -> None:
        """Add requests: to the last run, if they go on from it.

        Args:
            asker: The requester.
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
            self.runs.append(AnswerRun(asker, first, count, place))


def cut_values(reply: Reply, pieces: list[tuple[int, int]]) -> list[tuple[bytes, int]] | None:
    """Return values and flags for each piece of a reply.

    Args:
        reply: With or without BATCH.
        pieces: Place of the first value of each, and how many.

    Returns:
        None if the values cannot be told apart.
    """
    if not reply.flags & FLAG_BATCH:
        return [(reply.values, reply.flags) for _ in pieces]
    plain = reply.flags & ~FLAG_BATCH
    if reply.status != Status.OK:  # one value, the reason, stands for all
        reason = reply.values[BATCH_COUNT.size :]
        return [
            (reason, plain) if count == 1 else (BATCH_COUNT.pack(count) + reason, reply.flags) for _, count in pieces
        ]
    ends = value_ends(Frame(KIND_MESSAGES, reply.flags, b"", reply.values)) if pieces else []
    if ends is None:
        return None
    ends.append(BATCH_COUNT.size)  # where the first begins: behind the end of the "last before it"
    return [
        (reply.values[ends[place - 1] : ends[place]], plain)
        if count == 1
        else (BATCH_COUNT.pack(count) + reply.values[ends[place - 1] : ends[place + count - 1]], reply.flags)
        for place, count in pieces
    ]
