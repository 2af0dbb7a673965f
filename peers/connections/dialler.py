"""`Dialler`: keep a connection to one peer, forever, whatever it speaks.

```
connect ─▶ wait until it is lost ─▶ wait for a while, with jitter ─▶ connect ...
```

A restart of either side heals by itself. What goes wrong is logged once per different reason, not once per attempt.
Where the far side refuses because it has a link to this hub already, the next attempt follows when some link of this
hub goes.

Owner of the state: its task, made by the daemon. Not here: how long to wait (`peers.transport.backoff`), what is spoken
(`hub_dialler` here, those of Zeeks in `zeek_diallers`).
"""

from __future__ import annotations

import asyncio
import math
import ssl
from dataclasses import replace
from typing import Protocol

from hub.errors import CloseCode
from hub.overflow import QueueLimits
from peers.connections.connection import Connection
from peers.connections.tcp import TcpConversation
from peers.node.node import Node
from peers.transport.backoff import Backoff
from peers.transport.endpoints import Endpoint, Scheme
from peers.transport.tls import TlsError, client_context, explained

CONNECT_TIMEOUT_S = 5.0

_REFUSALS = (f"({int(CloseCode.THAT_IS_YOURSELF)})", f"({int(CloseCode.ALREADY_CONNECTED)})")


class Attempt(Protocol):
    """One attempt at a peer."""

    @property
    def connection(self) -> Connection:
        """That is to be made."""

    @property
    def was_linked(self) -> bool:
        """Whether the peer was a part of this hub."""

    @property
    def is_to_be_repeated(self) -> bool:
        """Whether the connection was ended so that another one takes its place at once."""

    @property
    def far_id(self) -> bytes:
        """The id of the far side; empty, or nil, before it has said it."""


class Peer(Protocol):
    """What a dialler has to know of the far side."""

    def attempt(self) -> Attempt:
        """Make the connection of one attempt."""

    def tls(self) -> ssl.SSLContext | None:
        """Return the context for TLS, None without."""

    def is_held(self, reason: str) -> bool:
        """Whether the far side has refused for as long as another link stands, or for good."""

    def is_linked(self, far_id: bytes) -> bool:
        """Whether this hub has a link to that far side."""

    def failed(self, reason: str) -> None:
        """An attempt has not led to a link; for those who tell somebody."""


class Dialler:
    """Keeps one link up.

    Args:
        node: Of the hub.
        endpoint: Where the peer is.
        peer: What it is.
        backoff: How long to wait between attempts.
        address: The one of the addresses of the endpoint's host that is dialled; empty for whichever answers.
    """

    __slots__ = (
        "_address",
        "_backoff",
        "_endpoint",
        "_node",
        "_peer",
        "attempts",
        "is_connected",
        "is_leaving",
        "last_reason",
    )

    def __init__(
        self, node: Node, endpoint: Endpoint, peer: Peer, backoff: Backoff | None = None, *, address: str = ""
    ) -> None:
        self._node = node
        self._endpoint = endpoint
        self._peer = peer
        self._backoff = backoff or Backoff.for_link()
        self._address = address
        self.is_leaving = False
        """Whether nobody is to be dialled any more: a connection that there is stays until it is lost."""
        self.is_connected = False
        """Whether there is a connection now, be it one that waits for its place."""
        self.last_reason = ""
        """Why there was no link, as it was logged last; empty once there was one again."""
        self.attempts = 0

    async def run(self) -> None:
        """Dial until cancelled, until the hub stops, or until there is no connection while it `is_leaving`."""
        while not (self._node.draining or self.is_leaving):
            self.attempts += 1
            attempt = self._peer.attempt()
            reason = await self.stay(attempt.connection)
            if attempt.is_to_be_repeated:
                continue
            is_held = self._peer.is_held(reason)
            if attempt.was_linked and not is_held:  # it has given a sign of life
                self._backoff.reset()
                self.last_reason = ""
            if not attempt.was_linked:
                self._peer.failed(reason)
            if reason != self.last_reason:
                self._node.log.warning("no link to peer", peer=self._shown, reason=reason)
                self.last_reason = reason
            if self.is_leaving:
                return
            if is_held:
                await self._wait_for_place(attempt.far_id)
            await asyncio.sleep(self._backoff.next_s())

    @property
    def _shown(self) -> str:
        """Where the peer is, for people."""
        location = self._endpoint.location
        return f"{location} ({self._address})" if self._address else location

    async def _wait_for_place(self, far_id: bytes) -> None:
        """Wait while another link to the same far side stands; where that cannot be known, for a long time at most."""
        if not any(far_id) or far_id == self._node.id:
            await self._node.vacancies.wait(self._backoff.held_s())
        while self._peer.is_linked(far_id):
            await self._node.vacancies.wait(math.inf)

    async def stay(self, connection: Connection) -> str:
        """Connect once and stay until the connection is lost; return why it is not up."""
        lost = connection.lost = self._node.loop.create_future()  # before it is made: it may be lost at once
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await self._connect(connection)
        except TimeoutError:
            connection.abandon()
            return f"no connection within {CONNECT_TIMEOUT_S:g} s"
        except OSError as error:
            return explained(error, self._endpoint.host) or error.strerror or str(error)
        except (TlsError, UnicodeError) as error:  # a name that no resolver takes
            return str(error)
        except asyncio.CancelledError:
            connection.abandon()
            raise
        self.is_connected = True
        try:
            await lost
        except asyncio.CancelledError:
            if not self._node.draining:  # then the daemon lets it write out what is queued
                connection.abort()
            raise
        finally:
            self.is_connected = False
        return connection.reason

    async def _connect(self, connection: Connection) -> None:
        loop = self._node.loop
        endpoint = self._endpoint
        if endpoint.scheme is Scheme.UNIX:
            await loop.create_unix_connection(lambda: connection, endpoint.path)
            return
        tls = self._peer.tls()
        name = None if tls is None else endpoint.host  # its certificate is for that, whichever address is dialled
        host = self._address or endpoint.host
        await loop.create_connection(lambda: connection, host, endpoint.port, ssl=tls, server_hostname=name)


