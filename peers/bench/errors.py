"""`BenchError`: what can go wrong in a benchmark, beside the hub's own errors."""

from __future__ import annotations

from hub.errors import HubError

__all__ = ["BenchError"]


class BenchError(HubError):
    """The benchmark cannot be run as asked, or what it measures broke; the text says which."""
