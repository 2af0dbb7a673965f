"""What can go wrong in a benchmark, beside the hub's own errors: `BenchError`, and `PlanError` before it begins."""

from __future__ import annotations

from hub.errors import HubError

__all__ = ["BenchError", "PlanError"]


class BenchError(HubError):
    """The benchmark cannot be run as asked, or what it measures broke; the text says which."""


class PlanError(BenchError):
    """What is asked for cannot be measured; the text names the option. Nothing was done."""
