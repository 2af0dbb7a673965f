"""Metrics of what hubs ask of one another's journals: pieces of them, and confirmations.

Owner: nobody: a scrape reads what others count. What they mean is in docs/observability.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric

from peers.journal.far_confirmations import WAITING_LIMIT, FarConfirmationsStatistics
from peers.journal.far_journals import ANSWERING_LIMIT, FarJournalStatistics
from peers.journal.marks import EXPECTED_LIMIT, MarksStatistics
from peers.node.metrics.family import counter, gauge

__all__ = ["far_confirmation_metrics", "far_journal_metrics", "mark_metrics"]


def far_confirmation_metrics(statistics: FarConfirmationsStatistics) -> Iterator[Metric]:
    """Yield the confirmations of other hubs that clients here wait for."""
    yield gauge("hub_far_confirmations_pending", "Confirmations of other hubs.", statistics.pending)
    yield gauge("hub_far_confirmations_limit", "From so many on nobody is read who asks for more.", WAITING_LIMIT)
    yield counter("hub_far_confirmations_asked", "Confirmations that were asked for.", statistics.asked_total)
    yield counter("hub_far_confirmations_refused", "Of these, those that are errors.", statistics.refused_total)
    yield counter("hub_far_confirmations_pauses", "Times that a publisher was not read on.", statistics.pauses_total)


def mark_metrics(statistics: MarksStatistics) -> Iterator[Metric]:
    """Yield the confirmations of this hub that other hubs wait for."""
    yield gauge("hub_marks_expected", "Confirmations that other hubs wait for.", statistics.expected)
    yield gauge("hub_marks_expected_limit", "How many there may be.", EXPECTED_LIMIT)
    yield counter("hub_marks_confirmed", "Batches confirmed to other hubs.", statistics.confirmed_total)
    yield counter("hub_marks_refused", "Batches not confirmed to other hubs.", statistics.refused_total)


def far_journal_metrics(statistics: FarJournalStatistics) -> Iterator[Metric]:
    """Yield the pieces of journals that hubs ask of one another."""
    yield gauge("hub_far_journals_pending", "Pieces of journals of other hubs.", statistics.pending)
    yield counter("hub_far_journals_asked", "Pieces that were asked for.", statistics.asked_total)
    yield gauge("hub_far_journals_answering", "Pieces that other hubs wait for.", statistics.answering)
    yield gauge("hub_far_journals_answering_limit", "How many there may be.", ANSWERING_LIMIT)
    yield counter("hub_far_journals_answered", "Questions of other hubs.", statistics.answered_total)
    yield counter("hub_far_journals_refused", "Questions that were refused.", statistics.refused_total)
