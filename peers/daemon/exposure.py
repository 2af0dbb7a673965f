"""`Exposure`: which listeners strangers reach, and what keeps them out where nobody has said who may come in.

| the hub listens | and `access.*` says | then |
|---|---|---|
| on loopback and Unix sockets alone | nothing | everybody on this machine may do everything |
| where only those get in for whom an authority vouches | nothing | whoever has a certificate may do everything |
| where only those get in whose CURVE key is allowed | nothing | whoever has one may do everything |
| elsewhere | nothing | an admin's token is made at the first start, and nobody else gets in |
| anywhere | something | that holds |

Owner: nobody; the daemon asks at the start and at each reload, so that a reload opens nothing that was closed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import msgspec

from hub.settings.settings import Settings
from peers.daemon.sources import Loaded
from peers.transport.endpoints import Endpoint, Scheme
from peers.users.admin_token import AdminToken, usual_place

__all__ = ["guarded", "is_loopback", "reaches_strangers"]


def is_loopback(endpoint: Endpoint) -> bool:
    """Tell whether only this machine reaches a listener on TCP."""
    return endpoint.host in {"localhost", "::1"} or endpoint.host.startswith("127.")


def reaches_strangers(endpoint: Endpoint, settings: Settings) -> bool:
    """Tell whether a listener takes whoever comes from the network, as far as the transport is concerned."""
    if endpoint.scheme is Scheme.UNIX or is_loopback(endpoint):
        return False
    if endpoint.scheme is Scheme.ZEEK:
        return not settings.zeek.ca
    if endpoint.scheme in {Scheme.ZEEK_ZMQ, Scheme.ZEEK_LOG}:
        return not settings.zeek.curve_key
    return not (endpoint.scheme.is_secure and settings.tls.clients == "required")


def guarded(loaded: Loaded, environment: Mapping[str, str]) -> tuple[Loaded, bool]:
    """Return settings by which no stranger gets in whom nobody has let in, and whether the admin's token was just made.

    Raises:
        ConfigError: The file of the admin's token cannot be made.
    """
    settings = loaded.settings
    access = settings.access
    if not access.admin_token:
        says = access.policy or access.tokens or access.anonymous or access.jwt_keys
        if says or not any(reaches_strangers(endpoint, settings) for endpoint in loaded.listen):
            return loaded, False
        access = msgspec.structs.replace(access, admin_token=usual_place(environment))
        settings = msgspec.structs.replace(settings, access=access)
    is_new = AdminToken(access.admin_token).ensure()
    return dataclasses.replace(loaded, settings=settings), is_new
