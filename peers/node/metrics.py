"""Everything that a hub tells Prometheus: tables of rows (name, type, text, function, labels), read at each scrape.

A row's function gets a snapshot of one scrape, and returns one figure; with labels, figures by the values of these. The
meaning of metrics is in docs/observability.md, which the tests compare with the tables. Beside them are those of the
Prometheus client for the process (`process_*`) and the interpreter (`python_info`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from itertools import accumulate
from typing import Any, Generic, NamedTuple, TypeVar, get_args

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.utils import floatToGoString

from hub import __version__
from hub.overflow import Overflow
from hub.statistics import HistogramStatistics
from peers.journal.consumers.far_consumers import ANSWERING_LIMIT as CONSUMERS_ANSWERING_LIMIT
from peers.journal.far_confirmations import EXPECTED_LIMIT, WAITING_LIMIT
from peers.journal.far_journals import ANSWERING_LIMIT
from peers.journal.recording import JournalStatistics
from peers.journal.tiering import TierStatistics
from peers.node.node import Node
from peers.users.access import Reason, Tested
from peers.users.identity import How
from peers.zeek.zmtp.session import Fault

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4

Snapshot = TypeVar("Snapshot")

# One figure; or figures by the value of a label, or by the values of several; or a histogram
Figures = float | Mapping[Any, float] | HistogramStatistics


class Row(NamedTuple, Generic[Snapshot]):
    """One metric; a counter's name gets `_total` behind it."""

    name: str
    kind: Callable[..., Any]
    text: str
    figures: Callable[[Snapshot], Figures]
    labels: tuple[str, ...] = ()


GAUGE, COUNTER, HISTOGRAM = GaugeMetricFamily, CounterMetricFamily, HistogramMetricFamily


class Scrape:
    """The figures of a node at one moment, as far as they are not counted where a row can read them."""

    def __init__(self, node: Node) -> None:
        self.node, self.core = node, node.core
        self.statistics = node.core.statistics()
        self.requests = node.core.requests.statistics()
        self.names = node.core.names.statistics()
        self.quotas = node.core.quotas.statistics()
        self.memory = node.memory.statistics()
        self.log = node.log_statistics()
        self.links = node.traffic.statistics(node.loop.time())
        self.mesh = node.core.mesh.statistics()
        self.far_journals = node.far_journals
        self.far_consumers = node.far_consumers
        self.far_confirmations = node.far_confirmations
        self.marks = node.marks


def handlers_by_role(scrape: Scrape) -> dict[str, float]:
    """Return how many data sinks there are, by role; what is none of the others is of this process."""
    statistics = scrape.statistics
    counts = {"client": statistics.clients, "link": statistics.links, "leaf": statistics.leaves}
    return {**counts, "local": len(scrape.core.handlers) - sum(counts.values())}


def store_operations(scrape: Scrape) -> dict[tuple[str, ...], float]:
    counted: dict[tuple[str, ...], float] = {}
    for master in scrape.node.stores:
        statistics = master.statistics()
        for what, total in (
            ("command", statistics.commands_total),
            ("refused", statistics.store.refused_total),
            ("expired", statistics.store.expired_total),
            ("read", statistics.reads_total),
            ("snapshot", statistics.snapshots_total),
            ("published", statistics.published_total),
            ("keep_failure", statistics.keep_failures_total),
        ):
            counted[master.name, what] = total
    for feed in scrape.node.stores.feeds:
        for what, total in (("fed", feed.messages_total), ("fed_lost", feed.lost_total)):
            counted[feed.store, what] = counted.get((feed.store, what), 0) + total
    return counted


def zeek_store_events(scrape: Scrape) -> dict[str, float]:
    counts = asdict(scrape.node.zeek_master_counters)
    channel: dict[str, float] = counts.pop("channel")
    return channel | counts


def zeek_commands_dropped(scrape: Scrape) -> dict[str, float]:
    counts: dict[str, float] = asdict(scrape.node.zeek_stores.counters)
    del counts["forwarded"]
    return counts


def zeek_wishes_refused(scrape: Scrape) -> dict[str, float]:
    refused: dict[str, float] = {name: one.refused for name, one in scrape.node.zeek_masters.items()}
    return refused | {name: clone.refused for name, clone in scrape.node.zeek_copies.items()}


