"""The metrics of a hub for Prometheus: tables of rows, read at each scrape.

docs/reference/metrics.md is generated from the tables. The Prometheus client adds metrics of the process (`process_*`)
and the interpreter (`python_info`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, fields
from enum import Enum
from itertools import accumulate
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, TypeVar, get_args

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.utils import floatToGoString

from hub import __version__
from hub.consumers.consumer import ConsumerCounters
from hub.handlers.counters import HistogramStatistics
from hub.handlers.delivery import Role
from hub.limits import Overflow
from hub.messages.request_frame import Status
from hub.quotas import Resource
from peers.journal.consumers.remote_consumers import ANSWERING_LIMIT as CONSUMERS_ANSWERING_LIMIT
from peers.journal.remote_confirmations import EXPECTED_LIMIT, WAITING_LIMIT
from peers.journal.remote_journals import ANSWERING_LIMIT, JournalStatistics
from peers.journal.tier.tiering import TierStatistics
from peers.server.server import Server
from peers.users.access import Tested
from peers.users.identity import How, Reason
from peers.zeek.broker.stores.channel import ChannelCounters
from peers.zeek.broker.stores.forwarder import ForwarderCounters
from peers.zeek.broker.stores.master import MasterCounters
from peers.zeek.zmtp.session import Fault

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
Snapshot = TypeVar("Snapshot")

# One figure; or figures by the value of a label, or by the values of several; or a histogram
Figures = float | Mapping[Any, float] | HistogramStatistics


class Row(NamedTuple, Generic[Snapshot]):
    """One metric; a counter's name gets the suffix `_total`."""

    name: str
    kind: Callable[..., Any]
    text: str
    figures: str | Callable[[Snapshot], Figures]  # Path of an attribute of the snapshot, or a function
    labels: Mapping[str, Collection[str]] = MappingProxyType({})  # Each with its values; empty where they are names


GAUGE, COUNTER, HISTOGRAM = GaugeMetricFamily, CounterMetricFamily, HistogramMetricFamily


class Scrape:
    """Figures of a hub at one moment, except those that a row can read directly."""

    def __init__(self, server: Server) -> None:
        self.server, self.core = server, server.core
        self.statistics = server.core.statistics()
        self.requests = server.core.requests.statistics()
        self.names = server.core.names.statistics()
        self.quotas = server.core.quotas.statistics()
        self.memory = server.memory.statistics()
        self.log = server.log_statistics()
        self.links = server.traffic.statistics(server.loop.time())
        self.mesh = server.core.mesh.statistics()
        self.remote_journals = server.remote_journals
        self.remote_consumers = server.remote_consumers
        self.remote_confirmations = server.remote_confirmations
        self.marks = server.marks


def each(owner: str, label: str, figure: str) -> Callable[[Any], dict[str, float]]:
    """Return the figures of all elements of an attribute by their label, except those that are None."""
    elements, label_of, figure_of = map(attrgetter, (owner, label, figure))
    return lambda s: {label_of(one): figure_of(one) for one in elements(s) if figure_of(one) is not None}


def handlers_by_role(scrape: Scrape) -> dict[str, float]:
    """Return how many data sinks there are, by role; all others are of this process."""
    statistics = scrape.statistics
    counts = {"client": statistics.clients, "link": statistics.links, "leaf": statistics.leaves}
    return {**counts, "local": len(scrape.core.handlers) - sum(counts.values())}


STORE_OPERATIONS = (
    *("command", "refused", "expired", "read", "snapshot", "published", "keep_failure", "fed", "fed_lost"),
)


def store_operations(scrape: Scrape) -> dict[tuple[str, ...], float]:
    counted: dict[tuple[str, ...], float] = {}
    for master in scrape.server.stores:
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
    for feed in scrape.server.stores.feeds:
        for what, total in (("fed", feed.messages_total), ("fed_lost", feed.lost_total)):
            counted[feed.store, what] = counted.get((feed.store, what), 0) + total
    return counted


def zeek_store_events(scrape: Scrape) -> dict[str, float]:
    counts = asdict(scrape.server.zeek.master_counters)
    channel: dict[str, float] = counts.pop("channel")
    return channel | counts


def zeek_commands_dropped(scrape: Scrape) -> dict[str, float]:
    counts: dict[str, float] = asdict(scrape.server.zeek.forwarder.counters)
    del counts["forwarded"]
    return counts


def zeek_wishes_refused(scrape: Scrape) -> dict[str, float]:
    refused: dict[str, float] = {name: one.refused for name, one in scrape.server.zeek.masters.items()}
    return refused | {name: clone.refused for name, clone in scrape.server.zeek.copies.items()}


def values_of(members: type[Enum]) -> list[str]:
    return [member.value for member in members]


