"""Metrics of the data stores of Zeeks: those at Zeeks, and those of this hub that Zeeks have copies of.

Owner: nobody: a scrape reads what others count. What they mean is in docs/observability.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from peers.node.metrics.family import counter, gauge
from peers.node.node import Node
from peers.zeek.broker.stores.forwarder import Forwarder
from peers.zeek.zmtp.mechanism import Fault

__all__ = ["zeek_master_metrics", "zeek_node_metrics", "zeek_store_metrics"]


def zeek_node_metrics(node: Node) -> Iterator[Metric]:
    """Yield what nodes of a cluster of Zeek wanted and did not get."""
    refused = node.zeek_refused_subscriptions
    yield counter("hub_zeek_subscriptions_refused", "Subscriptions of Zeek nodes not taken.", refused)
    broken = node.zeek_broken_connections
    yield counter("hub_zeek_connections_broken", "Connections of Zeek nodes that broke the protocol.", broken)
    failed = CounterMetricFamily("hub_zeek_handshakes_failed", "Handshakes with Zeek nodes.", labels=("reason",))
    for fault in Fault:
        failed.add_metric((fault.value,), node.zeek_failed_handshakes[fault.value])
    yield failed
    yield gauge("hub_zeek_clusters_left", "Zeek clusters left to other hubs of the mesh.", node.zeek_clusters_left)
    up = sum(len(discovery.nodes) for discovery in node.zeek_clusters.values())
    yield gauge("hub_zeek_nodes", "Nodes that are up of Zeek clusters in which the hub is one.", up)


def zeek_store_metrics(forwarder: Forwarder) -> Iterator[Metric]:
    """Yield the data stores that have their master at a Zeek."""
    yield gauge("hub_zeek_stores", "Data stores whose master is at a Zeek.", forwarder.stores)
    yield gauge("hub_zeek_store_entities", "Masters, clones and others at Zeeks.", forwarder.entities)
    counts = asdict(forwarder.counters)
    yield counter("hub_zeek_store_commands_forwarded", "Commands for data stores.", counts.pop("forwarded"))
    dropped = CounterMetricFamily("hub_zeek_store_commands_dropped", "Of these, dropped.", labels=("reason",))
    for reason, count in counts.items():
        dropped.add_metric((reason,), count)
    yield dropped


def zeek_master_metrics(node: Node) -> Iterator[Metric]:
    """Yield what stores of this hub and Zeeks tell one another."""
    clones = GaugeMetricFamily("hub_zeek_store_clones", "Zeeks' clones of stores of this hub.", labels=("store",))
    waiting = GaugeMetricFamily("hub_zeek_store_waiting_bytes", "Not acknowledged by clones.", labels=("store",))
    left_out = CounterMetricFamily("hub_zeek_store_left_out", "Entries without a Broker form.", labels=("store",))
    refused = CounterMetricFamily("hub_zeek_store_refused", "Wishes that were not granted.", labels=("store",))
    for name, master in node.zeek_masters.items():
        clones.add_metric((name,), master.clones)
        waiting.add_metric((name,), master.waiting_bytes)
        left_out.add_metric((name,), master.unwritable)
        refused.add_metric((name,), master.refused)
    following = GaugeMetricFamily("hub_zeek_store_following", "Whether a copy has a master.", labels=("store",))
    for name, clone in node.zeek_copies.items():
        following.add_metric((name,), clone.is_attached)
        refused.add_metric((name,), clone.refused)
    yield from (clones, waiting, left_out, following, refused)
    events = CounterMetricFamily("hub_zeek_store_events", "Between stores and Zeeks' clones.", labels=("event",))
    counts = asdict(node.zeek_master_counters)
    for event, count in (counts.pop("channel") | counts).items():
        events.add_metric((event,), count)
    yield events