# fmt: off
METRICS: tuple[Row[Scrape], ...] = (
    # The hub, and its connections.
    Row("hub_info", GAUGE, "Which hub this is.",
        lambda s: {(s.node.name, s.node.id.hex(), __version__): 1}, ("name", "id", "version")),
    Row("hub_ready", GAUGE, "1 while the hub takes clients.", lambda s: not s.node.unready),
    Row("hub_draining", GAUGE, "1 while the hub stops.", lambda s: s.node.draining),
    Row("hub_drained_clients", COUNTER, "Clients that were moved off.", lambda s: s.node.drained_clients),
    Row("hub_strangers", GAUGE, "Whether whoever shows nothing is let in.",
        lambda s: {s.node.access.anonymous: bool(s.node.access.anonymous)}, ("role",)),
    Row("hub_connections", GAUGE, "Open connections of all kinds.", lambda s: len(s.node.connections)),
    Row("hub_connections_limit", GAUGE, "How many connections there may be.", lambda s: s.node.admission.limit),
    Row("hub_connections_accepted", COUNTER, "Connections accepted.", lambda s: s.node.admission.accepted),
    Row("hub_connections_refused", COUNTER, "Connections over a limit.", lambda s: s.node.admission.refused),
    Row("hub_connections_newcomers", GAUGE, "Connections that have not said who they are.",
        lambda s: s.node.admission.newcomers),
    Row("hub_connections_newcomers_limit", GAUGE, "How many of them there may be.",
        lambda s: s.node.admission.newcomers_limit),
    Row("hub_connections_evicted", COUNTER, "Newcomers that had to give way.", lambda s: s.node.admission.evicted),
    Row("hub_connections_shed", COUNTER, "Connections closed for lack of descriptors.",
        lambda s: s.node.admission.shed),
    Row("hub_connections_failed", COUNTER, "Connections ended by a bug of the hub.",
        lambda s: s.node.failed_connections),
    Row("hub_connections_cut", COUNTER, "Ended in the middle of a frame, or of what was unread.",
        lambda s: s.node.cut_connections, ("what",)),
    Row("hub_connections_put_off", COUNTER, "Times that a connection had to wait for a later turn.",
        lambda s: {"events": s.node.events.put_off_total,
                   "changes": s.node.changes.put_off_total, "writes": s.core.writers.put_off_total},
        ("share",)),
    Row("hub_connections_watched", GAUGE, "Connections with a deadline.", lambda s: len(s.node.keepalive)),
    Row("hub_tls_handshakes", GAUGE, "TLS handshakes that go on.", lambda s: len(s.node.handshakes)),
    Row("hub_tls_handshakes_limit", GAUGE, "How many of them there may be.", lambda s: s.node.handshakes.limit),
    Row("hub_tls_handshakes_evicted", COUNTER, "TLS handshakes that had to give way to others.",
        lambda s: s.node.handshakes.evicted),
    Row("hub_tls_failures", COUNTER, "TLS handshakes of clients and peer hubs that failed.",
        lambda s: s.node.tls_failures),
    Row("hub_zeek_tls_failures", COUNTER, "TLS handshakes of Zeeks that failed.", lambda s: s.node.zeek_tls_failures),
    # Users, and what they hold.
    Row("hub_users_open", GAUGE, "1 where nobody is asked who he is, and all may do everything.",
        lambda s: s.node.access.is_open),
    Row("hub_users_recognised", COUNTER, "Recognised, by what was shown.",
        lambda s: {how: s.node.access.recognised[how] for how in get_args(How)}, ("how",)),
    Row("hub_users_refused", COUNTER, "Not recognised, by what was wrong.",
        lambda s: {reason.value: s.node.access.refused[reason] for reason in Reason}, ("reason",)),
    Row("hub_users_denied", COUNTER, "Messages and requests that their user may not send.",
        lambda s: s.node.audit.refused_total),
    Row("hub_policy_tests", COUNTER, "Asked what the policy says, by what it says.",
        lambda s: {outcome: s.node.access.tested[outcome] for outcome in get_args(Tested)}, ("outcome",)),
    Row("hub_users_forgotten", COUNTER, "Times that what was decided for a user was too much.",
        lambda s: s.core.authority.forgotten_total),
    Row("hub_users_slowed", GAUGE, "Addresses that failed lately.", lambda s: s.node.access.failures.addresses),
    Row("hub_quota_limit", GAUGE, "How much there is for all users together.",
        lambda s: {resource: whole.total for resource, whole in s.quotas.items()}, ("resource",)),
    Row("hub_quota_held", GAUGE, "What users hold of it.",
        lambda s: {resource: whole.held for resource, whole in s.quotas.items()}, ("resource",)),
    Row("hub_quota_refused", COUNTER, "Times that somebody was refused more.",
        lambda s: {resource: whole.refused_total for resource, whole in s.quotas.items()}, ("resource",)),
    Row("hub_quota_held_back", COUNTER, "Times that one was not read on for the rate of its user.",
        lambda s: s.core.quotas.held_back_total),
    # Messages, and the handlers that they go to.
    Row("hub_handlers", GAUGE, "Data sinks of the core.", handlers_by_role, ("role",)),
    Row("hub_handlers_paused", GAUGE, "Handlers whose transport takes no bytes now.",
        lambda s: s.statistics.paused_handlers),
    Row("hub_queued_messages", GAUGE, "Messages that wait for slow handlers.", lambda s: s.statistics.queued_messages),
    Row("hub_queued_bytes", GAUGE, "Memory that waits for slow handlers.", lambda s: s.statistics.queued_bytes),
    Row("hub_received_bytes", COUNTER, "Bytes that were read.",
        lambda s: s.node.received_bytes_before + sum(one.read_bytes for one in s.node.connections)),
    Row("hub_read_bytes", HISTOGRAM, "How much a read brought.", lambda s: s.node.read_times.bytes.statistics()),
    Row("hub_read_seconds", HISTOGRAM, "From a read to the writes of what it brought.",
        lambda s: s.node.read_times.seconds.statistics()),
    Row("hub_queue_seconds", HISTOGRAM, "How long messages wait for slow ones.",
        lambda s: s.node.queue_times.statistics()),
    Row("hub_messages_published", COUNTER, "Messages taken.", lambda s: s.statistics.published_messages_total),
    Row("hub_messages_delivered", COUNTER, "Messages written, once for each handler.",
        lambda s: s.statistics.delivered_messages_total),
    Row("hub_messages_rejected", COUNTER, "Messages refused: bad topic, not allowed.",
        lambda s: s.node.rejected_messages),
    Row("hub_messages_dropped", COUNTER, "Messages lost, by overflow policy.",
        lambda s: {policy.value: s.statistics.dropped_messages_total.get(policy.value, 0) for policy in Overflow},
        ("overflow",)),
    Row("hub_messages_unreadable", COUNTER, "Of the lost, those without a form.",
        lambda s: s.statistics.unreadable_messages_total),
    Row("hub_delivered_bytes", COUNTER, "Bytes handed to transports.", lambda s: s.statistics.delivered_bytes_total),
    # Routes.
    Row("hub_refused_for_limits", COUNTER, "Refused, as their handler has too many.",
        lambda s: s.core.refused_for_limits(), ("what",)),
    Row("hub_subscriptions", GAUGE, "Pairs of prefix and handler.", lambda s: s.statistics.routing.subscriptions),
    Row("hub_filter_prefixes", GAUGE, "Prefixes that peers are told.", lambda s: s.statistics.routing.filter_prefixes),
    Row("hub_rules", GAUGE, "Pairs of rule and handler.", lambda s: s.statistics.routing.rules),
    Row("hub_routes", GAUGE, "Routing keys remembered.", lambda s: s.statistics.routing.routes),
    Row("hub_routes_tagged", GAUGE, "Routing keys remembered that have labels or names.",
        lambda s: s.statistics.routing.tagged),
    Row("hub_routes_bytes", GAUGE, "Memory that routing keys take.", lambda s: s.statistics.routing.size_bytes),
    Row("hub_routes_bytes_limit", GAUGE, "Memory that they may take.", lambda s: s.core.routes.limit_bytes),
    Row("hub_routes_limit", GAUGE, "How many routing keys may be remembered.", lambda s: s.core.routes.limit),
    Row("hub_route_misses", COUNTER, "Lookups that had to search.", lambda s: s.statistics.routing.misses_total),
    Row("hub_route_clears", COUNTER, "Times that the route cache was emptied.",
        lambda s: s.statistics.routing.clears_total),
    Row("hub_memory_limit_bytes", GAUGE, "The budget of memory.", lambda s: s.memory.limit_bytes),
    Row("hub_memory_resident_bytes", GAUGE, "What is taken, at the last look.", lambda s: s.memory.resident_bytes),
    Row("hub_memory_charged_bytes", GAUGE, "What the hub holds, about.",
        lambda s: s.memory.charged_bytes, ("account",)),
    Row("hub_memory_over", GAUGE, "1 while there is too little: what is new is refused.", lambda s: s.memory.is_over),
    Row("hub_memory_reliefs", COUNTER, "Times that something was dropped for it.", lambda s: s.memory.reliefs_total),
    Row("hub_memory_relieved_bytes", COUNTER, "What was dropped for it.", lambda s: s.memory.relieved_bytes_total),
    Row("hub_memory_refused", COUNTER, "What was refused for it.", lambda s: s.memory.refused_total),
    Row("hub_log_queued_bytes", GAUGE, "Lines of the log that are not written yet.", lambda s: s.log.queued_bytes),
    Row("hub_log_queue_limit_bytes", GAUGE, "How much that may be.", lambda s: s.log.limit_bytes),
    Row("hub_log_dropped_lines", COUNTER, "Lines for which there was no room.", lambda s: s.log.dropped_lines_total),
    Row("hub_log_suppressed_lines", COUNTER, "Lines of events that had many.", lambda s: s.log.suppressed_lines_total),
    # Requests, and service names.
    Row("hub_services", GAUGE, "Prefixes that are served, here or at peer hubs.", lambda s: s.requests.services),
    Row("hub_requests_pending", GAUGE, "Requests without an answer yet.", lambda s: s.requests.pending),
    Row("hub_requests_limit", GAUGE, "How many requests may be pending.",
        lambda s: s.node.settings.requests.pending_total),
    Row("hub_requests", COUNTER, "Requests taken.", lambda s: s.requests.asked_total),
    Row("hub_requests_answered", COUNTER, "Answers, by status.", lambda s: s.requests.answered_total, ("status",)),
    Row("hub_requests_abandoned", COUNTER, "Requests whose requester left.", lambda s: s.requests.abandoned_total),
    Row("hub_requests_refused", COUNTER, "Requests and replies that nobody may send.",
        lambda s: s.requests.refused_total),
    Row("hub_requests_duplicate", COUNTER, "Requests whose id was pending.", lambda s: s.requests.duplicate_total),
    Row("hub_replies_late", COUNTER, "Replies that came too late.", lambda s: s.requests.late_total),
    Row("hub_replies_unasked", COUNTER, "Replies that nobody asked for.", lambda s: s.requests.unasked_total),
    Row("hub_names", GAUGE, "Service names, those of peer hubs among them.", lambda s: s.names.names),
    Row("hub_names_announced", GAUGE, "Names that peer hubs announce.", lambda s: s.names.far),
    Row("hub_names_waiting", GAUGE, "Claims that wait for a name.", lambda s: s.names.waiting),
    Row("hub_names_appeared", COUNTER, "Times that a name got an owner, or other labels.",
        lambda s: s.names.appeared_total),
    Row("hub_name_claims_refused", COUNTER, "Claims refused: owned, too many, no name.",
        lambda s: s.names.refused_total),
    Row("hub_names_lost", COUNTER, "Owners here that a peer's claim came before.", lambda s: s.names.lost_total),
    Row("hub_names_unheard", COUNTER, "Announced names not taken: bad, or too many.", lambda s: s.names.unheard_total),
    # Shared memory.
    Row("hub_shared_messages", COUNTER, "What came in shared memory.", lambda s: s.node.shared.messages_total),
    Row("hub_shared_copied", COUNTER, "Of it, copied for want of descriptors.", lambda s: s.node.shared.copied_total),
    Row("hub_shared_refused", COUNTER, "Handles and segments refused.", lambda s: s.node.shared.refused_total),
    Row("hub_shared_descriptors", GAUGE, "Descriptors of shared memory.", lambda s: s.node.shared.descriptors.open),
    Row("hub_shared_descriptors_limit", GAUGE, "How many there may be.", lambda s: s.node.shared.descriptors.limit),
    Row("hub_shared_segments", GAUGE, "Segments of publishers.", lambda s: s.node.shared.segments),
    # Links to other hubs.
    Row("hub_links", GAUGE, "Peer hubs that are linked.", lambda s: len(s.node.links)),
    Row("hub_links_lost_messages", COUNTER, "Messages lost with a link to a peer hub.",
        lambda s: {"exactly": s.node.accounts.lost_messages, "at_most": s.node.accounts.possibly_lost_messages},
        ("known",)),
    Row("hub_links_doubtful_messages", GAUGE, "Sent over links that have ended.",
        lambda s: s.node.accounts.messages_in_doubt),
    Row("hub_links_missed_messages", COUNTER, "Messages of peers that did not arrive.",
        lambda s: s.node.accounts.missed_messages),
    Row("hub_link_up", GAUGE, "Links to hubs of a name.", lambda s: {one.hub: one.links for one in s.links}, ("hub",)),
    Row("hub_link_messages", COUNTER, "Messages of links.",
        lambda s: {(one.hub, "in"): one.carried.received_messages for one in s.links}
        | {(one.hub, "out"): one.carried.sent_messages for one in s.links},
        ("hub", "direction")),
    Row("hub_link_bytes", COUNTER, "Bytes of links.",
        lambda s: {(one.hub, "in"): one.carried.received_bytes for one in s.links}
        | {(one.hub, "out"): one.carried.sent_bytes for one in s.links},
        ("hub", "direction")),
    Row("hub_link_queued_messages", GAUGE, "What waits for a link.",
        lambda s: {one.hub: one.queued_messages for one in s.links}, ("hub",)),
    Row("hub_link_waiting_seconds", GAUGE, "How long the oldest has waited.",
        lambda s: {one.hub: one.waiting_s for one in s.links}, ("hub",)),
    Row("hub_link_lag_seconds", GAUGE, "How long a PING and its answer take.",
        lambda s: {one.hub: one.lag_s for one in s.links if one.lag_s is not None}, ("hub",)),
    Row("hub_link_cost", GAUGE, "Of the link in the mesh.",
        lambda s: {one.hub: one.cost for one in s.links if one.cost is not None}, ("hub",)),
    Row("hub_link_dropped_messages", COUNTER, "Lost at a link.",
        lambda s: {(one.hub, reason): lost for one in s.links for reason, lost in one.dropped.items()},
        ("hub", "reason")),
    Row("hub_link_path_changes", COUNTER, "Times that a path came to a link.",
        lambda s: {one.hub: one.carried.path_changes for one in s.links}, ("hub",)),
    # The mesh.
    Row("hub_mesh_hubs", GAUGE, "Hubs of the mesh that are known.", lambda s: s.mesh.hubs),
    Row("hub_mesh_hubs_limit", GAUGE, "How many there may be.", lambda s: s.node.settings.mesh.hubs),
    Row("hub_mesh_links", GAUGE, "Links of this hub that are part of the mesh.", lambda s: s.mesh.links),
    Row("hub_mesh_prefixes", GAUGE, "Prefixes of other hubs that are kept.", lambda s: s.mesh.prefixes),
    Row("hub_mesh_prefixes_limit", GAUGE, "How many there may be.", lambda s: s.node.settings.mesh.prefixes),
    Row("hub_mesh_prefixes_left_out", COUNTER, "Prefixes of other hubs, not kept.", lambda s: s.mesh.left_out_total),
    Row("hub_mesh_hubs_incomplete", GAUGE, "Hubs that are sent everything.", lambda s: s.mesh.incomplete),
    Row("hub_mesh_epoch", GAUGE, "Of what enters the mesh here.", lambda s: s.mesh.epoch),
    Row("hub_mesh_announcements", COUNTER, "Of other hubs, by outcome.",
        lambda s: {"taken": s.mesh.announcements_total, "refused": s.mesh.refused_total}, ("outcome",)),
    Row("hub_mesh_overtaken_messages", COUNTER, "Lost: a newer epoch came before.",
        lambda s: s.mesh.overtaken_messages_total),
    Row("hub_mesh_repeated_messages", COUNTER, "Came by another way than the rest.",
        lambda s: s.mesh.repeated_messages_total),
    Row("hub_mesh_unreached_messages", COUNTER, "Without a way to a hub that wants them.",
        lambda s: s.mesh.unreached_messages_total),
    Row("hub_mesh_clashes", COUNTER, "Times that somebody else had this hub's id.", lambda s: s.mesh.clashes_total),
    Row("hub_mesh_zeeks_left", GAUGE, "Zeeks that are left to other hubs.", lambda s: s.core.leaves.left),
    Row("hub_mesh_zeeks_left_messages", COUNTER, "Of Zeeks that were left, not taken.",
        lambda s: s.core.leaves.skipped_messages),
    # Zeeks, and their data stores.
    Row("hub_zeek_subscriptions_refused", COUNTER, "Subscriptions of Zeek nodes not taken.",
        lambda s: s.node.zeek_refused_subscriptions),
    Row("hub_zeek_connections_broken", COUNTER, "Connections of Zeek nodes that broke the protocol.",
        lambda s: s.node.zeek_broken_connections),
    Row("hub_zeek_handshakes_failed", COUNTER, "Handshakes with Zeek nodes.",
        lambda s: {fault.value: s.node.zeek_failed_handshakes[fault.value] for fault in Fault}, ("reason",)),
    Row("hub_zeek_clusters_left", GAUGE, "Zeek clusters left to other hubs of the mesh.",
        lambda s: s.node.zeek_clusters_left),
    Row("hub_zeek_nodes", GAUGE, "Nodes that are up of Zeek clusters in which the hub is one.",
        lambda s: sum(len(discovery.nodes) for discovery in s.node.zeek_clusters.values())),
    Row("hub_zeek_stores", GAUGE, "Data stores whose master is at a Zeek.", lambda s: s.node.zeek_stores.stores),
    Row("hub_zeek_store_entities", GAUGE, "Masters, clones and others at Zeeks.",
        lambda s: s.node.zeek_stores.entities),
    Row("hub_zeek_store_commands_forwarded", COUNTER, "Commands for data stores.",
        lambda s: s.node.zeek_stores.counters.forwarded),
    Row("hub_zeek_store_commands_dropped", COUNTER, "Of these, dropped.", zeek_commands_dropped, ("reason",)),
    Row("hub_zeek_store_clones", GAUGE, "Zeeks' clones of stores of this hub.",
        lambda s: {name: one.clones for name, one in s.node.zeek_masters.items()}, ("store",)),
    Row("hub_zeek_store_waiting_bytes", GAUGE, "Not acknowledged by clones.",
        lambda s: {name: one.waiting_bytes for name, one in s.node.zeek_masters.items()}, ("store",)),
    Row("hub_zeek_store_left_out", COUNTER, "Entries without a Broker form.",
        lambda s: {name: one.unwritable for name, one in s.node.zeek_masters.items()}, ("store",)),
    Row("hub_zeek_store_following", GAUGE, "Whether a copy has a master.",
        lambda s: {name: one.is_attached for name, one in s.node.zeek_copies.items()}, ("store",)),
    Row("hub_zeek_store_refused", COUNTER, "Wishes that were not granted.", zeek_wishes_refused, ("store",)),
    Row("hub_zeek_store_events", COUNTER, "Between stores and Zeeks' clones.", zeek_store_events, ("event",)),
    # Stores.
    Row("hub_stores", GAUGE, "Stores of this hub.", lambda s: len(s.node.stores)),
    Row("hub_store_entries", GAUGE, "Entries.",
        lambda s: {one.name: one.statistics().store.entries for one in s.node.stores}, ("store",)),
    Row("hub_store_entries_limit", GAUGE, "How many there may be.",
        lambda s: {one.name: one.store.limits.entries for one in s.node.stores}, ("store",)),
    Row("hub_store_bytes", GAUGE, "What they are charged.",
        lambda s: {one.name: one.statistics().store.bytes for one in s.node.stores}, ("store",)),
    Row("hub_store_bytes_limit", GAUGE, "How much that may be.",
        lambda s: {one.name: one.store.limits.bytes for one in s.node.stores}, ("store",)),
    Row("hub_store_kept_changes", GAUGE, "Last changes that are kept.",
        lambda s: {one.name: one.statistics().store.kept_changes for one in s.node.stores}, ("store",)),
    Row("hub_store_kept_changes_limit", GAUGE, "How many may be.",
        lambda s: {one.name: one.store.limits.changes for one in s.node.stores}, ("store",)),
    Row("hub_store_operations", COUNTER, "What was done.", store_operations, ("store", "what")),
    # Journals of other hubs.
    Row("hub_far_journals_pending", GAUGE, "Pieces of journals of other hubs.", lambda s: s.far_journals.pending),
    Row("hub_far_journals_asked", COUNTER, "Pieces that were asked for.", lambda s: s.far_journals.asked_total),
    Row("hub_far_journals_answering", GAUGE, "Pieces that other hubs wait for.", lambda s: s.far_journals.answering),
    Row("hub_far_journals_answering_limit", GAUGE, "How many there may be.", lambda _: ANSWERING_LIMIT),
    Row("hub_far_journals_answered", COUNTER, "Questions of other hubs.", lambda s: s.far_journals.answered_total),
    Row("hub_far_journals_refused", COUNTER, "Questions that were refused.", lambda s: s.far_journals.refused_total),
    Row("hub_far_consumers_clients", GAUGE, "Clients that share one there.", lambda s: s.far_consumers.clients),
    Row("hub_far_consumers_pending", GAUGE, "Questions that wait.", lambda s: s.far_consumers.pending),
    Row("hub_far_consumers_untold", GAUGE, "Who has left, and is not known to.", lambda s: s.far_consumers.untold),
    Row("hub_far_consumers_asked", COUNTER, "Questions.", lambda s: s.far_consumers.asked_total),
    Row("hub_far_consumers_lost", COUNTER, "Questions without an answer.", lambda s: s.far_consumers.lost_total),
    Row("hub_far_confirmations_pending", GAUGE, "Confirmations of other hubs.", lambda s: s.far_confirmations.pending),
    Row("hub_far_confirmations_limit", GAUGE, "From so many on nobody is read who asks for more.",
        lambda _: WAITING_LIMIT),
    Row("hub_far_confirmations_asked", COUNTER, "Confirmations that were asked for.",
        lambda s: s.far_confirmations.taken),
    Row("hub_far_confirmations_refused", COUNTER, "Of these, those that are errors.",
        lambda s: s.far_confirmations.refused_total),
    Row("hub_far_confirmations_pauses", COUNTER, "Times that a publisher was not read on.",
        lambda s: s.far_confirmations.pauses_total),
    Row("hub_marks_expected", GAUGE, "Confirmations that other hubs wait for.", lambda s: s.marks.expected),
    Row("hub_marks_expected_limit", GAUGE, "How many there may be.", lambda _: EXPECTED_LIMIT),
    Row("hub_marks_confirmed", COUNTER, "Batches confirmed to other hubs.", lambda s: s.marks.confirmed_total),
    Row("hub_marks_refused", COUNTER, "Batches not confirmed to other hubs.", lambda s: s.marks.refused_total),
)

