"""`Learned`: which addresses that other hubs tell of themselves are dialled, and how far whoever answers is trusted.

An address that was heard of is no address that somebody has chosen: what a mesh tells may be told by anybody who is a
part of it. So nothing is taken on trust, and nothing is given away that is worth stealing:

| | |
|---|---|
| the token of `access.peer_token` | is never shown there |
| the certificate and key of `tls.*` | as in any handshake: only once the far side's certificate was found to be good |
| `tls://` | is dialled where there is `tls.ca`, which must vouch for the far side under the name in the address |
| `tcp://` | is dialled where hubs are not vouched for (no `tls.ca`), and strangers are let in here anyway |
| addresses of this machine | are dialled by hubs that advertise one themselves: all of them may be on one machine |
| who answers | is who its certificate says, needs a role with `link` where there are users, and has its rights |
| another hub than the one that was meant | is refused, unless that one has a link to it, or it was lost as well |

Owner: the dialler of spares. Cost: an address is parsed once, and again after a reload. Not here: when a hub is dialled
(`hub.mesh.spares`), who somebody is (`peers.connections.door`).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from contextlib import suppress
from typing import Final

from peers.connections.name_dialler import resolve
from peers.node.node import Node
from peers.transport.endpoints import Endpoint, InvalidEndpointError, Scheme

__all__ = ["Learned", "NotDialledError"]

_JUDGED_LIMIT: Final = 4096
"""Of how many addresses it is remembered what follows; all are judged anew beyond that."""

_TOLD_LIMIT: Final = 256
"""For how many of them the log says why they are not dialled."""


class NotDialledError(OSError):
    """A host leads where this hub does not go."""


class Learned:
    """What this hub makes of addresses.

    Args:
        node: The hub.
        peers: What it was told to dial: it does so anyway.
    """

    def __init__(self, node: Node, peers: Collection[Endpoint]) -> None:
        self._node = node
        mesh = node.core.mesh
        advertised = [Endpoint.parse(url) for url in mesh.records[mesh.hub].addresses]
        self._known = {endpoint.location for endpoint in (*peers, *advertised)}
        # Whether other hubs are on this machine.
        self._is_local = any(map(_is_here, (endpoint.host for endpoint in advertised)))
        # Address → whether it is dialled; and by what settings and policy.
        self._judged: dict[str, bool] = {}
        self._judged_by: tuple[object, object] = (None, None)
        self._told: set[str] = set()

    def may_dial(self, address: str) -> bool:
        """Return whether an address is dialled; the log says why not, once."""
        node = self._node
        by = node.settings, node.access.policy
        if self._judged_by[0] is not by[0] or self._judged_by[1] is not by[1] or len(self._judged) >= _JUDGED_LIMIT:
            self._judged.clear()
            self._judged_by = by
        judged = self._judged.get(address)
        if judged is None:
            reason = self._reason_against(address)
            judged = self._judged[address] = reason is None
            if reason and address not in self._told and len(self._told) < _TOLD_LIMIT:
                self._told.add(address)
                node.log.warning("the address of another hub is not dialled", address=address, reason=reason)
        return judged

    def _reason_against(self, address: str) -> str | None:
        """Return why an address is not dialled: None if it is, empty if that is nothing to be told."""
        try:
            endpoint = Endpoint.parse_advertised(address)
        except InvalidEndpointError as error:
            return error.reason
        if endpoint.location in self._known:
            return ""
        if _is_here(endpoint.host) and not self._is_local:
            return "it is this machine, where this hub advertises no address"
        return self._doubt(endpoint.scheme)

    def _doubt(self, scheme: Scheme) -> str | None:
        """Return why nobody who answers over a protocol could be trusted; None if somebody could."""
        has_authority = bool(self._node.settings.tls.ca)
        if scheme is Scheme.TLS:
            return None if has_authority else "there is no tls.ca that could vouch for it"
        if has_authority:
            return "nobody vouches for who answers at tcp://, and here tls.ca vouches for hubs"
        if not self._node.access.takes_strangers:
            return "nobody vouches for who answers at tcp://, and no stranger is let in here"
        return None

    async def find(self, endpoint: Endpoint) -> str:
        """Return the address of a host.

        Raises:
            OSError, UnicodeError: It cannot be resolved, or this hub does not go there.
        """
        found = await resolve(endpoint.host, endpoint.port)
        for address in found:
            if self._is_local or not _is_here(address):
                return address
        raise NotDialledError("it leads to this machine" if found else "it has no address")

    def objection(self, meant: bytes, far: bytes) -> str:
        """Return why a hub that has answered is not to be linked with; empty if it is.

        One that the hub that was meant has a link to will do as well: a machine with workers answers by one of them.
        """
        graph = self._node.core.mesh.graph
        if far in {meant, self._node.id} or far not in graph.reached or far in graph.links.get(meant, ()):
            return ""
        return "another hub answers there than the one that has advertised the address"


def _is_here(host: str) -> bool:
    """Whether a host is this machine, as far as it can be seen."""
    if host == "localhost":
        return True
    with suppress(ValueError):
        address = ipaddress.ip_address(host.partition("%")[0])
        address = getattr(address, "ipv4_mapped", None) or address
        return address.is_loopback or address.is_unspecified
    return False
