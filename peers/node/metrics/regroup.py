"""Metrics of the process that lays segments anew: what it has done, and what goes wrong. A snapshot becomes text.

Owner: nobody. What they mean is in docs/observability.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from peers.journal.regrouping import RegroupStatistics

__all__ = ["regroup_metrics"]


def regroup_metrics(regroup: RegroupStatistics) -> Iterator[Metric]:
    """Yield what was laid anew."""
    gauge, counter = GaugeMetricFamily, CounterMetricFamily
    yield gauge("hub_journal_regroup_ready", "1 while sealed segments are laid anew.", not regroup.error)
    yield counter("hub_journal_regroup_segments", "Segments that were laid anew.", regroup.laid_total)
    sizes = counter("hub_journal_regroup_bytes", "What these took on the disk.", labels=("when",))
    sizes.add_metric(("before",), regroup.before_bytes_total)
    sizes.add_metric(("after",), regroup.after_bytes_total)
    yield sizes
    yield counter("hub_journal_regroup_skipped", "Damaged segments that stay as they are.", regroup.skipped_total)
    yield counter("hub_journal_regroup_failures", "Times that it failed.", regroup.failures_total)
    yield counter("hub_journal_regroup_restarts", "Times that its process ended too early.", regroup.restarts_total)
