"""What was told to a collector of spans, and what was not. Owner: nobody; it is a value."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["SpanStatistics"]


class SpanStatistics(NamedTuple):
    """Spans since the start of the process, beside those that wait; nothing where nothing is followed."""

    waiting: int = 0
    limit: int = 0
    """How many may wait."""
    exported: int = 0
    failed: int = 0
    """The collector was away, too slow, or refused them."""
    overflowed: int = 0
    """There was no room for them."""
    skipped: int = 0
    """Messages that were not followed, as there were too many in a second."""