JOURNAL: tuple[Row[JournalStatistics], ...] = (
    Row("hub_journal_ready", GAUGE, "1 while the journal is written.", lambda s: not s.recorder.error),
    Row("hub_journal_first_offset", GAUGE, "The oldest record.", lambda s: s.recorder.at.first),
    Row("hub_journal_committed_offset", GAUGE, "The offset behind the newest record.", lambda s: s.recorder.committed),
    Row("hub_journal_bytes", GAUGE, "Of all blocks on the disk.", lambda s: s.recorder.at.size_bytes),
    Row("hub_journal_recorded", COUNTER, "Messages committed.", lambda s: s.recorder.recorded_messages_total),
    Row("hub_journal_lost", COUNTER, "Messages not recorded for want of a disk.",
        lambda s: s.recorder.lost_messages_total),
    Row("hub_journal_cut", COUNTER, "Positions cut back, as what was read is lost.", lambda s: s.cuts_total),
    Row("hub_journal_waiting_bytes", GAUGE, "On their way to the disk.", lambda s: s.recorder.waiting_bytes),
    Row("hub_journal_confirm_seconds", HISTOGRAM, "From taking to the disk.",
        lambda s: s.recorder.confirm_times.statistics()),
    Row("hub_journal_pauses", COUNTER, "Times that a publisher was not read on.", lambda s: s.recorder.pauses_total),
    Row("hub_journal_readers", GAUGE, "Reader processes.", lambda s: s.readers),
    Row("hub_journal_fetches", GAUGE, "FETCHes that wait for an answer.", lambda s: s.fetches),
    Row("hub_journal_staged_transactions", GAUGE, "Transactions that wait for COMMIT.",
        lambda s: len(s.staging)),
    Row("hub_journal_staged_bytes", GAUGE, "What waits for COMMIT.", lambda s: s.staging.size_bytes),
    Row("hub_journal_batches", COUNTER, "Batches of writers, by outcome.",
        lambda s: {"committed": s.staging.committed_total,
                   "repeated": s.staging.repeated_total, "dropped": s.staging.dropped_total},
        ("outcome",)),
    Row("hub_consumers", GAUGE, "Named consumers.", lambda s: len(s.consumers.each)),
    Row("hub_consumers_limit", GAUGE, "How many there may be.", lambda s: s.consumers.limit),
    Row("hub_consumers_save_failures", COUNTER, "Times that positions were not written.",
        lambda s: s.consumers.save_failures_total),
    Row("hub_consumers_forgotten", COUNTER, "Queries that were not heard of any more.",
        lambda s: s.consumers.forgotten_total),
    Row("hub_consumer_members", GAUGE, "Clients that share it.",
        lambda s: {one.name: one.members for one in s.consumers.each}, ("consumer",)),
    Row("hub_consumer_lag", GAUGE, "Records behind its position.",
        lambda s: {one.name: one.lag for one in s.consumers.each}, ("consumer",)),
    Row("hub_consumer_out_messages", GAUGE, "What members have.",
        lambda s: {one.name: one.out for one in s.consumers.each}, ("consumer",)),
    Row("hub_consumer_messages", COUNTER, "Messages of a consumer, by what was done.",
        lambda s: {(one.name, outcome.removesuffix("_total")): messages
                   for one in s.consumers.each for outcome, messages in one.counters._asdict().items()},
        ("consumer", "outcome")),
    Row("hub_consumers_far_clients", GAUGE, "Clients of other hubs that share.",
        lambda s: s.consumers.for_hubs.clients),
    Row("hub_consumers_answering", GAUGE, "Questions of other hubs.", lambda s: s.consumers.for_hubs.answering),
    Row("hub_consumers_answering_limit", GAUGE, "How many of them may wait.",
        lambda _: CONSUMERS_ANSWERING_LIMIT),
    Row("hub_consumers_answered", COUNTER, "Questions of other hubs.", lambda s: s.consumers.for_hubs.answered_total),
    Row("hub_consumers_refused", COUNTER, "Questions refused.", lambda s: s.consumers.for_hubs.refused_total),
)

