"""Metrics of the log of a process.

Owner: nobody: a scrape reads what the queue counts. What they mean is in docs/observability.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric

from peers.node.log_statistics import LogStatistics
from peers.node.metrics.family import counter, gauge

__all__ = ["log_metrics"]


def log_metrics(statistics: LogStatistics) -> Iterator[Metric]:
    """Yield what nobody has read yet, how much that may be, and what was dropped or left out."""
    yield gauge("hub_log_queued_bytes", "Lines of the log that are not written yet.", statistics.queued_bytes)
    yield gauge("hub_log_queue_limit_bytes", "How much that may be.", statistics.limit_bytes)
    yield counter("hub_log_dropped_lines", "Lines for which there was no room.", statistics.dropped_lines_total)
    yield counter("hub_log_suppressed_lines", "Lines of events that had many.", statistics.suppressed_lines_total)
