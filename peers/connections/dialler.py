"""`Dialler`: keep a connection to one peer, of any protocol; `NameDialler`: to all hubs behind one name.

```
name ─▶ resolver ─┬─ one address, or one of each family ─▶ a dialler of the name, as for any other peer
                  └─ several of one family              ─▶ a dialler for each address
```

Failures are logged once per different reason. If the far side has a link to this hub already, the next attempt follows
when a link of this hub ends. A headless service of Kubernetes has the addresses of all its pods, among them this hub's
own, which is recognised by its id. A host with an IPv4 and an IPv6 address is one hub: one family counts.
"""

from __future__ import annotations

import asyncio
import ipaddress
import math
import random
import socket
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final, cast

from hub.errors import CloseCode
from hub.limits import QueueLimits
from peers.connections.connection import Connection
from peers.connections.tcp import TcpConversation, tcp_connection
from peers.server.server import Server
from peers.transport.endpoints import Endpoint, Scheme
from peers.transport.timing import Backoff
from peers.transport.tls import TlsError, client_context, explained
from peers.transport.transport import end_all

CONNECT_TIMEOUT_S = 5.0

_REFUSALS = (f"({int(CloseCode.SAME_HUB)})", f"({int(CloseCode.ALREADY_CONNECTED)})")


class Dialler:
    """Keeps one link up; each protocol has a subclass.

    Args:
        server: The hub.
        endpoint: Where the peer is.
        backoff: How long to wait between attempts.
        address: The address of the endpoint's host to dial; empty for any that answers.
    """

    def __init__(
        self, server: Server, endpoint: Endpoint, backoff: Backoff | None = None, *, address: str = ""
    ) -> None:
        self._server = server
        self._endpoint = endpoint
        self._backoff = backoff or Backoff.for_link()
        self._address = address
        self.is_leaving = False  # whether to dial no more: a connection that there is stays until it is lost
        self.is_connected = False  # whether there is a connection now, perhaps one that waits for its place
        self.last_reason = ""  # the reason that was logged last; empty once there was a link again
        self.attempts = 0

    def make(self) -> Connection:
        raise NotImplementedError

    def tls(self) -> ssl.SSLContext | None:
        """Return the context for TLS, made for each attempt, as its files may have changed; None without."""
        return None

    def was_linked(self, connection: Connection, conversation: Any) -> bool:  # noqa: ARG002 -- a bridge looks at it
        """Return whether the far side of a lost connection had joined."""
        return connection.has_joined

    def is_replaced(self, conversation: Any) -> bool:  # noqa: ARG002 -- only bridges are
        """Return whether a lost connection was ended so that another one takes its place at once."""
        return False

    def is_held(self, reason: str) -> bool:  # noqa: ARG002 -- where one link excludes another
        """Return whether the far side rejects, by its reason, for as long as another link stands, or for good."""
        return False

    def far_id(self, conversation: Any) -> bytes:  # noqa: ARG002 -- as `is_held`
        """Return the id of the far side; empty, or nil, where it is unknown."""
        return b""

    def is_linked(self, far_id: bytes) -> bool:  # noqa: ARG002 -- as `is_held`
        """Return whether this hub has a link to that far side."""
        return False

    def failed(self, reason: str) -> None:
        """An attempt has not led to a link."""

    async def run(self) -> None:
        while not (self._server.draining or self.is_leaving):
            self.attempts += 1
            connection = self.make()
            conversation = connection.conversation  # the connection drops it when it ends
            reason = await self.stay(connection)
            if self.is_replaced(conversation):
                continue
            is_held = self.is_held(reason)
            was_linked = self.was_linked(connection, conversation)
            if was_linked and not is_held:  # it has given a sign of life
                self._backoff.reset()
                self.last_reason = ""
            if not was_linked:
                self.failed(reason)
            if reason != self.last_reason:
                self._server.log.warning("no link to peer", peer=self._shown, reason=reason)
                self.last_reason = reason
            if self.is_leaving:
                return
            if is_held:
                await self._wait_for_place(self.far_id(conversation))
            await asyncio.sleep(self._backoff.next_s())

    @property
    def _shown(self) -> str:
        location = self._endpoint.location
        return f"{location} ({self._address})" if self._address else location

    async def _wait_for_place(self, far_id: bytes) -> None:
        """Wait while another link to the same far side stands; where that is unknown, for a long time at most."""
        if not any(far_id) or far_id == self._server.id:
            await self._server.vacancies.wait(self._backoff.held_s())
        while self.is_linked(far_id):
            await self._server.vacancies.wait(math.inf)

    async def stay(self, connection: Connection) -> str:
        """Connect once and stay until the connection is lost; return why it is not up."""
        lost = connection.lost = self._server.loop.create_future()  # before it is made: it may be lost at once
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
            if not self._server.draining:  # then the daemon lets it write its queue
                connection.abort()
            raise
        finally:
            self.is_connected = False
        return connection.reason

    async def _connect(self, connection: Connection) -> None:
        loop = self._server.loop
        endpoint = self._endpoint
        if endpoint.scheme is Scheme.UNIX:
            await loop.create_unix_connection(lambda: connection, endpoint.path)
            return
        tls = self.tls()
        name = None if tls is None else endpoint.host  # its certificate is for that, whichever address is dialled
        host = self._address or endpoint.host
        await loop.create_connection(lambda: connection, host, endpoint.port, ssl=tls, server_hostname=name)


