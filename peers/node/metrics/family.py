"""Families of metrics that have one figure and no labels, which most are."""

from __future__ import annotations

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

__all__ = ["counter", "gauge"]


def counter(name: str, text: str, value: float) -> Metric:
    """Return what only grows; `_total` is put behind its name."""
    return CounterMetricFamily(name, text, value=value)


def gauge(name: str, text: str, value: float) -> Metric:
    """Return what goes up and down."""
    return GaugeMetricFamily(name, text, value=value)
