"""Counters of requests. Owner: `hub.requests.requests`."""

from __future__ import annotations

from typing import NamedTuple

from hub.requests.layout import Status

__all__ = ["RequestCounters", "RequestStatistics"]


class RequestStatistics(NamedTuple):
    """Requests at one moment. Totals count from the start of the hub, in requests, not in frames."""

    services: int
    """Prefixes that are served, here or at peer hubs."""
    pending: int
    asked_total: int
    """Taken from clients and links, refused ones not counted."""
    answered_total: dict[str, int]
    """By status."""
    abandoned_total: int
    """Whose requester left before the answer."""
    duplicate_total: int
    """Refused: their transaction id was pending."""
    late_total: int
    """Replies that came when their request was not pending any more."""
    unasked_total: int
    """Replies to what this service was never asked."""
    refused_total: int
    """Requests of those that may not ask, replies with a status that is the hub's own."""


class RequestCounters:
    """What is counted as it happens."""

    __slots__ = ("abandoned", "answered", "asked", "duplicate", "late", "refused", "unasked")

    def __init__(self) -> None:
        self.asked = 0
        self.answered = [0] * len(Status)
        self.abandoned = 0
        self.duplicate = 0
        self.late = 0
        self.unasked = 0
        self.refused = 0

    def statistics(self, services: int, pending: int) -> RequestStatistics:
        """Return them all."""
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
