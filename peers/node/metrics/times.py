"""Metrics of how long the hub takes, and others make it wait.

Owner: nobody: a scrape reads what others count. What they mean is in docs/observability.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric

from peers.node.metrics.family import counter, histogram
from peers.node.node import Node

__all__ = ["time_metrics"]


def time_metrics(node: Node) -> Iterator[Metric]:
    """Yield what comes in, how long that takes to go out, and how long it waits."""
    received_bytes = node.received_bytes_before + sum(one.read_bytes for one in node.connections)
    yield counter("hub_received_bytes", "Bytes that were read.", received_bytes)
    times = node.read_times
    yield histogram("hub_read_bytes", "How much a read brought.", times.bytes.statistics())
    yield histogram("hub_read_seconds", "From a read to the writes of what it brought.", times.seconds.statistics())
    yield histogram("hub_queue_seconds", "How long messages wait for slow ones.", node.queue_times.statistics())
