"""Hubs in the test's own loop that listen for Broker endpoints and dial them, beside a port for ordinary clients."""

from __future__ import annotations

import asyncio

from hub.overflow import QueueLimits
from hub.settings.settings import Settings
from peers.connections.broker import broker_connection
from peers.connections.broker_peerings import Peerings
from peers.connections.broker_tls import server_context
from peers.connections.connection import Connection
from peers.connections.dialler import Dialler
from peers.connections.listener import bind
from peers.connections.zeek_diallers import broker_dialler
from peers.transport.backoff import Backoff
from peers.transport.endpoints import Endpoint, Scheme
from peers.transport.tls_transport import TlsTransport
from tests.connections.broker.scripted import LOW, Endpointlike
from tests.hubs.eventually import eventually
from tests.hubs.hub import Hub

__all__ = ["ZeekHub"]


class ZeekHub(Hub):
    """One hub with a listener for clients and one for Zeeks."""

    def __init__(self, settings: Settings, name: str, hub_id: bytes) -> None:
        super().__init__(settings, name, hub_id)
        self.peerings = Peerings(self.node)
        self.peerings.stores.open()
        self.zeeks: list[Connection] = []
        self.zeek_endpoint: Endpoint
        self._far_sides: list[Endpointlike] = []

    async def listen_for_zeeks(self, url: str) -> None:
        endpoint = Endpoint.parse(url)
        tls = server_context(self.node.settings.zeek) if endpoint.scheme is Scheme.ZEEK else None
        queue = endpoint.queue.applied_to(self.node.settings.queue)

        def make() -> asyncio.BaseProtocol:
            return self._make_zeek(queue)

        def make_secured() -> asyncio.BaseProtocol:
            assert tls is not None
            return TlsTransport(tls, make, self.node.handshakes, self.peerings.fail_tls)

        loop = asyncio.get_running_loop()
        listener, self.zeek_endpoint = await bind(endpoint, make if tls is None else make_secured, loop)
        self._listeners.append(listener)

    def _make_zeek(self, queue: QueueLimits) -> Connection:
        connection = broker_connection(self.peerings, queue)
        self.zeeks.append(connection)
        return connection

    def dial_zeek(self, url: str) -> Dialler:
        backoff = Backoff(base_s=0.001, cap_s=0.005)
        return self._dialling(
            broker_dialler(self.peerings, Endpoint.parse_peer(url), self.node.settings.queue, backoff)
        )

    async def zeek(self, *prefixes: str, own_id: bytes = LOW) -> Endpointlike:
        far = await Endpointlike.connect(self.zeek_endpoint, own_id)
        self._far_sides.append(far)
        await far.peer(*prefixes)
        peered = len(self.peerings.registry)
        await eventually(lambda: own_id in self.peerings.registry)
        assert peered <= len(self.peerings.registry)
        return far

    async def stop(self) -> None:
        for far in self._far_sides:
            far.close()
        self.peerings.stores.close()
        await super().stop()
