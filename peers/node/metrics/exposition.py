"""Everything that a hub tells Prometheus, which is read from plain counters whenever somebody scrapes.

Each family has a module here, and what its metrics mean is in docs/observability.md, which the tests compare with this
folder. Beside them are those of the Prometheus client for the process (`process_*`) and the interpreter
(`python_info`). Counters start at 0 with the process.

Owner: nobody; there is no state. Cost: about 2 µs a handler and scrape, nothing between scrapes.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.core import Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from peers.node.metrics.connections import connection_metrics, state_metrics, tls_metrics
from peers.node.metrics.consumers import far_consumer_metrics
from peers.node.metrics.far_journals import far_confirmation_metrics, far_journal_metrics, mark_metrics
from peers.node.metrics.journal import journal_metrics
from peers.node.metrics.links import link_metrics, lost_metrics
from peers.node.metrics.log import log_metrics
from peers.node.metrics.memory import memory_metrics
from peers.node.metrics.mesh import leaf_metrics, mesh_metrics, probe_metrics, spare_metrics
from peers.node.metrics.messages import handler_metrics, message_metrics
from peers.node.metrics.requests import name_metrics, request_metrics
from peers.node.metrics.routes import route_metrics
from peers.node.metrics.shared_memory import shared_memory_metrics
from peers.node.metrics.spans import span_metrics
from peers.node.metrics.stores import store_metrics
from peers.node.metrics.times import time_metrics
from peers.node.metrics.users import share_metrics, user_metrics
from peers.node.metrics.zeek import zeek_master_metrics, zeek_node_metrics, zeek_store_metrics
from peers.node.node import Node

__all__ = ["CONTENT_TYPE", "HubCollector", "exposition", "registry"]

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4


class HubCollector:
    """What a hub tells Prometheus."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def describe(self) -> list[Metric]:
        """Return nothing, which spares the registry a collection that it would make only to learn the names."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Read every counter once."""
        yield from self._who()
        yield from self._what()
        yield from self._far_hubs()
        yield from self._kept()

    def _who(self) -> Iterator[Metric]:
        """Yield the hub, and whoever is connected to it."""
        node = self._node
        yield from state_metrics(node)
        yield from connection_metrics(node)
        yield from tls_metrics(node)
        yield from user_metrics(node)
        yield from share_metrics(node.core.quotas)

    def _what(self) -> Iterator[Metric]:
        """Yield what passes through."""
        node, core = self._node, self._node.core
        statistics = core.statistics()
        yield from handler_metrics(statistics, len(core.handlers))
        yield from time_metrics(node)
        yield from message_metrics(statistics, node.rejected_messages, node.left_out_messages)
        yield from route_metrics(core, statistics.routing)
        yield from memory_metrics(node.memory.statistics())
        yield from log_metrics(node.log_statistics())
        yield from span_metrics(node.span_statistics())
        yield from request_metrics(core.requests.statistics(), node.settings.requests.pending_total)
        yield from name_metrics(core.names.statistics())
        yield from shared_memory_metrics(node)

    def _far_hubs(self) -> Iterator[Metric]:
        """Yield other hubs, and Zeeks."""
        node, core = self._node, self._node.core
        yield from lost_metrics(node.accounts, len(node.links))
        yield from link_metrics(node.traffic.statistics(node.loop.time()))
        yield from mesh_metrics(core.mesh.statistics(), node.settings.mesh)
        yield from leaf_metrics(core.leaves)
        yield from probe_metrics(node.probes)
        yield from spare_metrics(node.spares.statistics())
        yield from zeek_node_metrics(node)
        yield from zeek_store_metrics(node.zeek_stores)
        yield from zeek_master_metrics(node)

    def _kept(self) -> Iterator[Metric]:
        """Yield what is kept: stores and journals."""
        node = self._node
        yield from store_metrics(node.stores)
        yield from far_journal_metrics(node.far_journals.statistics())
        yield from far_consumer_metrics(node.far_consumers.statistics())
        yield from far_confirmation_metrics(node.far_confirmations.statistics())
        yield from mark_metrics(node.marks.statistics())
        journal = node.journal.statistics()
        if journal is not None:
            yield from journal_metrics(journal)


def registry(node: Node) -> CollectorRegistry:
    """Return what collects everything."""
    found = CollectorRegistry()
    found.register(HubCollector(node))
    ProcessCollector(registry=found)
    PlatformCollector(registry=found)
    return found


def exposition(node: Node) -> bytes:
    """Return everything as Prometheus text, `CONTENT_TYPE`."""
    return generate_latest(registry(node))
