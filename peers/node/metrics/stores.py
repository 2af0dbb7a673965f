"""Metrics of stores: what each holds, and what was done to it. A snapshot is turned into text.

Owner: nobody. Cost: about 20 µs a store, when they are asked for. What they mean is in docs/observability.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from peers.stores.stores import Stores

__all__ = ["store_metrics"]

_LABELS = ("store",)


def store_metrics(stores: Stores) -> Iterator[Metric]:
    """Yield the metrics of all stores of a hub."""
    yield GaugeMetricFamily("hub_stores", "Stores of this hub.", value=len(stores))
    entries = GaugeMetricFamily("hub_store_entries", "Entries.", labels=_LABELS)
    entries_limit = GaugeMetricFamily("hub_store_entries_limit", "How many there may be.", labels=_LABELS)
    sizes = GaugeMetricFamily("hub_store_bytes", "What they are charged.", labels=_LABELS)
    sizes_limit = GaugeMetricFamily("hub_store_bytes_limit", "How much that may be.", labels=_LABELS)
    kept = GaugeMetricFamily("hub_store_kept_changes", "Last changes that are kept.", labels=_LABELS)
    kept_limit = GaugeMetricFamily("hub_store_kept_changes_limit", "How many may be.", labels=_LABELS)
    counted = CounterMetricFamily("hub_store_operations", "What was done.", labels=("store", "what"))
    feeds: dict[str, tuple[int, int]] = {}
    for master in stores:
        labels, limits = (master.name,), master.store.limits
        statistics = master.statistics()
        store = statistics.store
        entries.add_metric(labels, store.entries)
        entries_limit.add_metric(labels, limits.entries)
        sizes.add_metric(labels, store.bytes)
        sizes_limit.add_metric(labels, limits.bytes)
        kept.add_metric(labels, store.kept_changes)
        kept_limit.add_metric(labels, limits.changes)
        for what, total in (
            ("command", statistics.commands_total),
            ("refused", store.refused_total),
            ("expired", store.expired_total),
            ("read", statistics.reads_total),
            ("snapshot", statistics.snapshots_total),
            ("published", statistics.published_total),
            ("keep_failure", statistics.keep_failures_total),
        ):
            counted.add_metric((master.name, what), total)
    for feed in stores.feeds:
        messages, lost = feeds.setdefault(feed.store, (0, 0))
        more = feed.statistics()
        feeds[feed.store] = (messages + more.messages_total, lost + more.lost_total)
    for name, (messages, lost) in feeds.items():
        counted.add_metric((name, "fed"), messages)
        counted.add_metric((name, "fed_lost"), lost)
    yield from (entries, entries_limit, sizes, sizes_limit, kept, kept_limit, counted)