def names_of(counters: type[Any], *others: str) -> list[str]:
    return [field.name for field in fields(counters) if field.name not in others]


HUB: dict[str, Collection[str]] = {"hub": ()}
STORE: dict[str, Collection[str]] = {"store": ()}
CONSUMER: dict[str, Collection[str]] = {"consumer": ()}
ACCOUNTS = ("connections", "consumers", "mesh", "names", "queues", "requests", "routes", "stages", "stores",
            "subscriptions", "topics")  # fmt: skip

# fmt: off
METRICS: tuple[Row[Scrape], ...] = (
    # The hub, and its connections.
    Row("hub_info", GAUGE, "Name, id and version of the hub.",
        lambda s: {(s.server.name, s.server.id.hex(), __version__): 1}, {"name": (), "id": (), "version": ()}),
    Row("hub_ready", GAUGE, "1 while the hub accepts clients; 0 while it starts, stops, or cannot write its journal.",
        lambda s: not s.server.unready),
    Row("hub_draining", GAUGE, "1 after `hub drain`, or after the signal to stop.", "server.draining"),
    Row("hub_drained_clients", COUNTER, "Clients moved to other hubs by `hub drain`.", "server.drained_clients"),
    Row("hub_anonymous_admitted", GAUGE, "1 if clients without credentials are admitted, with their role.",
        lambda s: {s.server.access.anonymous: bool(s.server.access.anonymous)}, {"role": ()}),
    Row("hub_connections", GAUGE, "Open connections of all kinds, HTTP and handshakes included.",
        lambda s: len(s.server.connections)),
    Row("hub_connections_limit", GAUGE, "Limit of open connections.", "server.admission.limit"),
    Row("hub_connections_accepted", COUNTER, "Connections accepted.", "server.admission.accepted"),
    Row("hub_connections_refused", COUNTER, "Connections refused because of a limit.", "server.admission.refused"),
    Row("hub_connections_unauthenticated", GAUGE, "Connections in their handshake.",
        "server.admission.newcomers"),
    Row("hub_connections_unauthenticated_limit", GAUGE, "Limit of connections in their handshake.",
        "server.admission.places.limit"),
    Row("hub_connections_evicted", COUNTER, "Connections closed in their handshake to make room for newer ones.",
        "server.admission.evicted"),
    Row("hub_connections_no_descriptor", COUNTER, "Connections closed on arrival because no file descriptor was left.",
        "server.admission.shed"),
    Row("hub_connections_failed", COUNTER, "Connections closed with 1011 because of a bug in the hub; see the log.",
        "server.failed_connections"),
    Row("hub_connections_truncated", COUNTER, "Connections closed with an incomplete frame, or with unread bytes.",
        "server.cut_connections", {"what": ("incomplete", "unread")}),
    Row("hub_connections_deferred", COUNTER,
        "Times that a connection waited for a later turn of the event loop, by exhausted budget.",
        lambda s: {"events": s.server.events.put_off_total,
                   "changes": s.server.changes.put_off_total, "writes": s.core.writers.put_off_total},
        {"share": ("events", "changes", "writes")}),
    Row("hub_connections_with_deadline", GAUGE, "Connections with a deadline: handshake, silence, or closing.",
        lambda s: len(s.server.keepalive)),
    Row("hub_tls_handshakes", GAUGE, "TLS handshakes in progress.", lambda s: len(s.server.handshakes)),
    Row("hub_tls_handshakes_limit", GAUGE, "Limit of TLS handshakes in progress.", "server.handshakes.places.limit"),
    Row("hub_tls_handshakes_evicted", COUNTER, "TLS handshakes closed to make room for others.",
        "server.handshakes.evicted"),
    Row("hub_tls_failures", COUNTER, "Failed TLS handshakes at `tls://` and `wss://` listeners.",
        "server.tls_failures"),
    Row("hub_zeek_tls_failures", COUNTER, "Failed TLS handshakes at `zeek://` listeners.", "server.zeek.tls_failures"),
    # Users, and what they hold.
    Row("hub_access_open", GAUGE, "1 if the hub has no access control: every client may do everything.",
        "server.access.is_open"),
    Row("hub_users_recognised", COUNTER, "Authenticated clients, by credential.",
        lambda s: {how: s.server.access.recognised[how] for how in get_args(How)}, {"how": get_args(How)}),
    Row("hub_users_refused", COUNTER, "Rejected clients, by reason; the log has the exact cause.",
        lambda s: {reason.value: s.server.access.refused[reason] for reason in Reason}, {"reason": values_of(Reason)}),
    Row("hub_users_denied", COUNTER,
        "Messages and requests rejected for lack of permission; `$hub/audit` reports them.",
        "server.audit.refused_total"),
    Row("hub_policy_tests", COUNTER, "Requests to `$hub/policy/test`, by outcome.",
        lambda s: {outcome: s.server.access.tested[outcome] for outcome in get_args(Tested)},
        {"outcome": get_args(Tested)}),
    Row("hub_users_forgotten", COUNTER, "Times that the permission cache of a user was full and was cleared.",
        "core.authority.forgotten_total"),
    Row("hub_users_slowed", GAUGE, "Addresses with recent failed logins; their next failure is answered later.",
        "server.access.failures.addresses"),
    Row("hub_quota_limit", GAUGE, "Total for all users together.",
        lambda s: {resource: whole.total for resource, whole in s.quotas.items()}, {"resource": values_of(Resource)}),
    Row("hub_quota_held", GAUGE, "Amount that all users hold.",
        lambda s: {resource: whole.held for resource, whole in s.quotas.items()}, {"resource": values_of(Resource)}),
    Row("hub_quota_refused", COUNTER, "Times that a user was over quota: rejected, or messages dropped.",
        lambda s: {resource: whole.refused_total for resource, whole in s.quotas.items()},
        {"resource": values_of(Resource)}),
    Row("hub_quota_held_back", COUNTER,
        "Times that the hub paused reading from a connection because of its user's rate limit.",
        "core.quotas.held_back_total"),
    # Messages, and the handlers that they go to.
    Row("hub_handlers", GAUGE, "Handlers (data sinks) of the core, by role.",
        handlers_by_role, {"role": values_of(Role)}),
    Row("hub_handlers_paused", GAUGE, "Handlers whose transport accepts no bytes at the moment.",
        "statistics.paused_handlers"),
    Row("hub_queued_messages", GAUGE, "Messages queued for slow handlers.", "statistics.queued_messages"),
    Row("hub_queued_bytes", GAUGE, "Bytes queued for slow handlers.", "statistics.queued_bytes"),
    Row("hub_received_bytes", COUNTER, "Bytes read, without TLS overhead.",
        lambda s: s.server.received_bytes_before + sum(one.read_bytes for one in s.server.connections)),
    Row("hub_read_bytes", HISTOGRAM, "Sizes of sampled reads; larger ones mean that the hub falls behind.",
        lambda s: s.server.read_times.bytes.statistics()),
    Row("hub_read_seconds", HISTOGRAM,
        "Time from a read until all its messages are written or queued; sampled, at most 100 a second.",
        lambda s: s.server.read_times.seconds.statistics()),
    Row("hub_queue_seconds", HISTOGRAM, "Time that messages waited in the queues of slow clients and peers.",
        lambda s: s.server.queue_times.statistics()),
    Row("hub_messages_published", COUNTER, "Messages accepted from clients, links and this process.",
        "statistics.published_messages_total"),
    Row("hub_messages_delivered", COUNTER, "Messages written, counted once for each handler.",
        "statistics.delivered_messages_total"),
    Row("hub_messages_rejected", COUNTER, "Messages rejected: invalid topic, or no permission.",
        "server.rejected_messages"),
    Row("hub_messages_dropped", COUNTER, "Messages dropped, by overflow policy; unreadable ones included.",
        lambda s: {policy.value: s.statistics.dropped_messages_total.get(policy.value, 0) for policy in Overflow},
        {"overflow": values_of(Overflow)}),
    Row("hub_messages_unreadable", COUNTER,
        "Dropped messages that the receiver cannot decode, or that are too large for it.",
        "statistics.unreadable_messages_total"),
    Row("hub_delivered_bytes", COUNTER, "Bytes of messages, requests and replies handed to transports.",
        "statistics.delivered_bytes_total"),
    # Routes.
    Row("hub_refused_for_limits", COUNTER,
        "Prefixes, rules and services over `limits.*_per_client` or `limits.prefixes_per_peer`.",
        lambda s: s.core.refused_for_limits(), {"what": ("prefixes", "rules", "services")}),
    Row("hub_subscriptions", GAUGE, "Subscriptions: pairs of prefix and handler.", "statistics.routing.subscriptions"),
    Row("hub_filter_prefixes", GAUGE, "Prefixes announced to peers.", "statistics.routing.filter_prefixes"),
    Row("hub_rules", GAUGE, "Label subscriptions: pairs of rule and handler.", "statistics.routing.rules"),
    Row("hub_routes", GAUGE, "Cached routing keys.", "statistics.routing.routes"),
    Row("hub_routes_tagged", GAUGE, "Cached routing keys with labels or names.", "statistics.routing.tagged"),
    Row("hub_routes_bytes", GAUGE, "Size of the cached routing keys.", "statistics.routing.size_bytes"),
    Row("hub_routes_bytes_limit", GAUGE, "Limit of the size of cached routing keys.", "core.routes.limit_bytes"),
    Row("hub_routes_limit", GAUGE, "Limit of the number of cached routing keys.", "core.routes.limit"),
    Row("hub_route_misses", COUNTER, "Lookups of routing keys that were not cached.",
        "statistics.routing.misses_total"),
    Row("hub_route_clears", COUNTER, "Times that the route cache was emptied.", "statistics.routing.clears_total"),
    Row("hub_memory_limit_bytes", GAUGE, "Memory budget (`limits.memory_bytes`).", "memory.limit_bytes"),
    Row("hub_memory_resident_bytes", GAUGE, "Resident memory at the last measurement.", "memory.resident_bytes"),
    Row("hub_memory_charged_bytes", GAUGE, "Approximate memory by account.", "memory.charged_bytes",
        {"account": ACCOUNTS}),
    Row("hub_memory_over", GAUGE,
        "1 while memory is short: new connections, subscriptions and other new state are rejected.", "memory.is_over"),
    Row("hub_memory_reliefs", COUNTER, "Times that queues dropped messages for lack of memory.",
        "memory.reliefs_total"),
    Row("hub_memory_relieved_bytes", COUNTER, "Bytes dropped for lack of memory.", "memory.relieved_bytes_total"),
    Row("hub_memory_refused", COUNTER, "Connections, subscriptions and other new state rejected for lack of memory.",
        "memory.refused_total"),
    Row("hub_log_queued_bytes", GAUGE, "Log lines that are not written yet.", "log.queued_bytes"),
    Row("hub_log_queue_limit_bytes", GAUGE, "Limit of the log queue; 0 for a hub inside a program.", "log.limit_bytes"),
    Row("hub_log_dropped_lines", COUNTER, "Log lines dropped because standard error was not read.",
        "log.dropped_lines_total"),
    Row("hub_log_suppressed_lines", COUNTER, "Log lines suppressed by the rate limit of their event.",
        "log.suppressed_lines_total"),
    # Requests, and service names.
    Row("hub_services", GAUGE, "Served prefixes, at this hub or at peer hubs.", "requests.services"),
    Row("hub_requests_pending", GAUGE, "Requests without a reply yet.", "requests.pending"),
    Row("hub_requests_limit", GAUGE, "Limit of pending requests.", "server.settings.requests.pending_total"),
    Row("hub_requests", COUNTER, "Requests accepted from clients and links.", "requests.asked_total"),
    Row("hub_requests_answered", COUNTER, "Replies, by status; one for each request.",
        "requests.answered_total", {"status": [status.name.lower() for status in Status]}),
    Row("hub_requests_abandoned", COUNTER, "Requests whose client left before the reply.", "requests.abandoned_total"),
    Row("hub_requests_refused", COUNTER, "Requests and replies without permission.", "requests.refused_total"),
    Row("hub_requests_duplicate", COUNTER, "Requests with the transaction id of a pending request.",
        "requests.duplicate_total"),
    Row("hub_replies_late", COUNTER, "Replies that arrived too late.", "requests.late_total"),
    Row("hub_replies_unexpected", COUNTER, "Replies to no request.", "requests.unasked_total"),
    Row("hub_names", GAUGE, "Service names, including those of peer hubs.", "names.names"),
    Row("hub_names_announced", GAUGE, "Service names of peer hubs.", "names.far"),
    Row("hub_names_waiting", GAUGE, "Claims that wait for a name.", "names.waiting"),
    Row("hub_names_appeared", COUNTER, "Times that a name got an owner, or other labels.", "names.appeared_total"),
    Row("hub_name_claims_refused", COUNTER,
        "Rejected claims: the name has an owner, the limit is reached, or the name is invalid.",
        "names.refused_total"),
    Row("hub_names_lost", COUNTER, "Owners at this hub that were replaced by an earlier claim at a peer.",
        "names.lost_total"),
    Row("hub_names_ignored", COUNTER, "Names announced by peers and ignored: invalid, or over the limit.",
        "names.ignored_total"),
    # Shared memory.
    Row("hub_shared_messages", COUNTER, "Messages, requests and replies that arrived in shared memory.",
        "server.shared.messages_total"),
    Row("hub_shared_copied", COUNTER, "Shared messages that were copied because the descriptor limit was reached.",
        "server.shared.copied_total"),
    Row("hub_shared_refused", COUNTER, "Invalid handles and segments.", "server.shared.refused_total"),
    Row("hub_shared_descriptors", GAUGE, "Open descriptors of shared memory.", "server.shared.descriptors.open"),
    Row("hub_shared_descriptors_limit", GAUGE, "Limit of descriptors of shared memory.",
        "server.shared.descriptors.limit"),
    Row("hub_shared_segments", GAUGE, "Shared-memory segments of publishers.", "server.shared.segments"),
    # Links to other hubs.
    Row("hub_links", GAUGE, "Linked peer hubs.", lambda s: len(s.server.links)),
    Row("hub_links_lost_messages", COUNTER, "Messages lost with links to peer hubs; `at_most` counts upper bounds.",
        lambda s: {"exactly": s.server.accounts.lost_messages, "at_most": s.server.accounts.possibly_lost_messages},
        {"known": ("exactly", "at_most")}),
    Row("hub_links_unconfirmed_messages", GAUGE, "Messages sent over links that ended, with unknown fate.",
        "server.accounts.messages_in_doubt"),
    Row("hub_links_missed_messages", COUNTER, "Messages of peer hubs that did not arrive here, as those hubs reported.",
        "server.accounts.missed_messages"),
    Row("hub_link_up", GAUGE, "Links to this hub that are up; 0 for an hour after the last one ended.",
        each("links", "hub", "links"), HUB),
    Row("hub_link_messages", COUNTER, "Messages over the link.",
        lambda s: {(one.hub, "in"): one.carried.received_messages for one in s.links}
        | {(one.hub, "out"): one.carried.sent_messages for one in s.links},
        HUB | {"direction": ("in", "out")}),
    Row("hub_link_bytes", COUNTER, "Bytes over the link, without TLS; out: messages, requests and replies only.",
        lambda s: {(one.hub, "in"): one.carried.received_bytes for one in s.links}
        | {(one.hub, "out"): one.carried.sent_bytes for one in s.links},
        HUB | {"direction": ("in", "out")}),
    Row("hub_link_queued_messages", GAUGE, "Messages queued for the link.",
        each("links", "hub", "queued_messages"), HUB),
    Row("hub_link_waiting_seconds", GAUGE, "Age of the oldest message queued for the link; 60 at most.",
        each("links", "hub", "waiting_s"), HUB),
    Row("hub_link_lag_seconds", GAUGE, "Round-trip time of the last PING, or time since an unanswered PING.",
        each("links", "hub", "lag_s"), HUB),
    Row("hub_link_cost", GAUGE, "Cost of the link: messages take the cheapest path.",
        each("links", "hub", "cost"), HUB),
    Row("hub_link_dropped_messages", COUNTER, "Messages lost at the link, by reason.",
        lambda s: {(one.hub, reason): lost for one in s.links for reason, lost in one.dropped.items()},
        HUB | {"reason": ("queue_full", "too_large", "cut", "missed", "overtaken")}),
    Row("hub_link_path_changes", COUNTER, "Times that the messages of some hub switched to this link.",
        each("links", "hub", "carried.path_changes"), HUB),
    # The mesh.
    Row("hub_mesh_hubs", GAUGE, "Known hubs of the mesh, this one included.", "mesh.hubs"),
    Row("hub_mesh_hubs_limit", GAUGE, "Limit of known hubs of the mesh.", "server.settings.mesh.hubs"),
    Row("hub_mesh_links", GAUGE, "Links of this hub that are part of the mesh.", "mesh.links"),
    Row("hub_mesh_prefixes", GAUGE, "Stored prefixes of other hubs.", "mesh.prefixes"),
    Row("hub_mesh_prefixes_limit", GAUGE, "Limit of stored prefixes of other hubs.", "server.settings.mesh.prefixes"),
    Row("hub_mesh_prefixes_not_stored", COUNTER, "Prefixes of other hubs that were not stored because of the limit.",
        "mesh.left_out_total"),
    Row("hub_mesh_hubs_incomplete", GAUGE, "Hubs that get every message, because their prefixes are not known here.",
        "mesh.incomplete"),
    Row("hub_mesh_epoch", GAUGE, "Epoch of the messages published here; grows when links of the mesh change.",
        "mesh.epoch"),
    Row("hub_mesh_announcements", COUNTER, "Announcements of other hubs: accepted, or over a limit (`refused`).",
        lambda s: {"taken": s.mesh.announcements_total, "refused": s.mesh.refused_total},
        {"outcome": ("taken", "refused")}),
    Row("hub_mesh_overtaken_messages", COUNTER,
        "Messages dropped because newer ones of the same hub arrived first by another path.",
        "mesh.overtaken_messages_total"),
    Row("hub_mesh_repeated_messages", COUNTER,
        "Messages dropped because they came by another path than the rest of their epoch.",
        "mesh.repeated_messages_total"),
    Row("hub_mesh_unreached_messages", COUNTER, "Messages without a path to a hub that subscribes to them.",
        "mesh.unreached_messages_total"),
    Row("hub_mesh_clashes", COUNTER, "Announcements of another hub with this hub's id: a cloned machine.",
        "mesh.clashes_total"),
    Row("hub_mesh_zeeks_left", GAUGE, "Zeeks served by another hub that is also their neighbour.", "core.leaves.left"),
    Row("hub_mesh_zeeks_left_messages", COUNTER, "Messages from or to such Zeeks that were dropped here.",
        "core.leaves.skipped_messages"),
    # Zeeks, and their data stores.
    Row("hub_zeek_subscriptions_refused", COUNTER, "Rejected subscriptions of Zeek nodes (`zeek+zmq://`).",
        "server.zeek.refused_subscriptions"),
    Row("hub_zeek_connections_broken", COUNTER, "Connections of Zeek nodes and brokers closed for invalid ZMTP.",
        "server.zeek.broken_connections"),
    Row("hub_zeek_handshakes_failed", COUNTER, "Failed handshakes with Zeek nodes and brokers, by reason.",
        lambda s: {fault.value: s.server.zeek.failed_handshakes[fault.value] for fault in Fault},
        {"reason": values_of(Fault)}),
    Row("hub_zeek_clusters_left", GAUGE, "Zeek clusters served by another hub of the mesh.",
        "server.zeek.clusters_left"),
    Row("hub_zeek_nodes", GAUGE, "Nodes that are up in the Zeek clusters of this hub.",
        lambda s: sum(len(discovery.nodes) for discovery in s.server.zeek.clusters.values())),
    Row("hub_zeek_stores", GAUGE, "Data stores of Zeeks.", "server.zeek.forwarder.stores"),
    Row("hub_zeek_store_entities", GAUGE, "Masters and clones of data stores at Zeeks.",
        "server.zeek.forwarder.entities"),
    Row("hub_zeek_store_commands_forwarded", COUNTER, "Commands for data stores forwarded to other Zeeks.",
        "server.zeek.forwarder.counters.forwarded"),
    Row("hub_zeek_store_commands_dropped", COUNTER, "Commands for data stores dropped, by reason.",
        zeek_commands_dropped, {"reason": names_of(ForwarderCounters, "forwarded")}),
    Row("hub_zeek_store_clones", GAUGE, "Clones, at Zeeks, of stores of this hub.",
        lambda s: {name: one.clones for name, one in s.server.zeek.masters.items()}, STORE),
    Row("hub_zeek_store_waiting_bytes", GAUGE, "Bytes that clones have not acknowledged.",
        lambda s: {name: one.waiting_bytes for name, one in s.server.zeek.masters.items()}, STORE),
    Row("hub_zeek_store_not_representable", COUNTER, "Entries whose value has no Broker form.",
        lambda s: {name: one.unwritable for name, one in s.server.zeek.masters.items()}, STORE),
    Row("hub_zeek_store_following", GAUGE, "1 while a store of this hub follows a master at a Zeek.",
        lambda s: {name: one.is_attached for name, one in s.server.zeek.copies.items()}, STORE),
    Row("hub_zeek_store_refused", COUNTER, "Commands without permission.", zeek_wishes_refused, STORE),
    Row("hub_zeek_store_events", COUNTER, "Irregularities between stores and their clones at Zeeks.",
        zeek_store_events, {"event": names_of(ChannelCounters) + names_of(MasterCounters, "channel")}),
    # Stores.
    Row("hub_stores", GAUGE, "Stores of this hub.", lambda s: len(s.server.stores)),
    Row("hub_store_entries", GAUGE, "Entries of a store.",
        lambda s: {one.name: one.statistics().store.entries for one in s.server.stores}, STORE),
    Row("hub_store_entries_limit", GAUGE, "Limit of the entries of a store.",
        each("server.stores", "name", "store.limits.entries"), STORE),
    Row("hub_store_bytes", GAUGE, "Bytes charged for the entries: contents and 200 bytes each.",
        lambda s: {one.name: one.statistics().store.bytes for one in s.server.stores}, STORE),
    Row("hub_store_bytes_limit", GAUGE, "Limit of the bytes charged for a store.",
        each("server.stores", "name", "store.limits.bytes"), STORE),
    Row("hub_store_kept_changes", GAUGE, "Recent changes kept for watchers that reconnect.",
        lambda s: {one.name: one.statistics().store.kept_changes for one in s.server.stores}, STORE),
    Row("hub_store_kept_changes_limit", GAUGE, "Limit of the kept changes of a store.",
        each("server.stores", "name", "store.limits.changes"), STORE),
    Row("hub_store_operations", COUNTER,
        "Operations of a store, by kind; `command` includes `refused`, `fed` includes `fed_lost`.",
        store_operations, STORE | {"what": STORE_OPERATIONS}),
    # Journals of other hubs.
    Row("hub_remote_journals_pending", GAUGE, "Reads of other hubs' journals that clients of this hub wait for.",
        "remote_journals.pending"),
    Row("hub_remote_journals_asked", COUNTER, "Reads of other hubs' journals.", "remote_journals.asked_total"),
    Row("hub_remote_journals_answering", GAUGE, "Reads of this hub's journal that other hubs wait for.",
        "remote_journals.answering"),
    Row("hub_remote_journals_answering_limit", GAUGE, "Limit of reads that other hubs wait for.",
        lambda _: ANSWERING_LIMIT),
    Row("hub_remote_journals_answered", COUNTER, "Reads of other hubs that were passed to the journal.",
        "remote_journals.answered_total"),
    Row("hub_remote_journals_refused", COUNTER, "Rejected reads of other hubs.",
        "remote_journals.refused_total"),
    Row("hub_remote_consumers_clients", GAUGE, "Clients of this hub that have joined a consumer of another hub.",
        "remote_consumers.clients"),
    Row("hub_remote_consumers_pending", GAUGE, "Requests for consumers of another hub without a reply yet.",
        "remote_consumers.pending"),
    Row("hub_remote_consumers_unreported", GAUGE, "Clients that left and are not yet reported to the consumer's hub.",
        "remote_consumers.unreported"),
    Row("hub_remote_consumers_asked", COUNTER, "Requests for consumers of another hub.",
        "remote_consumers.asked_total"),
    Row("hub_remote_consumers_lost", COUNTER, "Requests for consumers of another hub lost with the path.",
        "remote_consumers.lost_total"),
    Row("hub_remote_confirmations_pending", GAUGE,
        "Confirmations of other hubs' journals that clients of this hub wait for.",
        "remote_confirmations.pending"),
    Row("hub_remote_confirmations_limit", GAUGE,
        "Pending confirmations at which the hub stops reading from publishers.",
        lambda _: WAITING_LIMIT),
    Row("hub_remote_confirmations_asked", COUNTER, "Confirmations of other hubs' journals requested.",
        "remote_confirmations.taken"),
    Row("hub_remote_confirmations_refused", COUNTER, "Confirmations of other hubs' journals that failed.",
        "remote_confirmations.refused_total"),
    Row("hub_remote_confirmations_pauses", COUNTER,
        "Times that the hub paused reading from a publisher because of the limit.",
        "remote_confirmations.pauses_total"),
    Row("hub_marks_expected", GAUGE, "Confirmations of this hub's journal that other hubs wait for.", "marks.expected"),
    Row("hub_marks_expected_limit", GAUGE, "Limit of confirmations that other hubs wait for.",
        lambda _: EXPECTED_LIMIT),
    Row("hub_marks_confirmed", COUNTER, "Batches confirmed to other hubs.", "marks.confirmed_total"),
    Row("hub_marks_refused", COUNTER, "Batches reported to other hubs as not recorded.", "marks.refused_total"),
)
JOURNAL: tuple[Row[JournalStatistics], ...] = (
    Row("hub_journal_ready", GAUGE, "1 while the journal can be written.", lambda s: not s.recorder.error),
    Row("hub_journal_first_offset", GAUGE, "Offset of the oldest record.", "recorder.at.first"),
    Row("hub_journal_committed_offset", GAUGE, "Offset after the newest record.", "recorder.committed"),
    Row("hub_journal_bytes", GAUGE, "Size of all blocks on the disk.", "recorder.at.size_bytes"),
    Row("hub_journal_recorded", COUNTER, "Messages committed.", "recorder.recorded_messages_total"),
    Row("hub_journal_lost", COUNTER, "Messages not recorded, because the journal could not be written.",
        "recorder.lost_messages_total"),
    Row("hub_journal_positions_moved_back", COUNTER,
        "Positions of readers and consumers moved back after a power loss.", "cuts_total"),
    Row("hub_journal_waiting_bytes", GAUGE, "Bytes that are not on the disk yet.", "recorder.waiting_bytes"),
    Row("hub_journal_confirm_seconds", HISTOGRAM,
        "Time until a published message is on the disk: the wait of a confirmed publish.",
        lambda s: s.recorder.confirm_times.statistics()),
    Row("hub_journal_pauses", COUNTER, "Times that the hub paused reading from a publisher because of the journal.",
        "recorder.pauses_total"),
    Row("hub_journal_readers", GAUGE, "Processes that read the journal.", "readers"),
    Row("hub_journal_fetches", GAUGE, "FETCH requests without a reply yet.", "fetches"),
    Row("hub_journal_staged_transactions", GAUGE, "Transactions that wait for COMMIT.", lambda s: len(s.staging)),
    Row("hub_journal_staged_bytes", GAUGE, "Bytes of transactions that wait for COMMIT.", "staging.size_bytes"),
    Row("hub_journal_batches", COUNTER, "Batches of writers, by outcome.",
        lambda s: {"committed": s.staging.committed_total,
                   "repeated": s.staging.repeated_total, "dropped": s.staging.dropped_total},
        {"outcome": ("committed", "repeated", "dropped")}),
    Row("hub_consumers", GAUGE, "Named consumers.", lambda s: len(s.consumers.each)),
    Row("hub_consumers_limit", GAUGE, "Limit of named consumers (`journal.consumers`).", "consumers.limit"),
    Row("hub_consumers_save_failures", COUNTER, "Times that positions of consumers could not be written.",
        "consumers.save_failures_total"),
    Row("hub_consumers_forgotten", COUNTER, "Queries removed after 30 days without a sign of life.",
        "consumers.forgotten_total"),
    Row("hub_consumer_members", GAUGE, "Clients that share a consumer.",
        each("consumers.each", "name", "members"), CONSUMER),
    Row("hub_consumer_lag", GAUGE, "Committed records after the position of a consumer, matching or not.",
        each("consumers.each", "name", "lag"), CONSUMER),
    Row("hub_consumer_out_messages", GAUGE, "Messages that members of a consumer have not acknowledged yet.",
        each("consumers.each", "name", "out"), CONSUMER),
    Row("hub_consumer_messages", COUNTER, "Messages of a consumer: `dead` were given up, `missed` were deleted unread.",
        lambda s: {(one.name, outcome.removesuffix("_total")): messages
                   for one in s.consumers.each for outcome, messages in one.counters._asdict().items()},
        CONSUMER | {"outcome": [name.removesuffix("_total") for name in ConsumerCounters._fields]}),
    Row("hub_consumers_remote_clients", GAUGE, "Clients of workers and other hubs that have joined a consumer.",
        "consumers.for_hubs.clients"),
    Row("hub_consumers_answering", GAUGE, "Pending requests of workers and other hubs for consumers.",
        "consumers.for_hubs.answering"),
    Row("hub_consumers_answering_limit", GAUGE, "Limit of these requests; more are rejected.",
        lambda _: CONSUMERS_ANSWERING_LIMIT),
    Row("hub_consumers_answered", COUNTER, "Answered requests of workers and other hubs for consumers.",
        "consumers.for_hubs.answered_total"),
    Row("hub_consumers_refused", COUNTER, "Rejected requests of workers and other hubs for consumers.",
        "consumers.for_hubs.refused_total"),
)
TIER: tuple[Row[TierStatistics], ...] = (
    Row("hub_journal_tier_ready", GAUGE, "1 while the journal is copied to its tier.", lambda s: not s.error),
    Row("hub_journal_tier_first_offset", GAUGE, "Offset of the oldest record in the tier.", "progress.first"),
    Row("hub_journal_tier_copied_offset", GAUGE, "Offset after the newest record in the tier.", "progress.next"),
    Row("hub_journal_tier_files", GAUGE, "Files of records in the tier.", "progress.files"),
    Row("hub_journal_tier_bytes", GAUGE, "Size of the files in the tier.", "progress.size_bytes"),
    Row("hub_journal_tier_missed_messages", GAUGE,
        "Messages deleted from the journal before they were copied to the tier.", "progress.missed"),
    Row("hub_journal_tier_failures", COUNTER, "Times that copying failed.", "failures_total"),
    Row("hub_journal_tier_restarts", COUNTER, "Times that the copying process ended unexpectedly.", "restarts_total"),
)
# fmt: on


