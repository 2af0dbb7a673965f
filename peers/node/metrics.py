"""Metrics in the Prometheus text format, which are read from plain counters whenever somebody scrapes.

| name | type | labels | what |
|---|---|---|---|
| `hub_info` | gauge, 1 | `name`, `id`, `version` | which hub this is |
| `hub_draining` | gauge | | 1 from `hub drain`, or the signal to stop, on |
| `hub_drained_clients_total` | counter | | clients that `hub drain` has moved off |
| `hub_ready` | gauge | | 1 while the hub takes clients, 0 while it starts or stops, or its journal cannot be written |
| `hub_connections` | gauge | | open connections of all kinds, HTTP and handshakes included |
| `hub_connections_limit` | gauge | | how many there may be |
| `hub_connections_accepted_total` | counter | | accepted since the start |
| `hub_connections_refused_total` | counter | | refused because of a limit |
| `hub_connections_newcomers` | gauge | | connections that have not said yet who they are, refused ones included |
| `hub_connections_newcomers_limit` | gauge | | how many there may be |
| `hub_connections_evicted_total` | counter | | newcomers that had to give way to others |
| `hub_connections_shed_total` | counter | | closed unseen, because no descriptor was left |
| `hub_connections_failed_total` | counter | | ended with 1011 by a bug of the hub, which its log shows |
| `hub_connections_cut_total` | counter | `what`: `incomplete`, `unread` | frame did not get on; unread at the end |
| `hub_connections_put_off_total` | counter | `share`: `events`, `changes`, `writes` | one waited for a later turn |
| `hub_connections_watched` | gauge | | connections with a deadline: handshake, silence, lingering |
| `hub_handlers` | gauge | `role`: `client`, `link`, `leaf` (a Zeek), `local` | data sinks of the core |
| `hub_handlers_paused` | gauge | | handlers whose transport takes no bytes now |
| `hub_links` | gauge | | peer hubs that are linked |
| `hub_links_lost_messages_total` | counter | `known`: `exactly`, `at_most` | lost with links to peer hubs |
| `hub_links_doubtful_messages` | gauge | | sent over links that ended; may have arrived |
| `hub_links_refused_total` | counter | | times that a peer had no room for what it was told; told again later |
| `hub_links_missed_messages_total` | counter | | of peer hubs, as they told, that did not arrive |
| `hub_link_up` | gauge | `hub` | links to hubs of that name that are up; 0 for an hour after the last one |
| `hub_link_messages_total` | counter | `hub`, `direction`: `in`, `out` | messages that links have carried |
| `hub_link_bytes_total` | counter | `hub`, `direction` | of these, requests and replies; in: of all that came |
| `hub_link_queued_messages` | gauge | `hub` | what waits for the link |
| `hub_link_waiting_seconds` | gauge | `hub` | how long the oldest of these has waited, to a second; 60 at most |
| `hub_link_lag_seconds` | gauge | `hub` | how long a PING took last, every 5 s, and its answer; or takes already |
| `hub_link_cost` | gauge | `hub` | of the link in the mesh |
| `hub_link_dropped_messages_total` | counter | `hub`, `reason`: `queue_full`, `cut`, ... | lost at a link |
| `hub_link_path_changes_total` | counter | `hub` | times that messages of some hub began to come by this link |
| `hub_mesh_hubs` | gauge | | hubs of the mesh that are known, this one with them |
| `hub_mesh_hubs_limit` | gauge | | how many there may be |
| `hub_mesh_links` | gauge | | links of this hub that are part of the mesh |
| `hub_mesh_prefixes` | gauge | | prefixes of other hubs that are kept |
| `hub_mesh_prefixes_limit` | gauge | | how many there may be |
| `hub_mesh_prefixes_left_out_total` | counter | | prefixes of other hubs that were not kept, as there were too many |
| `hub_mesh_epoch` | gauge | | of what enters here: it grows when links of the mesh come and go |
| `hub_mesh_announcements_total` | counter | `outcome`: `taken`, `refused` | of other hubs: new ones; over a limit |
| `hub_mesh_overtaken_messages_total` | counter | | lost here, as a newer epoch of their hub had overtaken them |
| `hub_mesh_repeated_messages_total` | counter | | not taken: they came by another way than the rest |
| `hub_mesh_stranded_messages_total` | counter | | came for a hub to which nothing leads on any more, once for each |
| `hub_mesh_unreached_messages_total` | counter | | entered here for a hub out of reach, once for each |
| `hub_mesh_zeeks_left` | gauge | | Zeeks that are left to other hubs, which have them as well |
| `hub_mesh_zeeks_left_messages_total` | counter | | of such Zeeks, not taken; or for them, not sent |
| `hub_mesh_clashes_total` | counter | | times that somebody else told of this hub, with its id |
| `hub_probes_total` | counter | `what`: `asked`, `passed`, `refused` | of this hub; of others, and taken, or not |
| `hub_probe_reports_total` | counter | `outcome`: `taken`, `dropped` | taken or passed on; late, or not asked for |
| `hub_mesh_spare_links` | gauge | | links that this hub has dialled so that the mesh does not fall apart |
| `hub_mesh_spare_attempts_total` | counter | | how often it has dialled some hub for that |
| `hub_mesh_spare_failures_total` | counter | | how many of these have led to no link |
| `hub_mesh_spare_let_go_total` | counter | | such links that were let go, as nobody needed them any more |
| `hub_strangers` | gauge | role | 1 if whoever shows nothing is let in, with this role; else 0, without a role |
| `hub_tls_handshakes` | gauge | | TLS handshakes that go on |
| `hub_tls_handshakes_limit` | gauge | | how many there may be |
| `hub_tls_handshakes_evicted_total` | counter | | handshakes that had to give way to others |
| `hub_tls_failures_total` | counter | | connections to a `tls://` or `wss://` listener whose TLS handshake failed |
| `hub_users_open` | gauge | | 1 where nobody is asked who he is, and everybody may do everything |
| `hub_users_recognised_total` | counter | `how`: `token`, ... (`peers.users.identity`) | recognised |
| `hub_users_refused_total` | counter | `reason`: `nothing`, `token`, ... (`peers.users.refusal`) | not recognised |
| `hub_users_denied_total` | counter | | messages and requests that their user may not send; told on `$hub/audit` |
| `hub_users_forgotten_total` | counter | | times that what was decided for a user was too much, and forgotten |
| `hub_users_slowed` | gauge | | addresses that failed lately, whose next failure is answered later |
| `hub_quota_users` | gauge | | users who have a connection, or something else that is charged to them |
| `hub_quota_limit`, `hub_quota_held` | gauge | `resource`: `connections`, ... | what there is, and what users hold |
| `hub_quota_refused_total` | counter | `resource` | times that one was refused more, or lost messages for it |
| `hub_quota_held_back_total` | counter | | times that a connection was not read on for the rate of its user |
| `hub_quota_held_back_seconds_total` | counter | | for how long, added up over connections |
| `hub_quota_user_held` | gauge | `user`, `resource` | of the 32 who hold most; of the others: `user=""` |
| `hub_zeek_tls_failures_total` | counter | | connections to a `zeek://` listener whose TLS handshake failed |
| `hub_zeek_subscriptions_refused_total` | counter | | subscriptions of nodes (`zeek+zmq://`) that were not taken |
| `hub_zeek_stores`, `hub_zeek_store_entities` | gauge | | data stores of Zeeks; masters and clones there |
| `hub_zeek_store_commands_forwarded_total` | counter | | commands of Zeeks for data stores that went to other Zeeks |
| `hub_zeek_store_commands_dropped_total` | counter | `reason` (`ForwarderCounters`) | commands that went nowhere |
| `hub_zeek_store_clones`, `hub_zeek_store_waiting_bytes` | gauge | `store` | of stores of this hub; what they lack |
| `hub_zeek_store_left_out_total`, `hub_zeek_store_refused_total` | counter | `store` | no Broker form; not granted |
| `hub_zeek_store_following` | gauge | `store` | 1 while a store of this hub follows a master at a Zeek |
| `hub_zeek_store_events_total` | counter | `event` (`MasterCounters`) | what went wrong between the two |
| `hub_subscriptions` | gauge | | pairs of prefix and handler |
| `hub_filter_prefixes` | gauge | | prefixes that peers are told |
| `hub_messages_published_total` | counter | | messages taken from clients, links and this process |
| `hub_messages_rejected_total` | counter | | messages refused: bad topic, not allowed |
| `hub_messages_delivered_total` | counter | | messages written, once for each handler |
| `hub_messages_dropped_total` | counter | `overflow`: the policy | messages lost: full queue, or no form |
| `hub_messages_unreadable_total` | counter | | of these, those without a form that the far side reads, or too large |
| `hub_delivered_bytes_total` | counter | | bytes of messages, requests and replies handed to transports |
| `hub_queued_messages`, `hub_queued_bytes` | gauge | | what waits for slow handlers |
| `hub_rules` | gauge | | pairs of rule and handler |
| `hub_refused_for_limits_total` | counter | `what`: `prefixes`, `rules`, `services` | one handler had too many |
| `hub_routes` | gauge | | routing keys remembered |
| `hub_routes_tagged` | gauge | | those of them with labels or names |
| `hub_routes_bytes`, `hub_routes_bytes_limit` | gauge | | what they take, and what they may |
| `hub_routes_limit` | gauge | | how many may be |
| `hub_route_misses_total` | counter | | lookups that had to search |
| `hub_route_clears_total` | counter | | times that the cache was emptied |
| `hub_memory_limit_bytes`, `hub_memory_resident_bytes` | gauge | | the budget, and what was taken at the last look |
| `hub_memory_charged_bytes` | gauge | `account`: `queues`, `subscriptions`, ... | what the hub holds, about |
| `hub_memory_over` | gauge | | 1 while there is too little memory: what is new is refused |
| `hub_memory_reliefs_total`, `hub_memory_relieved_bytes_total` | counter | | drops for want of memory; their sum |
| `hub_memory_refused_total` | counter | | connections, subscriptions, names, stages refused for want of memory |
| `hub_services` | gauge | | prefixes that are served, here or at peer hubs |
| `hub_requests_pending`, `hub_requests_limit` | gauge | | requests without an answer yet; how many there may be |
| `hub_requests_total` | counter | | requests taken from clients and links |
| `hub_requests_answered_total` | counter | `status`: `ok`, `failed`, `timed_out`, ... | answers, one for each request |
| `hub_requests_abandoned_total` | counter | | requests whose requester left before the answer |
| `hub_requests_refused_total` | counter | | requests and replies that nobody may send |
| `hub_requests_duplicate_total` | counter | | requests whose transaction id was pending |
| `hub_replies_late_total`, `hub_replies_unasked_total` | counter | | replies too late; that nobody asked for |
| `hub_names`, `hub_names_announced`, `hub_names_waiting` | gauge | | names; those of peers; claims that wait |
| `hub_names_appeared_total` | counter | | times that a name got an owner, or other labels |
| `hub_name_claims_refused_total` | counter | | claims refused: owned by another, too many, no name |
| `hub_names_lost_total` | counter | | owners here that a peer's claim came before |
| `hub_names_unheard_total` | counter | | names announced by peers and not taken: bad, or too many |

[Shared memory](../docs/shared-memory.md):

| name | type | labels | what |
|---|---|---|---|
| `hub_shared_messages_total` | counter | | messages, requests and replies that came in shared memory |
| `hub_shared_copied_total` | counter | | of these, copied at once, because there were too many descriptors |
| `hub_shared_refused_total` | counter | | handles and segments that were not what they said |
| `hub_shared_descriptors` | gauge | | descriptors of shared memory that are open |
| `hub_shared_descriptors_limit` | gauge | | how many there may be |
| `hub_shared_segments` | gauge | | segments of publishers |

[Journals of other hubs](../docs/journal.md#the-journal-of-another-hub):

| name | type | labels | what |
|---|---|---|---|
| `hub_far_journals_pending` | gauge | | pieces of them that clients of this hub wait for |
| `hub_far_journals_asked_total` | counter | | pieces that were asked for |
| `hub_far_journals_answering` | gauge | | pieces of this hub's journal that other hubs wait for |
| `hub_far_journals_answering_limit` | gauge | | how many there may be |
| `hub_far_journals_answered_total` | counter | | questions of other hubs that went to the journal |
| `hub_far_journals_refused_total` | counter | | questions of other hubs that were refused |
| `hub_far_confirmations_pending` | gauge | | confirmations of other hubs' journals that clients of this hub wait for |
| `hub_far_confirmations_limit` | gauge | | how many there are before those who ask for more are not read |
| `hub_far_confirmations_asked_total` | counter | | confirmations that were asked for |
| `hub_far_confirmations_refused_total` | counter | | of these, those that have become errors |
| `hub_far_confirmations_pauses_total` | counter | | times that a publisher was not read on because of the limit |
| `hub_marks_expected` | gauge | | confirmations of this hub's journal that other hubs wait for |
| `hub_marks_expected_limit` | gauge | | how many there may be |
| `hub_marks_confirmed_total` | counter | | batches that were confirmed to other hubs |
| `hub_marks_refused_total` | counter | | batches of which other hubs were told that they are not recorded, and why |
| `hub_stores` | gauge | | [stores](../docs/stores.md) that this hub has |
| `hub_store_entries`, `hub_store_entries_limit` | gauge | `store` | of each; how many there may be |
| `hub_store_bytes`, `hub_store_bytes_limit` | gauge | `store` | what they are charged, 200 bytes each beside the rest |
| `hub_store_kept_changes`, `hub_store_kept_changes_limit` | gauge | `store` | last changes, for who has missed some |
| `hub_store_operations_total` | counter | `store`, `what` | `command` (all), `refused` (of these), `expired`, `read`, |
| | | | `snapshot` (begun), `published` (messages of changes), `keep_failure` (its file could not be written), |
| | | | `fed` (messages of a prefix that feeds it), `fed_lost` (of these, what it could not keep) |

With a journal:

| name | type | labels | what |
|---|---|---|---|
| `hub_journal_ready` | gauge | | 1 while the journal is written, 0 while it cannot be |
| `hub_journal_first_offset`, `hub_journal_committed_offset` | gauge | | the oldest record; the one behind the newest |
| `hub_journal_bytes` | gauge | | of all blocks on the disk |
| `hub_journal_recorded_total` | counter | | messages committed |
| `hub_journal_lost_total` | counter | | messages not recorded, because the journal could not be written |
| `hub_journal_waiting_bytes` | gauge | | on their way to the disk |
| `hub_journal_pauses_total` | counter | | times that a publisher was not read on because of it |
| `hub_journal_readers`, `hub_journal_fetches` | gauge | | reader processes; FETCHes that wait for an answer |
| `hub_journal_staged_transactions`, `hub_journal_staged_bytes` | gauge | | what waits for its COMMIT |
| `hub_journal_batches_total` | counter | `outcome`: `committed`, `repeated`, `dropped` | batches of writers |
| `hub_consumers`, `hub_consumers_limit` | gauge | | [named](../docs/consumers.md); how many there may be |
| `hub_consumers_save_failures_total` | counter | | times that their positions could not be written |
| `hub_consumer_members` | gauge | `consumer` | clients that share it |
| `hub_consumer_lag` | gauge | `consumer` | committed records, wanted or not, behind its position |
| `hub_consumer_out_messages` | gauge | `consumer` | messages that its members have |
| `hub_consumer_messages_total` | counter | `consumer`, `outcome` | messages of a consumer: `delivered`, |
| | | | `redelivered` (of these), `acknowledged`, `late` (by who had it no more), `dead` (given up), |
| | | | `missed` (deleted before they were read) |
| `hub_consumers_far_clients` | gauge | | clients of other hubs, workers among them, that have joined one |
| `hub_consumers_answering`, `hub_consumers_answering_limit` | gauge | | questions of other hubs that wait |
| `hub_consumers_answered_total`, `hub_consumers_refused_total` | counter | | questions of other hubs |

Consumers of another hub that are used here (`journal.of`):

| name | type | labels | what |
|---|---|---|---|
| `hub_far_consumers_clients` | gauge | | clients of this hub that have joined one there |
| `hub_far_consumers_pending` | gauge | | questions that are not answered |
| `hub_far_consumers_untold` | gauge | | clients that have left, and of whom it is not told yet |
| `hub_far_consumers_asked_total` | counter | | questions |
| `hub_far_consumers_lost_total` | counter | | questions that had no answer, as the way was lost |

While its sealed segments are [laid anew](../docs/journal.md#laid-anew):

| name | type | labels | what |
|---|---|---|---|
| `hub_journal_regroup_ready` | gauge | | 1 while they are, or nothing is to do; 0 while it fails |
| `hub_journal_regroup_segments_total` | counter | | segments that were laid anew |
| `hub_journal_regroup_bytes_total` | counter | `when`: `before`, `after` | what these took on the disk |
| `hub_journal_regroup_skipped_total` | counter | | segments that stay as they are, as they are damaged |
| `hub_journal_regroup_failures_total` | counter | | times that it failed, and was tried again |
| `hub_journal_regroup_restarts_total` | counter | | times that its process ended before it was done |

With a [tier](../docs/tier.md) of it:

| name | type | labels | what |
|---|---|---|---|
| `hub_journal_tier_ready` | gauge | | 1 while the journal is copied to its tier, 0 while it cannot be |
| `hub_journal_tier_first_offset`, `hub_journal_tier_copied_offset` | gauge | | the oldest there; behind the newest |
| `hub_journal_tier_files`, `hub_journal_tier_bytes` | gauge | | files of records there, and their length |
| `hub_journal_tier_missed_messages` | gauge | | deleted here before they were copied |
| `hub_journal_tier_failures_total` | counter | | times that copying failed |
| `hub_journal_tier_restarts_total` | counter | | times that the process that copies ended by itself |
| `hub_journal_tier_crashes_total` | counter | | times that one of its files ended a reader process |

And those of the Prometheus client for the process (`process_*`) and the interpreter (`python_info`). Counters start at
0 with the process. Cost: about 2 µs a handler and scrape, nothing between scrapes. No state.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import get_args

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from hub import __version__
from hub.leaves import Leaves
from hub.memory import MemoryStatistics
from hub.mesh.spares import SparesStatistics
from hub.mesh.statistics import MeshStatistics
from hub.metrics import CoreStatistics
from hub.names.names import NamesStatistics
from hub.overflow import Overflow
from hub.quotas.quotas import USERS_SHOWN, Quotas
from hub.requests.counters import RequestStatistics
from hub.settings import MeshSettings
from peers.journal.far_confirmations import WAITING_LIMIT, FarConfirmationsStatistics
from peers.journal.far_journals import ANSWERING_LIMIT, FarJournalStatistics
from peers.journal.marks import EXPECTED_LIMIT, MarksStatistics
from peers.journal.recording import JournalStatistics
from peers.node.accounts import Accounts
from peers.node.consumer_metrics import consumer_metrics, far_consumer_metrics
from peers.node.node import Node
from peers.node.probes import Probes
from peers.node.regroup_metrics import regroup_metrics
from peers.node.store_metrics import store_metrics
from peers.node.tier_metrics import tier_metrics
from peers.node.traffic import LinkTraffic
from peers.users.identity import How
from peers.users.refusal import Reason
from peers.zeek.broker.stores.forwarder import Forwarder

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
        statistics = self._node.core.statistics()
        yield from self._connections()
        yield from _users(self._node)
        yield from _shares(self._node.core.quotas)
        yield from self._handlers(statistics)
        yield from _messages(statistics)
        yield _counter(
            "hub_messages_rejected", "Messages refused: bad topic, not allowed.", self._node.rejected_messages
        )
        refused = CounterMetricFamily(
            "hub_refused_for_limits", "Refused, as their handler has too many.", labels=("what",)
        )
        for what, total in self._node.core.refused_for_limits().items():
            refused.add_metric((what,), total)
        yield refused
        yield from self._routes(statistics)
        yield from _memory(self._node.memory.statistics())
        yield from _requests(self._node.core.requests.statistics(), self._node.settings.requests.pending_total)
        yield from _names(self._node.core.names.statistics())
        yield from _shared(self._node)
        yield from _far_journals(self._node.far_journals.statistics())
        yield from far_consumer_metrics(self._node.far_consumers.statistics())
        yield from _far_confirmations(self._node.far_confirmations.statistics())
        yield from _marks(self._node.marks.statistics())
        yield from store_metrics(self._node.stores)
        journal = self._node.journal.statistics()
        if journal is not None:
            yield from _journal(journal)

    def _connections(self) -> Iterator[Metric]:
        node = self._node
        info = GaugeMetricFamily("hub_info", "Which hub this is.", labels=("name", "id", "version"))
        info.add_metric((node.name, node.id.hex(), __version__), 1)
        yield info
        yield _gauge("hub_ready", "1 while the hub takes clients.", not node.unready)
        yield _gauge("hub_draining", "1 while the hub stops.", node.draining)
        yield _counter("hub_drained_clients", "Clients that were moved off.", node.drained_clients)
        yield _gauge("hub_connections", "Open connections of all kinds.", len(node.connections))
        places = node.admission
        yield _gauge("hub_connections_limit", "How many connections there may be.", places.limit)
        yield _counter("hub_connections_accepted", "Connections accepted.", places.accepted)
        yield _counter("hub_connections_refused", "Connections over a limit.", places.refused)
        yield _gauge("hub_connections_newcomers", "Connections that have not said who they are.", places.newcomers)
        yield _gauge("hub_connections_newcomers_limit", "How many of them there may be.", places.newcomers_limit)
        yield _counter("hub_connections_evicted", "Newcomers that had to give way.", places.evicted)
        yield _counter("hub_connections_shed", "Connections closed for lack of descriptors.", places.shed)
        yield _counter("hub_connections_failed", "Connections ended by a bug of the hub.", node.failed_connections)
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
        yield _gauge("hub_connections_watched", "Connections with a deadline.", len(node.keepalive))
        yield _gauge("hub_links", "Peer hubs that are linked.", len(node.links))
        yield from _lost_with_links(node.accounts)
        yield from _links(node.traffic.statistics(node.loop.time()))
        yield from _mesh(node.core.mesh.statistics(), node.settings.mesh)
        yield from _leaves(node.core.leaves)
        yield from _probes(node.probes)
        yield from _spares(node.spares.statistics())
        role = node.access.anonymous
        strangers = GaugeMetricFamily("hub_strangers", "Whether whoever shows nothing is let in.", labels=("role",))
        strangers.add_metric((role,), bool(role))
        yield strangers
        shaking = node.handshakes
        yield _gauge("hub_tls_handshakes", "TLS handshakes that go on.", len(shaking))
        yield _gauge("hub_tls_handshakes_limit", "How many of them there may be.", shaking.limit)
        yield _counter("hub_tls_handshakes_evicted", "TLS handshakes that had to give way to others.", shaking.evicted)
        yield _counter("hub_tls_failures", "TLS handshakes of clients and peer hubs that failed.", node.tls_failures)
        yield _counter("hub_zeek_tls_failures", "TLS handshakes of Zeeks that failed.", node.zeek_tls_failures)
        refused = node.zeek_refused_subscriptions
        yield _counter("hub_zeek_subscriptions_refused", "Subscriptions of Zeek nodes not taken.", refused)
        yield from _zeek_stores(node.zeek_stores)
        yield from _zeek_masters(node)

    def _handlers(self, statistics: CoreStatistics) -> Iterator[Metric]:
        handlers = GaugeMetricFamily("hub_handlers", "Data sinks of the core.", labels=("role",))
        counts = {"client": statistics.clients, "link": statistics.links, "leaf": statistics.leaves}
        counts["local"] = len(self._node.core.handlers) - sum(counts.values())
        for role, count in counts.items():
            handlers.add_metric((role,), count)
        yield handlers
        yield _gauge("hub_handlers_paused", "Handlers whose transport takes no bytes now.", statistics.paused_handlers)
        yield _gauge("hub_queued_messages", "Messages that wait for slow handlers.", statistics.queued_messages)
        yield _gauge("hub_queued_bytes", "Memory that waits for slow handlers.", statistics.queued_bytes)

    def _routes(self, statistics: CoreStatistics) -> Iterator[Metric]:
        routing = statistics.routing
        yield _gauge("hub_subscriptions", "Pairs of prefix and handler.", routing.subscriptions)
        yield _gauge("hub_filter_prefixes", "Prefixes that peers are told.", routing.filter_prefixes)
        yield _gauge("hub_rules", "Pairs of rule and handler.", routing.rules)
        yield _gauge("hub_routes", "Routing keys remembered.", routing.routes)
        yield _gauge("hub_routes_tagged", "Routing keys remembered that have labels or names.", routing.tagged)
        yield _gauge("hub_routes_bytes", "Memory that routing keys take.", routing.size_bytes)
        yield _gauge("hub_routes_bytes_limit", "Memory that they may take.", self._node.core.routes.limit_bytes)
        yield _gauge("hub_routes_limit", "How many routing keys may be remembered.", self._node.core.routes.limit)
        yield _counter("hub_route_misses", "Lookups that had to search.", routing.misses_total)
        yield _counter("hub_route_clears", "Times that the route cache was emptied.", routing.clears_total)


def _users(node: Node) -> Iterator[Metric]:
    access = node.access
    yield _gauge("hub_users_open", "1 where nobody is asked who he is, and all may do everything.", access.is_open)
    recognised = CounterMetricFamily("hub_users_recognised", "Recognised, by what was shown.", labels=("how",))
    for how in get_args(How):
        recognised.add_metric((how,), access.recognised[how])
    yield recognised
    refused = CounterMetricFamily("hub_users_refused", "Not recognised, by what was wrong.", labels=("reason",))
    for reason in Reason:
        refused.add_metric((reason.value,), access.refused[reason])
    yield refused
    yield _counter("hub_users_denied", "Messages and requests that their user may not send.", node.audit.refused_total)
    forgotten = node.core.authority.forgotten_total
    yield _counter("hub_users_forgotten", "Times that what was decided for a user was too much.", forgotten)
    yield _gauge("hub_users_slowed", "Addresses that failed lately.", access.failures.addresses)


def _shares(quotas: Quotas) -> Iterator[Metric]:
    yield _gauge("hub_quota_users", "Users who have a connection, or something else that is charged.", len(quotas))
    wholes = quotas.statistics()
    total = GaugeMetricFamily("hub_quota_limit", "How much there is for all users together.", labels=("resource",))
    held = GaugeMetricFamily("hub_quota_held", "What users hold of it.", labels=("resource",))
    refused = CounterMetricFamily("hub_quota_refused", "Times that somebody was refused more.", labels=("resource",))
    for resource, whole in wholes.items():
        total.add_metric((resource,), whole.total)
        held.add_metric((resource,), whole.held)
        refused.add_metric((resource,), whole.refused_total)
    yield from (total, held, refused)
    held_back_s, held_back_total = quotas.held_back()
    yield _counter("hub_quota_held_back", "Times that one was not read on for the rate of its user.", held_back_total)
    yield _counter("hub_quota_held_back_seconds", "For how long, added up over connections.", held_back_s)
    of_user = GaugeMetricFamily("hub_quota_user_held", "The same, by user.", labels=("user", "resource"))
    for share in quotas.largest(USERS_SHOWN):
        for resource, amount in share.held.items():
            of_user.add_metric((share.user, resource), amount)
    yield of_user


def _memory(statistics: MemoryStatistics) -> Iterator[Metric]:
    yield _gauge("hub_memory_limit_bytes", "The budget of memory.", statistics.limit_bytes)
    yield _gauge("hub_memory_resident_bytes", "What is taken, at the last look.", statistics.resident_bytes)
    charged = GaugeMetricFamily("hub_memory_charged_bytes", "What the hub holds, about.", labels=("account",))
    for name, size_bytes in statistics.charged_bytes.items():
        charged.add_metric((name,), size_bytes)
    yield charged
    yield _gauge("hub_memory_over", "1 while there is too little: what is new is refused.", statistics.is_over)
    yield _counter("hub_memory_reliefs", "Times that something was dropped for it.", statistics.reliefs_total)
    yield _counter("hub_memory_relieved_bytes", "What was dropped for it.", statistics.relieved_bytes_total)
    yield _counter("hub_memory_refused", "What was refused for it.", statistics.refused_total)


def _lost_with_links(accounts: Accounts) -> Iterator[Metric]:
    lost = CounterMetricFamily("hub_links_lost_messages", "Messages lost with a link to a peer hub.", labels=("known",))
    lost.add_metric(("exactly",), accounts.lost_messages)
    lost.add_metric(("at_most",), accounts.possibly_lost_messages)
    yield lost
    yield _gauge("hub_links_doubtful_messages", "Sent over links that have ended.", accounts.messages_in_doubt)
    yield _counter("hub_links_missed_messages", "Messages of peers that did not arrive.", accounts.missed_messages)
    yield _counter("hub_links_refused", "Times that a peer had no room for what this hub told it.", accounts.refused)


def _links(links: list[LinkTraffic]) -> Iterator[Metric]:
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


def _leaves(leaves: Leaves) -> Iterator[Metric]:
    yield _gauge("hub_mesh_zeeks_left", "Zeeks that are left to other hubs.", leaves.left)
    yield _counter("hub_mesh_zeeks_left_messages", "Of Zeeks that were left, not taken.", leaves.skipped_messages)


def _zeek_stores(forwarder: Forwarder) -> Iterator[Metric]:
    yield _gauge("hub_zeek_stores", "Data stores whose master is at a Zeek.", forwarder.stores)
    yield _gauge("hub_zeek_store_entities", "Masters, clones and others at Zeeks.", forwarder.entities)
    counts = asdict(forwarder.counters)
    yield _counter("hub_zeek_store_commands_forwarded", "Commands for data stores.", counts.pop("forwarded"))
    dropped = CounterMetricFamily("hub_zeek_store_commands_dropped", "Of these, dropped.", labels=("reason",))
    for reason, count in counts.items():
        dropped.add_metric((reason,), count)
    yield dropped


def _zeek_masters(node: Node) -> Iterator[Metric]:
    clones = GaugeMetricFamily("hub_zeek_store_clones", "Zeeks' clones of stores of this hub.", labels=("store",))
    waiting = GaugeMetricFamily("hub_zeek_store_waiting_bytes", "Not acknowledged by clones.", labels=("store",))
    left_out = CounterMetricFamily("hub_zeek_store_left_out", "Entries without a Broker form.", labels=("store",))
    refused = CounterMetricFamily("hub_zeek_store_refused", "Wishes that were not granted.", labels=("store",))
    for name, (master, store) in node.zeek_masters.items():
        clones.add_metric((name,), master.clones)
        waiting.add_metric((name,), master.buffered_bytes)
        left_out.add_metric((name,), store.unwritable)
        refused.add_metric((name,), store.refused)
    following = GaugeMetricFamily("hub_zeek_store_following", "Whether a copy has a master.", labels=("store",))
    for name, (clone, followed) in node.zeek_copies.items():
        following.add_metric((name,), clone.is_attached)
        refused.add_metric((name,), followed.refused)
    yield from (clones, waiting, left_out, following, refused)
    events = CounterMetricFamily("hub_zeek_store_events", "Between stores and Zeeks' clones.", labels=("event",))
    counts = asdict(node.zeek_master_counters)
    for event, count in (counts.pop("channel") | counts).items():
        events.add_metric((event,), count)
    yield events


def _mesh(statistics: MeshStatistics, limits: MeshSettings) -> Iterator[Metric]:
    yield _gauge("hub_mesh_hubs", "Hubs of the mesh that are known.", statistics.hubs)
    yield _gauge("hub_mesh_hubs_limit", "How many there may be.", limits.hubs)
    yield _gauge("hub_mesh_links", "Links of this hub that are part of the mesh.", statistics.links)
    yield _gauge("hub_mesh_prefixes", "Prefixes of other hubs that are kept.", statistics.prefixes)
    yield _gauge("hub_mesh_prefixes_limit", "How many there may be.", limits.prefixes)
    yield _counter("hub_mesh_prefixes_left_out", "Prefixes of other hubs, not kept.", statistics.left_out_total)
    yield _gauge("hub_mesh_epoch", "Of what enters the mesh here.", statistics.epoch)
    announcements = CounterMetricFamily("hub_mesh_announcements", "Of other hubs, by outcome.", labels=("outcome",))
    announcements.add_metric(("taken",), statistics.announcements_total)
    announcements.add_metric(("refused",), statistics.refused_total)
    yield announcements
    yield _counter(
        "hub_mesh_overtaken_messages", "Lost: a newer epoch came before.", statistics.overtaken_messages_total
    )
    yield _counter(
        "hub_mesh_repeated_messages", "Came by another way than the rest.", statistics.repeated_messages_total
    )
    yield _counter(
        "hub_mesh_stranded_messages", "For hubs that nothing leads to any more.", statistics.stranded_messages_total
    )
    yield _counter(
        "hub_mesh_unreached_messages", "Entered here for hubs out of reach.", statistics.unreached_messages_total
    )
    yield _counter("hub_mesh_clashes", "Times that somebody else had this hub's id.", statistics.clashes_total)


def _probes(probes: Probes) -> Iterator[Metric]:
    seen = CounterMetricFamily("hub_probes", "Probes, of this hub and of others.", labels=("what",))
    counts = {"asked": probes.asked_total, "passed": probes.passed_total, "refused": probes.refused_total}
    for what, total in counts.items():
        seen.add_metric((what,), total)
    yield seen
    reports = CounterMetricFamily("hub_probe_reports", "What hubs have told of probes.", labels=("outcome",))
    reports.add_metric(("taken",), probes.reports_total)
    reports.add_metric(("dropped",), probes.dropped_reports_total)
    yield reports


def _spares(statistics: SparesStatistics) -> Iterator[Metric]:
    yield _gauge("hub_mesh_spare_links", "Dialled so that the mesh does not fall apart.", statistics.links)
    yield _counter("hub_mesh_spare_attempts", "Attempts at such links.", statistics.attempts_total)
    yield _counter("hub_mesh_spare_failures", "Of these, those without a link.", statistics.failed_total)
    yield _counter("hub_mesh_spare_let_go", "Such links that were let go.", statistics.let_go_total)


def _messages(statistics: CoreStatistics) -> Iterator[Metric]:
    dropped = statistics.dropped_messages_total
    yield _counter("hub_messages_published", "Messages taken.", statistics.published_messages_total)
    yield _counter(
        "hub_messages_delivered",
        "Messages written, once for each handler.",
        statistics.delivered_messages_total,
    )
    lost = CounterMetricFamily("hub_messages_dropped", "Messages lost, by overflow policy.", labels=("overflow",))
    for policy in Overflow:
        lost.add_metric((policy.value,), dropped.get(policy.value, 0))
    yield lost
    yield _counter(
        "hub_messages_unreadable", "Of the lost, those without a form.", statistics.unreadable_messages_total
    )
    yield _counter("hub_delivered_bytes", "Bytes handed to transports.", statistics.delivered_bytes_total)


def _requests(statistics: RequestStatistics, limit: int) -> Iterator[Metric]:
    yield _gauge("hub_services", "Prefixes that are served, here or at peer hubs.", statistics.services)
    yield _gauge("hub_requests_pending", "Requests without an answer yet.", statistics.pending)
    yield _gauge("hub_requests_limit", "How many requests may be pending.", limit)
    yield _counter("hub_requests", "Requests taken.", statistics.asked_total)
    answered = CounterMetricFamily("hub_requests_answered", "Answers, by status.", labels=("status",))
    for status, total in statistics.answered_total.items():
        answered.add_metric((status,), total)
    yield answered
    yield _counter("hub_requests_abandoned", "Requests whose requester left.", statistics.abandoned_total)
    yield _counter("hub_requests_refused", "Requests and replies that nobody may send.", statistics.refused_total)
    yield _counter("hub_requests_duplicate", "Requests whose id was pending.", statistics.duplicate_total)
    yield _counter("hub_replies_late", "Replies that came too late.", statistics.late_total)
    yield _counter("hub_replies_unasked", "Replies that nobody asked for.", statistics.unasked_total)


def _names(statistics: NamesStatistics) -> Iterator[Metric]:
    yield _gauge("hub_names", "Service names, those of peer hubs among them.", statistics.names)
    yield _gauge("hub_names_announced", "Names that peer hubs announce.", statistics.far)
    yield _gauge("hub_names_waiting", "Claims that wait for a name.", statistics.waiting)
    yield _counter("hub_names_appeared", "Times that a name got an owner, or other labels.", statistics.appeared_total)
    yield _counter("hub_name_claims_refused", "Claims refused: owned, too many, no name.", statistics.refused_total)
    yield _counter("hub_names_lost", "Owners here that a peer's claim came before.", statistics.lost_total)
    yield _counter("hub_names_unheard", "Announced names not taken: bad, or too many.", statistics.unheard_total)


def _shared(node: Node) -> Iterator[Metric]:
    shared = node.shared
    yield _counter("hub_shared_messages", "What came in shared memory.", shared.messages_total)
    yield _counter("hub_shared_copied", "Of it, copied for want of descriptors.", shared.copied_total)
    yield _counter("hub_shared_refused", "Handles and segments refused.", shared.refused_total)
    yield _gauge("hub_shared_descriptors", "Descriptors of shared memory.", shared.descriptors.open)
    yield _gauge("hub_shared_descriptors_limit", "How many there may be.", shared.descriptors.limit)
    yield _gauge("hub_shared_segments", "Segments of publishers.", shared.segments)


def _far_confirmations(statistics: FarConfirmationsStatistics) -> Iterator[Metric]:
    yield _gauge("hub_far_confirmations_pending", "Confirmations of other hubs.", statistics.pending)
    yield _gauge("hub_far_confirmations_limit", "From so many on nobody is read who asks for more.", WAITING_LIMIT)
    yield _counter("hub_far_confirmations_asked", "Confirmations that were asked for.", statistics.asked_total)
    yield _counter("hub_far_confirmations_refused", "Of these, those that are errors.", statistics.refused_total)
    yield _counter("hub_far_confirmations_pauses", "Times that a publisher was not read on.", statistics.pauses_total)


def _marks(statistics: MarksStatistics) -> Iterator[Metric]:
    yield _gauge("hub_marks_expected", "Confirmations that other hubs wait for.", statistics.expected)
    yield _gauge("hub_marks_expected_limit", "How many there may be.", EXPECTED_LIMIT)
    yield _counter("hub_marks_confirmed", "Batches confirmed to other hubs.", statistics.confirmed_total)
    yield _counter("hub_marks_refused", "Batches not confirmed to other hubs.", statistics.refused_total)


def _far_journals(statistics: FarJournalStatistics) -> Iterator[Metric]:
    yield _gauge("hub_far_journals_pending", "Pieces of journals of other hubs.", statistics.pending)
    yield _counter("hub_far_journals_asked", "Pieces that were asked for.", statistics.asked_total)
    yield _gauge("hub_far_journals_answering", "Pieces that other hubs wait for.", statistics.answering)
    yield _gauge("hub_far_journals_answering_limit", "How many there may be.", ANSWERING_LIMIT)
    yield _counter("hub_far_journals_answered", "Questions of other hubs.", statistics.answered_total)
    yield _counter("hub_far_journals_refused", "Questions that were refused.", statistics.refused_total)


def _journal(statistics: JournalStatistics) -> Iterator[Metric]:
    recorder, staging = statistics.recorder, statistics.staging
    yield _gauge("hub_journal_ready", "1 while the journal is written.", not recorder.error)
    yield _gauge("hub_journal_first_offset", "The oldest record.", recorder.first)
    yield _gauge("hub_journal_committed_offset", "The offset behind the newest record.", recorder.committed)
    yield _gauge("hub_journal_bytes", "Of all blocks on the disk.", recorder.size_bytes)
    yield _counter("hub_journal_recorded", "Messages committed.", recorder.recorded_messages_total)
    yield _counter("hub_journal_lost", "Messages not recorded for want of a disk.", recorder.lost_messages_total)
    yield _gauge("hub_journal_waiting_bytes", "On their way to the disk.", recorder.waiting_bytes)
    yield _counter("hub_journal_pauses", "Times that a publisher was not read on.", recorder.pauses_total)
    yield _gauge("hub_journal_readers", "Reader processes.", statistics.readers)
    yield _gauge("hub_journal_fetches", "FETCHes that wait for an answer.", statistics.fetches)
    yield _gauge("hub_journal_staged_transactions", "Transactions that wait for COMMIT.", staging.transactions)
    yield _gauge("hub_journal_staged_bytes", "What waits for COMMIT.", staging.bytes)
    batches = CounterMetricFamily("hub_journal_batches", "Batches of writers, by outcome.", labels=("outcome",))
    batches.add_metric(("committed",), staging.committed_total)
    batches.add_metric(("repeated",), staging.repeated_total)
    batches.add_metric(("dropped",), staging.dropped_total)
    yield batches
    yield from consumer_metrics(statistics.consumers)
    if statistics.regroup is not None:
        yield from regroup_metrics(statistics.regroup)
    if statistics.tier is not None:
        yield from tier_metrics(statistics.tier, statistics.crashes_total)


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(name, text, value=value)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


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
