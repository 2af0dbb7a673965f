"""Metrics of the journal of this hub, with its consumers, its segments and its tier.

Owner: nobody: a scrape reads what others count. What they mean is in docs/observability.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, Metric

from peers.journal.recording import JournalStatistics
from peers.node.metrics.consumers import consumer_metrics
from peers.node.metrics.family import counter, gauge, histogram
from peers.node.metrics.regroup import regroup_metrics
from peers.node.metrics.tier import tier_metrics

__all__ = ["journal_metrics"]


def journal_metrics(statistics: JournalStatistics) -> Iterator[Metric]:
    """Yield what was recorded, and what is done with it."""
    recorder, staging = statistics.recorder, statistics.staging
    yield gauge("hub_journal_ready", "1 while the journal is written.", not recorder.error)
    yield gauge("hub_journal_first_offset", "The oldest record.", recorder.first)
    yield gauge("hub_journal_committed_offset", "The offset behind the newest record.", recorder.committed)
    yield gauge("hub_journal_bytes", "Of all blocks on the disk.", recorder.size_bytes)
    yield counter("hub_journal_recorded", "Messages committed.", recorder.recorded_messages_total)
    yield counter("hub_journal_lost", "Messages not recorded for want of a disk.", recorder.lost_messages_total)
    yield counter("hub_journal_cut", "Positions cut back, as what was read is lost.", statistics.cuts_total)
    yield gauge("hub_journal_waiting_bytes", "On their way to the disk.", recorder.waiting_bytes)
    yield histogram("hub_journal_confirm_seconds", "From taking to the disk.", recorder.confirm_s)
    yield counter("hub_journal_pauses", "Times that a publisher was not read on.", recorder.pauses_total)
    yield gauge("hub_journal_readers", "Reader processes.", statistics.readers)
    yield gauge("hub_journal_fetches", "FETCHes that wait for an answer.", statistics.fetches)
    yield gauge("hub_journal_staged_transactions", "Transactions that wait for COMMIT.", staging.transactions)
    yield gauge("hub_journal_staged_bytes", "What waits for COMMIT.", staging.bytes)
    batches = CounterMetricFamily("hub_journal_batches", "Batches of writers, by outcome.", labels=("outcome",))
    batches.add_metric(("committed",), staging.committed_total)
    batches.add_metric(("repeated",), staging.repeated_total)
    batches.add_metric(("dropped",), staging.dropped_total)
    yield batches
    yield from consumer_metrics(statistics.consumers)
    if statistics.regroup is not None:
        yield from regroup_metrics(statistics.regroup)
    if statistics.tier is not None:
        yield from tier_metrics(statistics.tier, statistics.crashes_total)