def families(rows: Iterable[Row[Snapshot]], snapshot: Snapshot) -> Iterator[Metric]:
    for name, kind, text, read, labels in rows:
        figures = attrgetter(read)(snapshot) if isinstance(read, str) else read(snapshot)
        if isinstance(figures, HistogramStatistics):
            bounds = [*map(floatToGoString, figures.bounds), "+Inf"]
            buckets = list(zip(bounds, accumulate(figures.counts), strict=True))
            yield HistogramMetricFamily(name, text, buckets=buckets, sum_value=figures.total)
        elif isinstance(figures, Mapping):
            family = kind(name, text, labels=tuple(labels))
            for values, figure in figures.items():
                family.add_metric((values,) if isinstance(values, str) else values, figure)
            yield family
        else:
            yield kind(name, text, value=figures)


class HubCollector:
    """Collects the metrics of a hub."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def describe(self) -> list[Metric]:
        """Return nothing, which spares the registry a collection that it would make only to learn the names."""
        return []

    def collect(self) -> Iterator[Metric]:
        yield from families(METRICS, Scrape(self._server))
        journal = self._server.journal.statistics()
        if journal is None:
            return
        yield from families(JOURNAL, journal)
        if journal.tier is not None:
            yield from families(TIER, journal.tier)


def registry(server: Server) -> CollectorRegistry:
    found = CollectorRegistry()
    found.register(HubCollector(server))
    ProcessCollector(registry=found)
    PlatformCollector(registry=found)
    return found


def exposition(server: Server) -> bytes:
    return generate_latest(registry(server))