TIER: tuple[Row[TierStatistics], ...] = (
    Row("hub_journal_tier_ready", GAUGE, "1 while the journal is copied to its tier.", lambda s: not s.error),
    Row("hub_journal_tier_first_offset", GAUGE, "The oldest record there.", lambda s: s.progress.first),
    Row("hub_journal_tier_copied_offset", GAUGE, "The offset behind the newest record there.",
        lambda s: s.progress.next),
    Row("hub_journal_tier_files", GAUGE, "Files of records there.", lambda s: s.progress.files),
    Row("hub_journal_tier_bytes", GAUGE, "Length of these files.", lambda s: s.progress.size_bytes),
    Row("hub_journal_tier_missed_messages", GAUGE, "Deleted here before they were copied.",
        lambda s: s.progress.missed),
    Row("hub_journal_tier_failures", COUNTER, "Times that copying failed.", lambda s: s.failures_total),
    Row("hub_journal_tier_restarts", COUNTER, "Times that the copying process ended.", lambda s: s.restarts_total),
)
# fmt: on


def families(rows: Iterable[Row[Snapshot]], snapshot: Snapshot) -> Iterator[Metric]:
    for name, kind, text, read, labels in rows:
        figures = read(snapshot)
        if isinstance(figures, HistogramStatistics):
            bounds = [*map(floatToGoString, figures.bounds), "+Inf"]
            buckets = list(zip(bounds, accumulate(figures.counts), strict=True))
            yield HistogramMetricFamily(name, text, buckets=buckets, sum_value=figures.total)
        elif isinstance(figures, Mapping):
            family = kind(name, text, labels=labels)
            for values, figure in figures.items():
                family.add_metric((values,) if isinstance(values, str) else values, figure)
            yield family
        else:
            yield kind(name, text, value=figures)


class HubCollector:
    """What a hub tells Prometheus."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def describe(self) -> list[Metric]:
        """Return nothing, which spares the registry a collection that it would make only to learn the names."""
        return []

    def collect(self) -> Iterator[Metric]:
        yield from families(METRICS, Scrape(self._node))
        journal = self._node.journal.statistics()
        if journal is None:
            return
        yield from families(JOURNAL, journal)
        if journal.tier is not None:
            yield from families(TIER, journal.tier)


def registry(node: Node) -> CollectorRegistry:
    found = CollectorRegistry()
    found.register(HubCollector(node))
    ProcessCollector(registry=found)
    PlatformCollector(registry=found)
    return found


def exposition(node: Node) -> bytes:
    return generate_latest(registry(node))
