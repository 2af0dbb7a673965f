"""Metrics of links to other hubs: of each one, and of what was lost with them.

Owner: nobody: a scrape reads what others count. What they mean is in docs/observability.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from peers.node.accounts import Accounts
from peers.node.metrics.family import counter, gauge
from peers.node.traffic import LinkTraffic

__all__ = ["link_metrics", "lost_metrics"]


def lost_metrics(accounts: Accounts, links: int) -> Iterator[Metric]:
    """Yield how many links there are, and what was lost with those that ended, or may have been."""
    yield gauge("hub_links", "Peer hubs that are linked.", links)
    lost = CounterMetricFamily("hub_links_lost_messages", "Messages lost with a link to a peer hub.", labels=("known",))
    lost.add_metric(("exactly",), accounts.lost_messages)
    lost.add_metric(("at_most",), accounts.possibly_lost_messages)
    yield lost
    yield gauge("hub_links_doubtful_messages", "Sent over links that have ended.", accounts.messages_in_doubt)
    yield counter("hub_links_missed_messages", "Messages of peers that did not arrive.", accounts.missed_messages)
    yield counter("hub_links_refused", "Times that a peer had no room for what this hub told it.", accounts.refused)


def link_metrics(links: list[LinkTraffic]) -> Iterator[Metric]:
    """Yield what each link carries, and how long that takes."""
    up = GaugeMetricFamily("hub_link_up", "Links to hubs of a name.", labels=("hub",))
    messages = CounterMetricFamily("hub_link_messages", "Messages of links.", labels=("hub", "direction"))
    carried_bytes = CounterMetricFamily("hub_link_bytes", "Bytes of links.", labels=("hub", "direction"))
    queued = GaugeMetricFamily("hub_link_queued_messages", "What waits for a link.", labels=("hub",))
    waiting = GaugeMetricFamily("hub_link_waiting_seconds", "How long the oldest has waited.", labels=("hub",))
    lag = GaugeMetricFamily("hub_link_lag_seconds", "How long a PING and its answer take.", labels=("hub",))
    cost = GaugeMetricFamily("hub_link_cost", "Of the link in the mesh.", labels=("hub",))
    dropped = CounterMetricFamily("hub_link_dropped_messages", "Lost at a link.", labels=("hub", "reason"))
    changes = CounterMetricFamily("hub_link_path_changes", "Times that a path came to a link.", labels=("hub",))
    for one in links:
        hub, carried = (one.hub,), one.carried
        up.add_metric(hub, one.links)
        messages.add_metric((one.hub, "in"), carried.received_messages)
        messages.add_metric((one.hub, "out"), carried.sent_messages)
        carried_bytes.add_metric((one.hub, "in"), carried.received_bytes)
        carried_bytes.add_metric((one.hub, "out"), carried.sent_bytes)
        queued.add_metric(hub, one.queued_messages)
        waiting.add_metric(hub, one.waiting_s)
        if one.lag_s is not None:
            lag.add_metric(hub, one.lag_s)
        if one.cost is not None:
            cost.add_metric(hub, one.cost)
        for reason, lost in one.dropped.items():
            dropped.add_metric((one.hub, reason), lost)
        changes.add_metric(hub, carried.path_changes)
    yield from (up, messages, carried_bytes, queued, waiting, lag, cost, dropped, changes)
