"""`Zeek`: the state that connections of Zeeks share: forwarded data stores, those of this hub, clusters, counters."""

from __future__ import annotations

from collections import Counter
from typing import Final

import structlog

from hub.settings.settings import Settings
from peers.zeek.broker.stores.clone import Clone
from peers.zeek.broker.stores.command import covers_stores
from peers.zeek.broker.stores.forwarder import Forwarder
from peers.zeek.broker.stores.master import Master, MasterCounters
from peers.zeek.zmtp.discovery import Discovery

_BROKER_URLS: Final = ("zeek://", "zeek+tcp://", "zeek+ws://")


class Zeek:
    """Counters are since the start."""

    def __init__(self, settings: Settings, hub_id: bytes) -> None:
        urls = (*settings.listen, *settings.peers)
        # Zeeks in clusters over ZeroMQ have no data stores.
        self._has_no_broker = any(url.startswith("zeek+zmq://") for url in urls) and not any(
            url.startswith(_BROKER_URLS) for url in urls
        )
        self._stores = settings.zeek.stores
        self._has_warned = False  # Of prefixes that cover data stores
        self.forwarder = Forwarder(hub_id, between_peers=settings.zeek.forwarding == "on")
        self.masters: dict[str, Master] = {}  # Stores of this hub that Zeeks may clone, by their name there
        self.copies: dict[str, Clone] = {}  # Stores of this hub that follow stores of Zeeks, by their name there
        self.master_counters = MasterCounters()
        self.clusters: dict[str, Discovery] = {}  # In which this hub is a named node, by broker
        self.clusters_left = 0  # Joined clusters that this hub leaves to other hubs of the mesh now
        self.tls_failures = 0  # TLS handshakes at `zeek://` listeners that failed
        self.failed_handshakes: Counter[str] = Counter()  # Over ZeroMQ, by reason
        self.broken_connections = 0  # Connections of nodes that were closed since they sent no ZMTP
        self.refused_subscriptions = 0  # Subscriptions of nodes that were rejected

    def may_ask(self, prefix: str) -> bool:
        """Return whether Zeeks are asked for a prefix: not for one that covers their data stores."""
        if self._has_no_broker or not covers_stores(prefix, self._stores):
            return True
        if not self._has_warned:
            self._has_warned = True
            structlog.get_logger("peers").warning(
                "Zeeks are not asked for a prefix that covers their data stores, but for zeek.topics", prefix=prefix
            )
        return False
