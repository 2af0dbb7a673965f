"""Diallers of Zeeks, and TLS towards Zeeks in the two modes that Broker has.

| | no certificate is set | a certificate is set |
|---|---|---|
| authentication | none: anonymous ECDH, encryption only | mutual: an authority vouches for both certificates |
| version | 1.2 (1.3 has no anonymous ciphers) | 1.2 or newer |
| host names | not checked | not checked, as Broker does it: all certificates of the authority are trusted |

Both sides must use the same mode. Broker without TLS (`disable-ssl`) is reached by `zeek+tcp://`.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Any

from hub.limits import QueueLimits
from hub.settings.settings import ZeekSettings
from hub.topics import check_prefix
from peers.connections.bridge import BridgeConversation
from peers.connections.broker import broker_connection
from peers.connections.broker_peerings import Peerings
from peers.connections.connection import Connection
from peers.connections.dialler import Dialler
from peers.connections.zeek_cluster.cluster import Cluster, Member, RemoteCluster
from peers.connections.zeek_cluster.remote_end import NO_CURVE
from peers.connections.zeek_cluster.sockets import publisher_connection, subscriber_connection
from peers.server.server import Server
from peers.transport.endpoints import Endpoint, Scheme
from peers.transport.timing import Backoff
from peers.transport.tls import TlsError, bound, load_authorities, load_certificate
from peers.zeek.broker.messages import BrokerCode
from peers.zeek.zmtp.session import Mechanism

_REDUNDANT = f"(Broker code {int(BrokerCode.REDUNDANT_CONNECTION)},"


class BrokerDialler(Dialler):
    """Keeps a peering with a Broker endpoint; announces failed attempts as `$hub/peers/unavailable`."""

    def __init__(
        self, peerings: Peerings, endpoint: Endpoint, queue: QueueLimits, backoff: Backoff | None = None
    ) -> None:
        super().__init__(peerings.server, endpoint, backoff)
        self._peerings = peerings
        self._queue = queue

    def make(self) -> Connection:
        return broker_connection(self._peerings, self._queue, dialled=True, address=self._endpoint.location)

    def tls(self) -> ssl.SSLContext | None:
        return tls_client_context(self._server.settings.zeek) if self._endpoint.scheme is Scheme.ZEEK else None

    def far_id(self, conversation: Any) -> bytes:
        peer_id: bytes = conversation.session.peer_id
        return peer_id

    def is_held(self, reason: str) -> bool:
        """There is a connection to that endpoint already, which may have dialled this hub: no failure."""
        return _REDUNDANT in reason

    def is_linked(self, far_id: bytes) -> bool:
        return far_id in self._peerings.registry

    def failed(self, reason: str) -> None:
        if not self.is_held(reason):
            self._peerings.unavailable(bytes(16), self._endpoint.location, reason)


class BridgeDialler(Dialler):
    """Keeps a connection to a Zeek's WebSocket server, which gets messages under `endpoint.publish`.

    Raises:
        InvalidTopicError: One of those is no prefix.
    """

    def __init__(self, server: Server, endpoint: Endpoint, queue: QueueLimits, backoff: Backoff | None = None) -> None:
        super().__init__(server, endpoint, backoff)
        self._queue = queue
        self._publish = tuple(check_prefix(prefix) for prefix in endpoint.publish)

    def make(self) -> Connection:
        def conversation(connection: Connection) -> BridgeConversation:
            return BridgeConversation(connection, self._queue, self._endpoint, self._publish)

        return Connection(self._server, conversation, address=self._endpoint.location)

    def was_linked(self, connection: Connection, conversation: Any) -> bool:  # noqa: ARG002 -- see `Dialler`
        return bool(conversation.is_acknowledged)

    def is_replaced(self, conversation: Any) -> bool:
        return bool(conversation.is_renewed)


class _ClusterDialler(Dialler):
    def __init__(self, server: Server, endpoint: Endpoint, make: Callable[[str], Connection], backoff: Backoff) -> None:
        super().__init__(server, endpoint, backoff)
        self._make = make

    def make(self) -> Connection:
        return self._make(self._endpoint.location)


def cluster_diallers(
    server: Server,
    endpoint: Endpoint,
    queue: QueueLimits,
    backoff: Callable[[], Backoff] = Backoff.for_link,
    mechanism: Callable[[], Mechanism] = NO_CURVE.dialled,
) -> tuple[Dialler, Dialler]:
    """Keep both connections to the central broker of a Zeek cluster, to its XPUB and, at the port `xsub`, its XSUB."""
    kind = Member if endpoint.name else RemoteCluster
    cluster: Cluster = kind(
        server, endpoint.location, name=endpoint.name, serializer=endpoint.serializer, mechanism=mechanism
    )
    second = endpoint.with_port(endpoint.xsub)
    return (
        _ClusterDialler(server, endpoint, lambda location: publisher_connection(cluster, queue, location), backoff()),
        _ClusterDialler(server, second, lambda location: subscriber_connection(cluster, queue, location), backoff()),
    )


_ANONYMOUS = "AECDH-AES256-SHA@SECLEVEL=0"  # Broker's only cipher without certificates; insecure for OpenSSL

_AUTHENTICATED = "HIGH:!aNULL:!MD5"
_CURVE = "secp384r1"


def tls_server_context(settings: ZeekSettings) -> ssl.SSLContext:
    """Return the context for a listener.

    Raises:
        TlsError: A file cannot be used, one of the three is missing, or this OpenSSL has no anonymous ciphers.
    """
    context = _context(ssl.PROTOCOL_TLS_SERVER, settings)
    bound(context)
    if not _has_certificate(settings):
        context.set_ecdh_curve(_CURVE)
    return context


def tls_client_context(settings: ZeekSettings) -> ssl.SSLContext:
    """Return the context for a dialler.

    Raises:
        TlsError: As for `tls_server_context`.
    """
    context = _context(ssl.PROTOCOL_TLS_CLIENT, settings)
    context.options |= ssl.OP_NO_RENEGOTIATION  # it lets a far side order handshakes without end
    return context


def _has_certificate(settings: ZeekSettings) -> bool:
    return bool(settings.certificate or settings.key or settings.ca)


def _context(side: int, settings: ZeekSettings) -> ssl.SSLContext:
    context = ssl.SSLContext(side)
    context.check_hostname = False
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if _has_certificate(settings):
        _load(context, settings)
        return context
    context.verify_mode = ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.set_ciphers(_ANONYMOUS)
    except ssl.SSLError as error:
        raise TlsError(
            "zeek: this OpenSSL has no anonymous ciphers, which Broker uses without certificates; "
            "use zeek+tcp:// (Broker's disable-ssl) or set zeek.certificate, zeek.key and zeek.ca"
        ) from error
    return context


def _load(context: ssl.SSLContext, settings: ZeekSettings) -> None:
    for name in ("certificate", "key", "ca"):
        if not getattr(settings, name):
            raise TlsError(
                f"zeek.{name} is missing: TLS with certificates needs zeek.certificate, zeek.key and zeek.ca"
            )
    context.verify_mode = ssl.CERT_REQUIRED
    context.set_ciphers(_AUTHENTICATED)
    load_certificate(context, settings.certificate, settings.key, "zeek.certificate", "zeek.key")
    load_authorities(context, settings.ca, "zeek.ca")
