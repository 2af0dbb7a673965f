"""The flags of a hub's settings, for `hub run` and `hub check-config`: one for each key of `hub.keys`.

A text is passed on as it was given: what it means, and whether it is in range, is judged in one place for files, the
environment and flags (`peers.daemon.sources`). Help shows the flags of the first day, `hub check-config --explain` all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Group, Parameter

from hub.keys import KEYS, Kind
from peers.daemon.sources import flag

if TYPE_CHECKING:
    from cyclopts.help import HelpPanel
    from rich.console import Console, ConsoleOptions

__all__ = ["ConfigFile", "Flags"]

_FIRST_DAY = frozenset(
    {
        "listen",
        "peers",
        "name",
        "queue.overflow",
        "journal.path",
        "journal.topics",
        "stores.open",
        "access.policy",
        "tls.certificate",
    }
)
"""What a hub is started with before anybody reads a manual; with `--config` these are ten."""

_FIRST = Group("Flags of the first day", sort_key=1)


def _brief(console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:  # noqa: ARG001 -- named by cyclopts
    """Say where the flags of a panel are described, in place of the panel."""
    console.print(
        f"{len(panel.entries)} more flags, one for each setting, such as --limits-memory-bytes 256MiB:\n"
        "hub check-config --explain lists them.",
        highlight=False,
    )


_REST = Group("All other settings", sort_key=2, help_formatter=_brief)

ConfigFile = Annotated[
    str | None, Parameter(group=_FIRST, help="TOML file with settings; HUB_CONFIG or ./hub.toml without it.")
]
"""The flag `--config`."""


def _help(path: str) -> Parameter:
    key = KEYS[path]
    group = _FIRST if path in _FIRST_DAY else _REST
    taken = "" if key.kind is Kind.TEXT else f" Takes {key.expected}."
    return Parameter(name=flag(path), help=key.description + taken, negative=(), group=group, show_default=False)


@Parameter(name="*")
@dataclass(kw_only=True)
class Flags:
    """What was given on the command line; None for each flag that was not."""

    listen: Annotated[list[str] | None, _help("listen")] = None
    peers: Annotated[list[str] | None, _help("peers")] = None
    name: Annotated[str | None, _help("name")] = None
    workers: Annotated[str | None, _help("workers")] = None
    queue_messages: Annotated[str | None, _help("queue.messages")] = None
    queue_bytes: Annotated[str | None, _help("queue.bytes")] = None
    queue_overflow: Annotated[str | None, _help("queue.overflow")] = None
    queue_max_messages: Annotated[str | None, _help("queue_max.messages")] = None
    queue_max_bytes: Annotated[str | None, _help("queue_max.bytes")] = None
    limits_connections: Annotated[str | None, _help("limits.connections")] = None
    limits_connections_per_address: Annotated[str | None, _help("limits.connections_per_address")] = None
    limits_newcomers: Annotated[str | None, _help("limits.newcomers")] = None
    limits_prefixes_per_client: Annotated[str | None, _help("limits.prefixes_per_client")] = None
    limits_rules_per_client: Annotated[str | None, _help("limits.rules_per_client")] = None
    limits_services_per_client: Annotated[str | None, _help("limits.services_per_client")] = None
    limits_prefixes_per_peer: Annotated[str | None, _help("limits.prefixes_per_peer")] = None
    limits_rules_per_peer: Annotated[str | None, _help("limits.rules_per_peer")] = None
    limits_services_per_peer: Annotated[str | None, _help("limits.services_per_peer")] = None
    limits_frame_bytes: Annotated[str | None, _help("limits.frame_bytes")] = None
    limits_handshake_bytes: Annotated[str | None, _help("limits.handshake_bytes")] = None
    limits_handshake_s: Annotated[str | None, _help("limits.handshake_s")] = None
    limits_tls_handshakes: Annotated[str | None, _help("limits.tls_handshakes")] = None
    limits_tls_handshake_s: Annotated[str | None, _help("limits.tls_handshake_s")] = None
    limits_ping_after_s: Annotated[str | None, _help("limits.ping_after_s")] = None
    limits_ping_timeout_s: Annotated[str | None, _help("limits.ping_timeout_s")] = None
    limits_frame_s: Annotated[str | None, _help("limits.frame_s")] = None
    limits_frame_bytes_per_s: Annotated[str | None, _help("limits.frame_bytes_per_s")] = None
    limits_linger_unread_s: Annotated[str | None, _help("limits.linger_unread_s")] = None
    limits_linger_s: Annotated[str | None, _help("limits.linger_s")] = None
    limits_routes: Annotated[str | None, _help("limits.routes")] = None
    limits_routes_bytes: Annotated[str | None, _help("limits.routes_bytes")] = None
    limits_counted_topics: Annotated[str | None, _help("limits.counted_topics")] = None
    limits_memory_bytes: Annotated[str | None, _help("limits.memory_bytes")] = None
    limits_drain_s: Annotated[str | None, _help("limits.drain_s")] = None
    drain_clients_per_s: Annotated[str | None, _help("drain.clients_per_s")] = None
    drain_retry_after_s: Annotated[str | None, _help("drain.retry_after_s")] = None
    drain_time_s: Annotated[str | None, _help("drain.time_s")] = None
    requests_pending: Annotated[str | None, _help("requests.pending")] = None
    requests_pending_total: Annotated[str | None, _help("requests.pending_total")] = None
    requests_timeout_s: Annotated[str | None, _help("requests.timeout_s")] = None
    requests_timeout_max_s: Annotated[str | None, _help("requests.timeout_max_s")] = None
    websocket_origins: Annotated[list[str] | None, _help("websocket.origins")] = None
    websocket_hosts: Annotated[list[str] | None, _help("websocket.hosts")] = None
    http_body_bytes: Annotated[str | None, _help("http.body_bytes")] = None
    tls_certificate: Annotated[str | None, _help("tls.certificate")] = None
    tls_key: Annotated[str | None, _help("tls.key")] = None
    tls_ca: Annotated[str | None, _help("tls.ca")] = None
    tls_crl: Annotated[str | None, _help("tls.crl")] = None
    tls_clients: Annotated[str | None, _help("tls.clients")] = None
    tls_minimum: Annotated[str | None, _help("tls.minimum")] = None
    access_policy: Annotated[str | None, _help("access.policy")] = None
    access_tokens: Annotated[str | None, _help("access.tokens")] = None
    access_admin_token: Annotated[str | None, _help("access.admin_token")] = None
    access_anonymous: Annotated[str | None, _help("access.anonymous")] = None
    access_peer_token: Annotated[str | None, _help("access.peer_token")] = None
    access_jwt_keys: Annotated[str | None, _help("access.jwt_keys")] = None
    access_jwt_issuer: Annotated[str | None, _help("access.jwt_issuer")] = None
    access_jwt_audience: Annotated[str | None, _help("access.jwt_audience")] = None
    access_jwt_user: Annotated[str | None, _help("access.jwt_user")] = None
    access_jwt_roles: Annotated[str | None, _help("access.jwt_roles")] = None
    access_reload_closes: Annotated[str | None, _help("access.reload_closes")] = None
    zeek_certificate: Annotated[str | None, _help("zeek.certificate")] = None
    zeek_key: Annotated[str | None, _help("zeek.key")] = None
    zeek_ca: Annotated[str | None, _help("zeek.ca")] = None
    zeek_curve_key: Annotated[str | None, _help("zeek.curve_key")] = None
    zeek_curve_clients: Annotated[str | None, _help("zeek.curve_clients")] = None
    zeek_curve_broker: Annotated[str | None, _help("zeek.curve_broker")] = None
    zeek_curve_node_key: Annotated[str | None, _help("zeek.curve_node_key")] = None
    zeek_topics: Annotated[list[str] | None, _help("zeek.topics")] = None
    zeek_role: Annotated[str | None, _help("zeek.role")] = None
    zeek_stores: Annotated[list[str] | None, _help("zeek.stores")] = None
    zeek_masters: Annotated[list[str] | None, _help("zeek.masters")] = None
    zeek_clones: Annotated[list[str] | None, _help("zeek.clones")] = None
    zeek_forwarding: Annotated[str | None, _help("zeek.forwarding")] = None
    names_per_client: Annotated[str | None, _help("names.per_client")] = None
    names_queue: Annotated[str | None, _help("names.queue")] = None
    names_total: Annotated[str | None, _help("names.total")] = None
    names_per_peer: Annotated[str | None, _help("names.per_peer")] = None
    mesh_advertise: Annotated[list[str] | None, _help("mesh.advertise")] = None
    mesh_degree: Annotated[str | None, _help("mesh.degree")] = None
    mesh_hubs: Annotated[str | None, _help("mesh.hubs")] = None
    mesh_links: Annotated[str | None, _help("mesh.links")] = None
    mesh_prefixes: Annotated[str | None, _help("mesh.prefixes")] = None
    quotas_queued_bytes: Annotated[str | None, _help("quotas.queued_bytes")] = None
    quotas_in_transit_bytes: Annotated[str | None, _help("quotas.in_transit_bytes")] = None
    quotas_prefixes: Annotated[str | None, _help("quotas.prefixes")] = None
    quotas_rules: Annotated[str | None, _help("quotas.rules")] = None
    quotas_services: Annotated[str | None, _help("quotas.services")] = None
    shm_over_bytes: Annotated[str | None, _help("shm.over_bytes")] = None
    shm_descriptors: Annotated[str | None, _help("shm.descriptors")] = None
    shm_client_descriptors: Annotated[str | None, _help("shm.client_descriptors")] = None
    shm_client_bytes: Annotated[str | None, _help("shm.client_bytes")] = None
    shm_segments: Annotated[str | None, _help("shm.segments")] = None
    shm_segment_bytes: Annotated[str | None, _help("shm.segment_bytes")] = None
    journal_path: Annotated[str | None, _help("journal.path")] = None
    journal_of: Annotated[str | None, _help("journal.of")] = None
    journal_topics: Annotated[str | None, _help("journal.topics")] = None
    journal_sync: Annotated[str | None, _help("journal.sync")] = None
    journal_compression: Annotated[str | None, _help("journal.compression")] = None
    journal_regroup: Annotated[str | None, _help("journal.regroup")] = None
    journal_commit_s: Annotated[str | None, _help("journal.commit_s")] = None
    journal_buffer_bytes: Annotated[str | None, _help("journal.buffer_bytes")] = None
    journal_keep_bytes: Annotated[str | None, _help("journal.keep_bytes")] = None
    journal_keep_s: Annotated[str | None, _help("journal.keep_s")] = None
    journal_readers: Annotated[str | None, _help("journal.readers")] = None
    journal_fetch_s: Annotated[str | None, _help("journal.fetch_s")] = None
    journal_staged_bytes: Annotated[str | None, _help("journal.staged_bytes")] = None
    journal_staged_s: Annotated[str | None, _help("journal.staged_s")] = None
    journal_consumers: Annotated[str | None, _help("journal.consumers")] = None
    journal_user_consumers: Annotated[str | None, _help("journal.user_consumers")] = None
    journal_consumer_messages: Annotated[str | None, _help("journal.consumer_messages")] = None
    journal_consumer_bytes: Annotated[str | None, _help("journal.consumer_bytes")] = None
    journal_tier: Annotated[str | None, _help("journal.tier")] = None
    journal_tier_keep_bytes: Annotated[str | None, _help("journal.tier_keep_bytes")] = None
    journal_tier_keep_s: Annotated[str | None, _help("journal.tier_keep_s")] = None
    journal_tier_behind_bytes: Annotated[str | None, _help("journal.tier_behind_bytes")] = None
    stores_open: Annotated[list[str] | None, _help("stores.open")] = None
    stores_sync: Annotated[str | None, _help("stores.sync")] = None
    stores_feeds: Annotated[list[str] | None, _help("stores.feeds")] = None
    stores_feed_expires_s: Annotated[str | None, _help("stores.feed_expires_s")] = None
    stores_entries: Annotated[str | None, _help("stores.entries")] = None
    stores_bytes: Annotated[str | None, _help("stores.bytes")] = None
    stores_user_entries: Annotated[str | None, _help("stores.user_entries")] = None
    stores_user_bytes: Annotated[str | None, _help("stores.user_bytes")] = None
    stores_entry_bytes: Annotated[str | None, _help("stores.entry_bytes")] = None
    stores_changes: Annotated[str | None, _help("stores.changes")] = None
    stores_changes_bytes: Annotated[str | None, _help("stores.changes_bytes")] = None
    unix_mode: Annotated[str | None, _help("unix.mode")] = None
    log_level: Annotated[str | None, _help("log.level")] = None
    log_format: Annotated[str | None, _help("log.format")] = None
    telemetry_endpoint: Annotated[str | None, _help("telemetry.endpoint")] = None
    telemetry_every: Annotated[str | None, _help("telemetry.every")] = None
    telemetry_spans_per_s: Annotated[str | None, _help("telemetry.spans_per_s")] = None
    telemetry_queue_spans: Annotated[str | None, _help("telemetry.queue_spans")] = None
    telemetry_timeout_s: Annotated[str | None, _help("telemetry.timeout_s")] = None
    telemetry_headers: Annotated[str | None, _help("telemetry.headers")] = None
    log_queue_bytes: Annotated[str | None, _help("log.queue_bytes")] = None

    def layer(self) -> dict[str, Any]:
        """Return the flags as a tree, as a TOML file with the same keys would give it."""
        tree: dict[str, Any] = {}
        for path in KEYS:
            section, _, name = path.rpartition(".")
            value = getattr(self, path.replace(".", "_"))
            if section:
                tree.setdefault(section, {})[name] = value
            else:
                tree[name] = value
        return tree
