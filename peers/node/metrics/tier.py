"""Metrics of a journal's tier: how far it is copied, and what goes wrong with that. A snapshot is turned into text.

Owner: nobody. What they mean is in docs/observability.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from peers.journal.tiering import TierStatistics

__all__ = ["tier_metrics"]


def tier_metrics(tier: TierStatistics, crashes_total: int) -> Iterator[Metric]:
    """Yield what is known of a tier, and how many readers its files have ended."""
    gauge, counter = GaugeMetricFamily, CounterMetricFamily
    yield gauge("hub_journal_tier_ready", "1 while the journal is copied to its tier.", not tier.error)
    yield gauge("hub_journal_tier_first_offset", "The oldest record there.", tier.progress.first)
    yield gauge("hub_journal_tier_copied_offset", "The offset behind the newest record there.", tier.progress.next)
    yield gauge("hub_journal_tier_files", "Files of records there.", tier.progress.files)
    yield gauge("hub_journal_tier_bytes", "Length of these files.", tier.progress.size_bytes)
    yield gauge("hub_journal_tier_missed_messages", "Deleted here before they were copied.", tier.progress.missed)
    yield counter("hub_journal_tier_failures", "Times that copying failed.", tier.failures_total)
    yield counter("hub_journal_tier_restarts", "Times that the copying process ended.", tier.restarts_total)
    yield counter("hub_journal_tier_crashes", "Times that one of its files ended a reader process.", crashes_total)
