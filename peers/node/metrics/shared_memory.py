"""Metrics of what came in shared memory.

Owner: nobody: a scrape reads what others count. What they mean is in docs/observability.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric

from peers.node.metrics.family import counter, gauge
from peers.node.node import Node

__all__ = ["shared_memory_metrics"]


def shared_memory_metrics(node: Node) -> Iterator[Metric]:
    """Yield what came in shared memory, and what is open of it."""
    shared = node.shared
    yield counter("hub_shared_messages", "What came in shared memory.", shared.messages_total)
    yield counter("hub_shared_copied", "Of it, copied for want of descriptors.", shared.copied_total)
    yield counter("hub_shared_refused", "Handles and segments refused.", shared.refused_total)
    yield gauge("hub_shared_descriptors", "Descriptors of shared memory.", shared.descriptors.open)
    yield gauge("hub_shared_descriptors_limit", "How many there may be.", shared.descriptors.limit)
    yield gauge("hub_shared_segments", "Segments of publishers.", shared.segments)
