"""Metrics of the budget of memory.

Owner: nobody: a scrape reads what others count. What they mean is in docs/observability.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric

from hub.memory import MemoryStatistics
from peers.node.metrics.family import counter, gauge

__all__ = ["memory_metrics"]


def memory_metrics(statistics: MemoryStatistics) -> Iterator[Metric]:
    """Yield what there is, who holds it, and what was done for want of it."""
    yield gauge("hub_memory_limit_bytes", "The budget of memory.", statistics.limit_bytes)
    yield gauge("hub_memory_resident_bytes", "What is taken, at the last look.", statistics.resident_bytes)
    charged = GaugeMetricFamily("hub_memory_charged_bytes", "What the hub holds, about.", labels=("account",))
    for name, size_bytes in statistics.charged_bytes.items():
        charged.add_metric((name,), size_bytes)
    yield charged
    yield gauge("hub_memory_over", "1 while there is too little: what is new is refused.", statistics.is_over)
    yield counter("hub_memory_reliefs", "Times that something was dropped for it.", statistics.reliefs_total)
    yield counter("hub_memory_relieved_bytes", "What was dropped for it.", statistics.relieved_bytes_total)
    yield counter("hub_memory_refused", "What was refused for it.", statistics.refused_total)
