"""Metrics of a hub of several processes: those of each process, with the label `worker`: `core`, `1`, `2` and so on.

They are not added up: a message is taken at one worker, and again at the core and at each worker that it is passed on
to, and limits, ages and sizes of what all know have no sum. Whoever wants one says `sum without (worker) (...)`.

Beside them are those of the hub as a whole (`worker_metrics`). What they mean is in docs/observability.md.

Owner: nobody. Cost: about 0.3 ms a process and scrape.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from peers.node.metrics import registry

__all__ = ["WorkerCounts", "exposition_of_all", "plain", "worker_metrics"]

Plain = list[tuple[str, str, str, list[tuple[str, dict[str, str], float]]]]
"""Metrics as msgpack carries them: name, text, type, and samples with name, labels and value."""


class WorkerCounts(NamedTuple):
    """How workers do."""

    up: int
    limit: int
    started_total: int
    ended_total: int
    silent_total: int


def plain(node: Any) -> Plain:
    """Return the metrics of one process."""
    return [
        (one.name, one.documentation, one.type, [(sample.name, sample.labels, sample.value) for sample in one.samples])
        for one in registry(node).collect()
    ]


def exposition_of_all(counts: WorkerCounts, parts: Iterable[tuple[str, Plain]]) -> bytes:
    """Return everything as Prometheus text.

    Args:
        counts: How workers do.
        parts: What each process calls itself in `worker`, and its metrics.
    """
    found: dict[str, Metric] = {}
    for label, part in parts:
        for name, text, kind, samples in part:
            family = found.setdefault(name, Metric(name, text, kind))
            for sample, labels, value in samples:
                family.add_sample(sample, {"worker": label} | labels, value)
    whole = CollectorRegistry()
    whole.register(_Collected([*worker_metrics(counts), *found.values()]))
    return generate_latest(whole)


class _Collected:
    """Metrics that are there already."""

    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def describe(self) -> list[Metric]:
        """Return nothing: names are not looked at."""
        return []

    def collect(self) -> list[Metric]:
        """Return them."""
        return self._families


def worker_metrics(counts: WorkerCounts) -> Iterator[Metric]:
    """Yield what processes there are, and have been."""
    yield GaugeMetricFamily("hub_workers", "Workers that serve.", value=counts.up)
    yield GaugeMetricFamily("hub_workers_limit", "How many there should be.", value=counts.limit)
    yield CounterMetricFamily("hub_workers_started", "Processes that were started.", value=counts.started_total)
    yield CounterMetricFamily("hub_workers_ended", "Of these, those that have ended.", value=counts.ended_total)
    yield CounterMetricFamily("hub_workers_silent", "Answers that did not come in time.", value=counts.silent_total)
