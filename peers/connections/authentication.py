"""The door: authentication for all protocols, and rejections.

```
connection, token ─▶ Proof ─▶ node.access ─▶ Identity, kept on the connection ─▶ place ─▶ rights of its handler
                                   │                                              └── RejectedError: one too many
                                   └── NotRecognisedError: answered after a while, and nothing else is looked at
```

A connection that was not authenticated is held, unread, until its answer is due; until then it is a newcomer, and may
be evicted like one. A token is looked at once and kept nowhere; an authenticated far side stays the same user for as
long as it is connected. No far side is told that it is in before it has a place, or it would come back at once.
"""

from __future__ import annotations

import ipaddress
import socket
from contextlib import suppress
from pathlib import Path
from struct import Struct

from hub.errors import CloseCode, NotRecognisedError, RejectedError
from hub.handlers.delivery import Role
from hub.handlers.handler import Handler, Poster
from hub.limits import QueueLimits
from hub.policy.policy import ZEEK, Rights
from hub.settings.keys import ConfigError
from peers.connections.connection import Connection
from peers.server.server import Server
from peers.transport.transport import NO_TRANSPORT
from peers.users.access import Proof
from peers.users.files import read_file
from peers.users.identity import Identity
from peers.wire.control import TOKEN_LIMIT_BYTES
from peers.zeek.zmtp.z85 import encode_key

_CREDENTIALS = Struct("3i")
"""SO_PEERCRED: process, user, group."""


def proof_of(connection: Connection, token: str = "") -> Proof:
    """Return the proof of identity of a connection, with a token if it has shown one."""
    transport = connection.transport
    certificate = transport.get_extra_info("peercert") or None
    sock = transport.get_extra_info("socket") if transport is not NO_TRANSPORT else None
    uid = _account(sock)
    return Proof(connection.address, token, certificate, uid, uid is not None or _is_loopback(sock))


def enter(server: Server, connection: Connection, token: str = "") -> Rights | None:
    """Authenticate the far side of a connection, and keep its identity; return its rights, None for all.

    Raises:
        NotRecognisedError: It is not known; the caller turns it away.
    """
    connection.identity = server.access.recognise(proof_of(connection, token))
    return rights_of(server, connection)


def take_place(server: Server, connection: Connection) -> None:
    """Charge a connection to its user.

    Zeeks are charged as they join the hub (`Core.detach`): they get no answer before.

    Raises:
        RejectedError: The user has as many connections as they may have.
    """
    rights = rights_of(server, connection)
    if rights is not None:
        connection.take_place(rights.user)


def join_client(
    server: Server, connection: Connection, name: str, limits: QueueLimits, *, poster: Poster | None = None
) -> Handler:
    """Make an authenticated client a handler of the core; a poster lets it send requests and serve."""
    handler = Handler(
        connection,
        role=Role.CLIENT,
        limits=limits,
        name=name,
        address=connection.address,
        poster=poster,
        frame_limit_bytes=server.settings.limits.frame_bytes,
        rights=rights_of(server, connection),
    )
    connection.join(handler)
    server.core.attach(handler)
    connection.charge_user()
    return handler


def enter_zeek(server: Server, connection: Connection, *, dialled: bool, key: bytes = b"") -> None:
    """Authenticate a Zeek by the setting `zeek.role`, or without it by its certificate.

    A Zeek that this hub has dialled needs neither: the hub's configuration names it.

    Args:
        node: The hub.
        connection: Its connection.
        dialled: Whether this hub has dialled it.
        key: The public CURVE key that it has proved to have, and that is allowed; empty for none.

    Raises:
        NotRecognisedError: It is not known; the caller turns it away.
    """
    role = "" if server.access.is_open else server.settings.zeek.role
    if key and (role or server.access.is_open):
        connection.identity = Identity(ZEEK, frozenset({role} if role else ()), "curve", key=encode_key(key))
    elif role:
        connection.identity = Identity(ZEEK, frozenset({role}), "setting")
    elif not dialled:
        connection.identity = server.access.recognise(proof_of(connection))


def refuse_zeek(server: Server, connection: Connection, error: RejectedError, messages: int) -> None:
    """Count and log messages that a Zeek may not publish: neither of its protocols has a word for that."""
    if connection.handler is not None:
        server.audit.refused(connection.handler, "publish", error, messages)
    server.rejected_messages += messages
    server.log.warning("messages of a Zeek refused", address=connection.address, messages=messages, reason=error.text)


def rights_of(server: Server, connection: Connection) -> Rights | None:
    """Return the rights of a far side; None for all, as for a peer hub that this hub has dialled."""
    identity = connection.identity
    return None if identity is None else server.access.rights(identity)


def renew(server: Server, connection: Connection, token: str) -> None:
    """Take a fresh token in place of the earlier proof.

    Raises:
        RejectedError: It is not known, or another user's. The earlier proof holds on.
    """
    before = connection.identity
    try:
        identity = server.access.recognise(proof_of(connection, token))
    except NotRecognisedError as error:
        connection.bar(error.delay_s)  # as long as a stranger would wait: nobody tries tokens quicker from within
        raise RejectedError(error.code, error.text) from None
    if before is not None and identity.user != before.user:
        raise RejectedError(CloseCode.NOT_ALLOWED, "this token is another user's; connect anew to be somebody else")
    connection.identity = identity
    connection.look_in(0.0)  # it may end sooner
    if connection.handler is not None:  # a token may vouch for other roles than the one before
        server.core.authority.give_rights(connection.handler, rights_of(server, connection))


def own_token(server: Server) -> str:
    """Return this hub's token for the hubs that it dials; empty for none. It is read for each link.

    Raises:
        ConfigError: The file cannot be read, or holds no token.
    """
    place = server.settings.access.peer_token
    if not place:
        return ""
    content = read_file(Path(place), TOKEN_LIMIT_BYTES, "a token")
    try:
        token = content.decode("ascii").strip()
    except UnicodeDecodeError:
        token = ""
    if not token.isprintable() or not token:
        raise ConfigError(place, "", "holds no token: one line of text is expected")
    return token


def _account(sock: socket.socket | None) -> int | None:
    """Return the account that the other end of a Unix socket runs under; None for others."""
    if sock is None or sock.family != socket.AF_UNIX or not hasattr(socket, "SO_PEERCRED"):  # Linux has that
        return None
    with suppress(OSError):
        packed = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        uid: int = _CREDENTIALS.unpack(packed)[1]
        return uid
    return None


def _is_loopback(sock: socket.socket | None) -> bool:
    """Return whether a socket was accepted on a loopback address."""
    if sock is None:
        return False
    with suppress(OSError, ValueError, IndexError):
        here = ipaddress.ip_address(sock.getsockname()[0].partition("%")[0])
        return (getattr(here, "ipv4_mapped", None) or here).is_loopback
    return False
