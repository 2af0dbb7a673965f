"""`RequestCounters`: how many requests had which fate, and how many are pending.

Owner: `hub.requests.requests`, which counts as it goes; what is told of it is made when somebody asks. Invariants: a
total is never lowered. Not here: their Prometheus form (`peers.node.metrics`).
"""

from __future__ import annotations

from typing import NamedTuple

from hub.request_frame import Status

__all__ = ["RequestCounters", "RequestStatistics"]


class RequestStatistics(NamedTuple):
    """Requests at one moment. Totals count from the start of the hub, in requests, not in frames."""

    services: int
    """How many prefixes are served, here or at peer hubs."""
    pending: int
    asked_total: int
    """Requests that were taken from clients and links, without refused ones."""
    answered_total: dict[str, int]
    """Requests that were answered, by status."""
    abandoned_total: int
    """Requests whose requester left before the answer."""
    duplicate_total: int
    """Requests that were refused because their transaction id was pending."""
    late_total: int
    """Replies that came when their request was not pending any more."""
    unasked_total: int
    """Replies to what the service was never asked."""
    refused_total: int
    """Requests of those that may not ask, and replies with a status that only the hub itself may give."""


class RequestCounters:
    """The totals of `RequestStatistics`, each raised when it happens and never lowered."""

    __slots__ = ("abandoned", "answered", "asked", "duplicate", "late", "refused", "unasked")

    def __init__(self) -> None:
        self.asked = 0
        # How many requests were answered, at the number of each status.
        self.answered = [0] * len(Status)
        self.abandoned = 0
        self.duplicate = 0
        self.late = 0
        self.unasked = 0
        self.refused = 0

    def statistics(self, services: int, pending: int) -> RequestStatistics:
        """Return all of them as they are now."""
        return RequestStatistics(
            services=services,
            pending=pending,
            asked_total=self.asked,
            answered_total={status.name.lower(): self.answered[status] for status in Status},
            abandoned_total=self.abandoned,
            duplicate_total=self.duplicate,
            late_total=self.late,
            unasked_total=self.unasked,
            refused_total=self.refused,
        )