def hub_dialler(
    node: Node, endpoint: Endpoint, queue: QueueLimits, backoff: Backoff | None = None, *, address: str = ""
) -> Dialler:
    """Keep a link to a peer hub, whose handler gets that queue; see `Dialler`."""
    place = replace(endpoint, host=address) if address else endpoint  # so that links of one name can be told apart
    return Dialler(node, endpoint, PeerHub(node, place, queue), backoff, address=address)


class HubAttempt:
    """See `Attempt`.

    Args:
        node: Of the hub.
        endpoint: Where the peer hub is.
        queue: Of its handler.
    """

    is_to_be_repeated = False

    def __init__(self, node: Node, endpoint: Endpoint, queue: QueueLimits) -> None:
        self._conversation: TcpConversation

        def make(connection: Connection) -> TcpConversation:
            self._conversation = TcpConversation(node, queue, connection, dialled=True, cost=endpoint.cost)
            return self._conversation

        self.connection = Connection(node, make, address=endpoint.location)

    @property
    def was_linked(self) -> bool:
        """Whether the peer hub has said HELLO, and was taken in."""
        return self.connection.has_joined

    @property
    def far_id(self) -> bytes:
        """The id of the peer hub."""
        return self._conversation.far_id


class PeerHub:
    """See `Peer`; the arguments are those of `HubAttempt`."""

    def __init__(self, node: Node, endpoint: Endpoint, queue: QueueLimits) -> None:
        self._node = node
        self._endpoint = endpoint
        self._queue = queue

    def attempt(self) -> HubAttempt:
        """Dial the hub."""
        return HubAttempt(self._node, self._endpoint, self._queue)

    def tls(self) -> ssl.SSLContext | None:
        """Return the context for the URL's scheme, made anew for each attempt: its files may have changed."""
        if not self._endpoint.scheme.is_secure:
            return None
        settings = self._node.settings.tls
        return client_context(settings.ca, settings.certificate, settings.key, settings.crl)

    def is_held(self, reason: str) -> bool:
        """Whether the two hubs are linked already, or are one."""
        return reason.endswith(_REFUSALS)

    def is_linked(self, far_id: bytes) -> bool:
        """Whether a link to that hub stands."""
        return far_id in self._node.links

    def failed(self, reason: str) -> None:
        """Nobody is told; it is logged."""
