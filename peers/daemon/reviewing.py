"""`review`: after a reload, all connections get new rights, or are closed with 4403 if their user is gone.

New connections are recognised by the new users already. The core's routes forget decisions of the old policy at once,
and each handler is judged by its old rights until its turn comes. 5 to 30 µs a connection.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from hub.errors import CloseCode
from hub.settings.settings import TlsSettings
from peers.server.server import Connected, Server
from peers.transport.tls import TlsError, load_authorities
from peers.users.access import Access
from peers.users.identity import Identity
from peers.users.users import Users

_STEP = 100  # Connections in a turn: 3 ms
_GONE = "your user was removed, or your credentials are no longer valid"
_NO_PEER = "your user may not be a peer hub any more"
_UNKNOWN = "this hub has users now: connect again, to be recognised"
_NOT_VOUCHED = "your certificate was revoked, or no authority that this hub knows vouches for it any more"
_END_OF_LIST = b"-----END X509 CRL-----"


class Vouching(NamedTuple):
    """Which certificates are good. OpenSSL checks only new connections."""

    authorities: frozenset[bytes] = frozenset()  # Those of `tls.ca`, DER; empty for the defaults of OpenSSL
    revoked: frozenset[tuple[bytes, int]] = frozenset()  # By issuer, DER, and serial number

    @classmethod
    def read(cls, settings: TlsSettings) -> Vouching:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if settings.ca:
            load_authorities(context, settings.ca, "tls.ca")
        return cls(frozenset(context.get_ca_certs(binary_form=True)), frozenset(_revoked(settings.crl)))

    def is_good(self, tls: Any) -> bool:
        """Return whether the peer certificate of an `ssl.SSLObject` is good; True without one."""
        leaf = tls.getpeercert(binary_form=True)
        if leaf is None:
            return True
        if self.revoked:
            from cryptography.x509 import load_der_x509_certificate  # noqa: PLC0415 -- few hubs have revocation lists

            loaded = load_der_x509_certificate(leaf)
            if (loaded.issuer.public_bytes(), loaded.serial_number) in self.revoked:
                return False
        return not self.authorities or _root(tls) in self.authorities


def _root(tls: Any) -> bytes | None:
    if hasattr(tls, "get_verified_chain"):  # from Python 3.13 on
        chain = tls.get_verified_chain()
    else:
        chain = [one.public_bytes(2) for one in tls._sslobj.get_verified_chain() or ()]  # noqa: SLF001 -- 2 is DER
    return bytes(chain[-1]) if chain else None


def _revoked(crl: str) -> list[tuple[bytes, int]]:
    if not crl:
        return []
    from cryptography.x509 import load_pem_x509_crl  # noqa: PLC0415 -- few hubs have revocation lists

    try:
        *lists, _ = Path(crl).read_bytes().split(_END_OF_LIST)
        loaded = [load_pem_x509_crl(one[max(0, one.find(b"-----BEGIN X509 CRL")) :] + _END_OF_LIST) for one in lists]
    except (OSError, ValueError) as error:
        raise TlsError(f"tls.crl {crl}: {getattr(error, 'strerror', None) or error}") from error
    return [(one.issuer.public_bytes(), entry.serial_number) for one in loaded for entry in one]


_ANY = Vouching()


def judge_certificate(connection: Connected, vouching: Vouching) -> bool:
    """Close a connection whose certificate is not good any more; return whether it was closed."""
    tls = connection.tls
    if tls is None or vouching.is_good(tls):
        return False
    connection.end(CloseCode.NOT_RECOGNISED, _NOT_VOUCHED)
    return True


async def review(server: Server, vouching: Vouching = _ANY, *, was_open: bool) -> int:
    """Review all present connections; return how many were closed."""
    closed = 0
    for place, connection in enumerate(list(server.connections), 1):
        closed += judge_certificate(connection, vouching) or _judge(server, connection, was_open=was_open)
        if not place % _STEP:
            await asyncio.sleep(0)
    return closed


def identities(server: Server) -> list[list[Any]]:
    """Return each connected identity once, with the number of its connections behind its fields."""
    there = [one for one in server.connections if one.handler is not None and not one.handler.closed]
    counts = Counter(one.identity for one in there if one.identity is not None)
    return [[one.user, list(one.roles), *one[2:], count] for one, count in counts.items()]


def would_close(server: Server, users: Users, parts: Iterable[Iterable[list[Any]]]) -> tuple[int, int]:
    """Return how many connections would be closed as their users are gone, and how many were recognised."""
    access = Access(users, server.loop.time, time.time)
    closed = connected = 0
    for user, roles, *proof, count in (row for part in parts for row in part):
        connected += count
        closed += 0 if access.is_current(Identity(user, frozenset(roles), *proof)) else count
    return closed, connected


def _judge(server: Server, connection: Connected, *, was_open: bool) -> bool:
    identity, handler = connection.identity, connection.handler
    if identity is None:  # it has not authenticated, or this hub has dialled it
        return False
    if not server.access.is_current(identity):
        if was_open:
            connection.end(CloseCode.GOING_AWAY, _UNKNOWN)
        else:
            connection.end(CloseCode.FORBIDDEN, _GONE)
        return True
    if handler is not None:
        rights = server.access.rights(identity)
        if handler.is_link and rights is not None and not rights.may_link:
            connection.end(CloseCode.FORBIDDEN, _NO_PEER)
            return True
        server.core.authority.give_rights(handler, rights)
    return False
