"""Limits of requests, as plain numbers."""

from __future__ import annotations

import msgspec

__all__ = ["RequestLimits"]


class RequestLimits(msgspec.Struct, frozen=True):
    """How many requests may be pending, and for how long."""

    pending: int = 65_536
    """Requests of one client that may be pending; links have no limit of their own."""

    pending_total: int = 1_000_000
    """Requests of all that may be pending; about 0.5 KB each where each came alone."""

    timeout_s: float = 30.0
    """Time for an answer, for requests that do not say it, seconds."""

    timeout_max_s: float = 3600.0
    """Longest time that a request may give, seconds; a longer one is cut to it."""