class HubDialler(Dialler):
    """Keeps a link to a peer hub, whose handler gets that queue."""

    def __init__(
        self,
        server: Server,
        endpoint: Endpoint,
        queue: QueueLimits,
        backoff: Backoff | None = None,
        *,
        address: str = "",
    ) -> None:
        super().__init__(server, endpoint, backoff, address=address)
        self._queue = queue

    def make(self) -> Connection:
        # With the address, so that links of one name can be told apart.
        place = replace(self._endpoint, host=self._address) if self._address else self._endpoint
        cost = self._endpoint.cost
        return tcp_connection(self._server, self._queue, dialled=True, address=place.location, cost=cost)

    def tls(self) -> ssl.SSLContext | None:
        settings = self._server.settings.tls
        files = (settings.ca, settings.certificate, settings.key, settings.crl)
        return client_context(*files) if self._endpoint.scheme.is_secure else None

    def is_held(self, reason: str) -> bool:
        return reason.endswith(_REFUSALS)

    def far_id(self, conversation: Any) -> bytes:
        return cast("TcpConversation", conversation).far_id

    def is_linked(self, far_id: bytes) -> bool:
        return far_id in self._server.links


# Several hubs behind one name.


RESOLVE_EVERY_S: Final = 15.0  # how often a name is resolved, seconds, drawn from the upper half

ADDRESSES_LIMIT: Final = 64  # most addresses of one name that are dialled: far fewer links connect a mesh

_ANY_ADDRESS: Final = ""  # stands for the name itself: any of its addresses


def is_name(endpoint: Endpoint) -> bool:
    if endpoint.scheme not in {Scheme.TCP, Scheme.TLS}:
        return False
    try:
        ipaddress.ip_address(endpoint.host)
    except ValueError:
        return True
    return False


async def resolve(host: str, port: int) -> list[str]:
    """Return the addresses of a name, of the family that has most of them; in the order of the resolver.

    Raises:
        OSError, UnicodeError: It cannot be resolved.
    """
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    families: dict[int, dict[str, None]] = {}
    for family, _, _, _, place in found:
        families.setdefault(family, {})[str(place[0])] = None
    return max((list(family) for family in families.values()), key=len, default=[])  # the first one, of equal ones


class NameDialler:
    """Keeps links to all hubs of one name; `make` returns the dialler of an address; empty: of the name."""

    __slots__ = ("_diallers", "_endpoint", "_find", "_has_logged", "_has_several", "_make", "_server")

    def __init__(
        self,
        server: Server,
        endpoint: Endpoint,
        make: Callable[[str], Dialler],
        find: Callable[[str, int], Awaitable[list[str]]] = resolve,
    ) -> None:
        self._server = server
        self._endpoint = endpoint
        self._make = make
        self._find = find
        # Address → its dialler, with its task; also of an address that has left, until its link is lost.
        self._diallers: dict[str, tuple[Dialler, asyncio.Task[None]]] = {}
        # Whether there were several addresses once: from then on one that is left alone is dialled as such.
        self._has_several = False
        self._has_logged = False  # that there are too many addresses

    async def run(self) -> None:
        try:
            while not self._server.draining:
                await self.look()
                wait_s = random.uniform(RESOLVE_EVERY_S / 2, RESOLVE_EVERY_S)  # noqa: S311 -- spread, not secrecy
                await asyncio.sleep(wait_s)
        finally:
            tasks = [task for _, task in self._diallers.values()]
            await end_all(tasks)

    async def look(self) -> None:
        try:
            found = await self._find(self._endpoint.host, self._endpoint.port)
        except (OSError, UnicodeError):
            found = []  # the dialler of the name logs why
        self._diallers = {address: both for address, both in self._diallers.items() if not both[1].done()}
        wanted = self._wanted(found)
        for address, (dialler, task) in self._diallers.items():
            dialler.is_leaving = address not in wanted
            if dialler.is_leaving and not dialler.is_connected:
                task.cancel()
        for address in wanted:
            if address not in self._diallers:
                self._begin(address)

    @property
    def addresses(self) -> list[str]:
        return [address for address, (_, task) in self._diallers.items() if not task.done()]

    def _wanted(self, found: list[str]) -> list[str]:
        """Return the addresses to dial; where none is found, those from before."""
        self._has_several = self._has_several or len(found) > 1
        if not self._has_several:
            return [_ANY_ADDRESS]
        if not found:
            return [address for address, (dialler, _) in self._diallers.items() if not dialler.is_leaving]
        if len(found) > ADDRESSES_LIMIT and not self._has_logged:
            self._has_logged = True
            self._server.log.warning(
                "a peer's name has too many addresses, some are not dialled",
                peer=self._endpoint.location,
                addresses=len(found),
                limit=ADDRESSES_LIMIT,
            )
        return sorted(found)[:ADDRESSES_LIMIT]

    def _begin(self, address: str) -> None:
        dialler = self._make(address)
        task = self._server.loop.create_task(dialler.run(), name=f"link to {self._endpoint.location} {address}")
        self._diallers[address] = dialler, task
