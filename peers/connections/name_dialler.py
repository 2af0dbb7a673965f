"""`NameDialler`: keep a link to each hub that stands behind one name.

```
name ─▶ resolver ─┬─ one address, or one of each family ─▶ a dialler of the name, as for any other peer
                  └─ several of one family              ─▶ a dialler for each address
   └── again and again: who has come is dialled, who has left is let go once his link is lost
```

A headless service of Kubernetes has the addresses of all its pods, the one of the hub that asks among them: that one is
recognised by its id, and left alone (`peers.node.links`). A host with an IPv4 and an IPv6 address is one hub, so
only addresses of one family count, those of the larger one.

Owner of the state: its task, made by the daemon. Invariants: each address has one dialler at most; a name that cannot
be resolved for a while changes nothing. Cost: one question to the resolver every `RESOLVE_EVERY_S`, in a thread.

Not here: how one address is dialled (`peers.connections.dialler`).
"""

from __future__ import annotations

import asyncio
import ipaddress
import random
import socket
from collections.abc import Awaitable, Callable
from typing import Final

from peers.connections.dialler import Dialler
from peers.node.node import Node
from peers.transport.endpoints import Endpoint, Scheme
from peers.transport.tasks import end_all

RESOLVE_EVERY_S: Final = 15.0
"""How often a name is resolved, seconds, drawn from the upper half: what resolvers keep is as old where they serve
services."""

ADDRESSES_LIMIT: Final = 64
"""Most addresses of one name that are dialled; further ones are left out, with one line. A mesh is connected by far
fewer links."""

_WHICHEVER: Final = ""
"""Stands for the name itself: whichever of its addresses answers."""


def is_name(endpoint: Endpoint) -> bool:
    """Return whether a peer is told by a name, which may have several addresses."""
    if endpoint.scheme not in {Scheme.TCP, Scheme.TLS}:
        return False
    try:
        ipaddress.ip_address(endpoint.host)
    except ValueError:
        return True
    return False


async def resolve(host: str, port: int) -> list[str]:
    """Return the addresses of a name, those of the family that has most of them; in the order of the resolver.

    Raises:
        OSError, UnicodeError: It cannot be resolved.
    """
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    families: dict[int, dict[str, None]] = {}
    for family, _, _, _, place in found:
        families.setdefault(family, {})[str(place[0])] = None
    return max((list(family) for family in families.values()), key=len, default=[])  # the first one, of equal ones


class NameDialler:
    """Keeps links to all hubs of one name.

    Args:
        node: Of the hub.
        endpoint: Where the peers are.
        make: Returns the dialler of one address, or of the name itself for an empty one.
        find: Returns the addresses of a name.
    """

    __slots__ = ("_diallers", "_endpoint", "_find", "_has_several", "_has_told", "_make", "_node")

    def __init__(
        self,
        node: Node,
        endpoint: Endpoint,
        make: Callable[[str], Dialler],
        find: Callable[[str, int], Awaitable[list[str]]] = resolve,
    ) -> None:
        self._node = node
        self._endpoint = endpoint
        self._make = make
        self._find = find
        # Address → its dialler, with its task; also of an address that has left, until its link is lost.
        self._diallers: dict[str, tuple[Dialler, asyncio.Task[None]]] = {}
        # Whether there were several addresses once: from then on one that is left alone is dialled as such.
        self._has_several = False
        # Whether it was told that there are too many addresses.
        self._has_told = False

    async def run(self) -> None:
        """Dial until cancelled, or until the hub stops."""
        try:
            while not self._node.draining:
                await self.look()
                wait_s = random.uniform(RESOLVE_EVERY_S / 2, RESOLVE_EVERY_S)  # noqa: S311 -- spread, not secrecy
                await asyncio.sleep(wait_s)
        finally:
            tasks = [task for _, task in self._diallers.values()]
            await end_all(tasks)

    async def look(self) -> None:
        """Resolve the name, and dial whoever has come."""
        try:
            found = await self._find(self._endpoint.host, self._endpoint.port)
        except (OSError, UnicodeError):
            found = []  # whoever dials the name says why
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
        """The addresses that are dialled, and those that have left and are still linked."""
        return [address for address, (_, task) in self._diallers.items() if not task.done()]

    def _wanted(self, found: list[str]) -> list[str]:
        """Return what is to be dialled; where no address is found, what was to be dialled before."""
        self._has_several = self._has_several or len(found) > 1
        if not self._has_several:
            return [_WHICHEVER]
        if not found:
            return [address for address, (dialler, _) in self._diallers.items() if not dialler.is_leaving]
        if len(found) > ADDRESSES_LIMIT and not self._has_told:
            self._has_told = True
            self._node.log.warning(
                "a peer's name has too many addresses, some are not dialled",
                peer=self._endpoint.location,
                addresses=len(found),
                limit=ADDRESSES_LIMIT,
            )
        return sorted(found)[:ADDRESSES_LIMIT]

    def _begin(self, address: str) -> None:
        dialler = self._make(address)
        task = self._node.loop.create_task(dialler.run(), name=f"link to {self._endpoint.location} {address}")
        self._diallers[address] = dialler, task
