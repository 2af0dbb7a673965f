"""Metrics of the hub itself, and of who is connected to it or wants to be.

Owner: nobody: a scrape reads what others count. What they mean is in docs/observability.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from hub import __version__
from peers.node.metrics.family import counter, gauge
from peers.node.node import Node

__all__ = ["connection_metrics", "state_metrics", "tls_metrics"]


def state_metrics(node: Node) -> Iterator[Metric]:
    """Yield which hub this is, and whether it takes clients."""
    info = GaugeMetricFamily("hub_info", "Which hub this is.", labels=("name", "id", "version"))
    info.add_metric((node.name, node.id.hex(), __version__), 1)
    yield info
    yield gauge("hub_ready", "1 while the hub takes clients.", not node.unready)
    yield gauge("hub_draining", "1 while the hub stops.", node.draining)
    yield counter("hub_drained_clients", "Clients that were moved off.", node.drained_clients)
    role = node.access.anonymous
    strangers = GaugeMetricFamily("hub_strangers", "Whether whoever shows nothing is let in.", labels=("role",))
    strangers.add_metric((role,), bool(role))
    yield strangers


def connection_metrics(node: Node) -> Iterator[Metric]:
    """Yield who is connected, who was not let in, and who had to wait."""
    yield gauge("hub_connections", "Open connections of all kinds.", len(node.connections))
    places = node.admission
    yield gauge("hub_connections_limit", "How many connections there may be.", places.limit)
    yield counter("hub_connections_accepted", "Connections accepted.", places.accepted)
    yield counter("hub_connections_refused", "Connections over a limit.", places.refused)
    yield gauge("hub_connections_newcomers", "Connections that have not said who they are.", places.newcomers)
    yield gauge("hub_connections_newcomers_limit", "How many of them there may be.", places.newcomers_limit)
    yield counter("hub_connections_evicted", "Newcomers that had to give way.", places.evicted)
    yield counter("hub_connections_shed", "Connections closed for lack of descriptors.", places.shed)
    yield counter("hub_connections_failed", "Connections ended by a bug of the hub.", node.failed_connections)
    cut = CounterMetricFamily(
        "hub_connections_cut", "Ended in the middle of a frame, or of what was unread.", labels=("what",)
    )
    for what, total in node.cut_connections.items():
        cut.add_metric((what,), total)
    yield cut
    put_off = CounterMetricFamily(
        "hub_connections_put_off", "Times that a connection had to wait for a later turn.", labels=("share",)
    )
    put_off.add_metric(("events",), node.events.put_off_total)
    put_off.add_metric(("changes",), node.changes.put_off_total)
    put_off.add_metric(("writes",), node.core.writers.put_off_total)
    yield put_off
    yield gauge("hub_connections_watched", "Connections with a deadline.", len(node.keepalive))


def tls_metrics(node: Node) -> Iterator[Metric]:
    """Yield the handshakes of TLS, and those that failed."""
    shaking = node.handshakes
    yield gauge("hub_tls_handshakes", "TLS handshakes that go on.", len(shaking))
    yield gauge("hub_tls_handshakes_limit", "How many of them there may be.", shaking.limit)
    yield counter("hub_tls_handshakes_evicted", "TLS handshakes that had to give way to others.", shaking.evicted)
    yield counter("hub_tls_failures", "TLS handshakes of clients and peer hubs that failed.", node.tls_failures)
    yield counter("hub_zeek_tls_failures", "TLS handshakes of Zeeks that failed.", node.zeek_tls_failures)
