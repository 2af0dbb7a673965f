"""Metrics of the mesh: hubs that are known, Zeeks that are left to others, probes, spare links.

Owner: nobody: a scrape reads what others count. What they mean is in docs/observability.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, Metric

from hub.leaves import Leaves
from hub.mesh.spares import SparesStatistics
from hub.mesh.statistics import MeshStatistics
from hub.settings.mesh import MeshSettings
from peers.node.metrics.family import counter, gauge
from peers.node.probes import Probes

__all__ = ["leaf_metrics", "mesh_metrics", "probe_metrics", "spare_metrics"]


def mesh_metrics(statistics: MeshStatistics, limits: MeshSettings) -> Iterator[Metric]:
    """Yield which hubs are known, and what did not arrive."""
    yield gauge("hub_mesh_hubs", "Hubs of the mesh that are known.", statistics.hubs)
    yield gauge("hub_mesh_hubs_limit", "How many there may be.", limits.hubs)
    yield gauge("hub_mesh_links", "Links of this hub that are part of the mesh.", statistics.links)
    yield gauge("hub_mesh_prefixes", "Prefixes of other hubs that are kept.", statistics.prefixes)
    yield gauge("hub_mesh_prefixes_limit", "How many there may be.", limits.prefixes)
    yield counter("hub_mesh_prefixes_left_out", "Prefixes of other hubs, not kept.", statistics.left_out_total)
    yield gauge("hub_mesh_hubs_incomplete", "Hubs that are sent everything.", statistics.incomplete)
    yield gauge("hub_mesh_epoch", "Of what enters the mesh here.", statistics.epoch)
    announcements = CounterMetricFamily("hub_mesh_announcements", "Of other hubs, by outcome.", labels=("outcome",))
    announcements.add_metric(("taken",), statistics.announcements_total)
    announcements.add_metric(("refused",), statistics.refused_total)
    yield announcements
    yield counter(
        "hub_mesh_overtaken_messages", "Lost: a newer epoch came before.", statistics.overtaken_messages_total
    )
    yield counter(
        "hub_mesh_repeated_messages", "Came by another way than the rest.", statistics.repeated_messages_total
    )
    yield counter(
        "hub_mesh_stranded_messages", "For hubs that nothing leads to any more.", statistics.stranded_messages_total
    )
    yield counter(
        "hub_mesh_unreached_messages", "Entered here for hubs out of reach.", statistics.unreached_messages_total
    )
    yield counter("hub_mesh_clashes", "Times that somebody else had this hub's id.", statistics.clashes_total)


def leaf_metrics(leaves: Leaves) -> Iterator[Metric]:
    """Yield the Zeeks that other hubs are the gateway of."""
    yield gauge("hub_mesh_zeeks_left", "Zeeks that are left to other hubs.", leaves.left)
    yield counter("hub_mesh_zeeks_left_messages", "Of Zeeks that were left, not taken.", leaves.skipped_messages)


def probe_metrics(probes: Probes) -> Iterator[Metric]:
    """Yield how many probes were asked for, passed on and answered."""
    seen = CounterMetricFamily("hub_probes", "Probes, of this hub and of others.", labels=("what",))
    counts = {"asked": probes.asked_total, "passed": probes.passed_total, "refused": probes.refused_total}
    for what, total in counts.items():
        seen.add_metric((what,), total)
    yield seen
    reports = CounterMetricFamily("hub_probe_reports", "What hubs have told of probes.", labels=("outcome",))
    reports.add_metric(("taken",), probes.reports_total)
    reports.add_metric(("dropped",), probes.dropped_reports_total)
    yield reports


def spare_metrics(statistics: SparesStatistics) -> Iterator[Metric]:
    """Yield the links that were dialled so that the mesh does not fall apart."""
    yield gauge("hub_mesh_spare_links", "Dialled so that the mesh does not fall apart.", statistics.links)
    yield counter("hub_mesh_spare_attempts", "Attempts at such links.", statistics.attempts_total)
    yield counter("hub_mesh_spare_failures", "Of these, those without a link.", statistics.failed_total)
    yield counter("hub_mesh_spare_let_go", "Such links that were let go.", statistics.let_go_total)
