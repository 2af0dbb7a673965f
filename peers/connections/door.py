"""The door: what a far side shows of who it is, whatever protocol it speaks, and what follows if that is not known.

```
connection, token ─▶ Proof ─▶ node.access ─▶ Identity, kept on the connection ─▶ place ─▶ rights of its handler
                                   │                                              └── RejectedError: one too many
                                   └── NotRecognisedError: answered after a while, and nothing else is looked at
```

Purpose: one place where TCP, Unix sockets, WebSockets and Broker ask who comes. A connection whose far side was not
recognised is held, unread, until its answer is due (`Ending.turn_away`); it is a newcomer as long, and gives way to
others like one.

Owner of the state: the connection has the identity. Invariants: a token is looked at once and kept nowhere; a far side
that was recognised stays the same user for as long as it is connected; nobody is told that he is in before he has a
place, or he would come back at once, again and again.

Cost: a few µs for each connection, and a signature for a JWT; nothing for a message. Not here: who is known, how long
an answer waits, counters and log (`peers.users.access`), what a user may do (`hub.policy`), the end of a proof
(`peers.connections.connection`).
"""

from __future__ import annotations

import ipaddress
import socket
from contextlib import suppress
from pathlib import Path
from struct import Struct

from hub.errors import CloseCode, NotRecognisedError, RejectedError
from hub.policy.policy import ZEEK, Rights
from hub.settings.config import ConfigError
from peers.connections.connection import Connection
from peers.node.node import Node
from peers.transport.transport import NO_TRANSPORT
from peers.users.access import Proof
from peers.users.files import read_file
from peers.users.identity import Identity
from peers.wire.token import TOKEN_LIMIT_BYTES
from peers.zeek.zmtp.curve.z85 import encode_key

__all__ = ["enter", "enter_zeek", "own_token", "proof_of", "refuse_zeek", "renew", "rights_of", "take_place"]

_CREDENTIALS = Struct("3i")
"""What SO_PEERCRED gives: process, user, group."""


def proof_of(connection: Connection, token: str = "") -> Proof:
    """Return what the far side of a connection shows, with the token that it has shown."""
    transport = connection.transport
    certificate = transport.get_extra_info("peercert") or None
    sock = transport.get_extra_info("socket") if transport is not NO_TRANSPORT else None
    uid = _account(sock)
    return Proof(connection.address, token, certificate, uid, uid is not None or _is_loopback(sock))


def enter(node: Node, connection: Connection, token: str = "") -> Rights | None:
    """Recognise the far side of a connection, and remember who it is.

    Args:
        node: The hub.
        connection: Its far side has not become a part of the hub yet.
        token: That the far side has shown; empty for none.

    Returns:
        What it may do; None for everything.

    Raises:
        NotRecognisedError: It is not known; whoever called turns it away.
    """
    connection.identity = node.access.recognise(proof_of(connection, token))
    return rights_of(node, connection)


def take_place(node: Node, connection: Connection) -> None:
    """Charge a connection to its user, who is known: from now on it is one of those that he may have.

    It is given back when the far side is gone, or has become another user. Zeeks take theirs as they become a part of
    the hub (`hub.departures`): they are told nothing before.

    Raises:
        RejectedError: He has as many as he may have; whoever called refuses it.
    """
    rights = rights_of(node, connection)
    if rights is not None:
        connection.take_place(rights.user)


def enter_zeek(node: Node, connection: Connection, *, dialled: bool, key: bytes = b"") -> None:
    """Recognise a Zeek: by the setting `zeek.role`, or without it by its certificate.

    A Zeek that this hub has dialled is nobody's without that setting: whoever has set up the hub has chosen it.

    Args:
        node: The hub.
        connection: Its far side has not become a part of the hub yet.
        dialled: Whether this hub has dialled it.
        key: The public CURVE key that it has proved to have, and that is allowed; empty for none.

    Raises:
        NotRecognisedError: It is not known; whoever called turns it away.
    """
    role = "" if node.access.is_open else node.settings.zeek.role
    if key and (role or node.access.is_open):
        connection.identity = Identity(ZEEK, frozenset({role} if role else ()), "curve", key=encode_key(key))
    elif role:
        connection.identity = Identity(ZEEK, frozenset({role}), "setting")
    elif not dialled:
        connection.identity = node.access.recognise(proof_of(connection))


def refuse_zeek(node: Node, connection: Connection, error: RejectedError, messages: int) -> None:
    """Count and log messages that a Zeek may not bring: neither of its protocols has a word to tell it so."""
    if connection.handler is not None:
        node.audit.refused(connection.handler, "publish", error, messages)
    node.rejected_messages += messages
    node.log.warning("messages of a Zeek refused", address=connection.address, messages=messages, reason=error.text)


def rights_of(node: Node, connection: Connection) -> Rights | None:
    """Return what the far side of a connection may do now; None for everything.

    A peer hub that this hub has dialled is nobody's: whoever has set up the hub has chosen it.
    """
    identity = connection.identity
    return None if identity is None else node.access.rights(identity)


def renew(node: Node, connection: Connection, token: str) -> None:
    """Take a fresh token in place of what the far side had shown.

    Raises:
        RejectedError: It is not known, or another user's. What was shown before holds on.
    """
    before = connection.identity
    try:
        identity = node.access.recognise(proof_of(connection, token))
    except NotRecognisedError as error:
        connection.bar(error.delay_s)  # as long as a stranger would wait: nobody tries tokens quicker from within
        raise RejectedError(error.code, error.text) from None
    if before is not None and identity.user != before.user:
        raise RejectedError(CloseCode.NOT_ALLOWED, "this token is another user's; connect anew to be somebody else")
    connection.identity = identity
    connection.look_in(0.0)  # it may end sooner
    if connection.handler is not None:  # a token may vouch for other roles than the one before
        node.core.authority.give_rights(connection.handler, rights_of(node, connection))


def own_token(node: Node) -> str:
    """Return what this hub shows to the hubs that it dials; empty for nothing.

    It is read for each link, as it may have been replaced.

    Raises:
        ConfigError: The file cannot be read, or holds no token.
    """
    place = node.settings.access.peer_token
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
    """Return the account that the other end of a Unix socket runs under; None for others, and where nobody tells."""
    if sock is None or sock.family != socket.AF_UNIX or not hasattr(socket, "SO_PEERCRED"):  # Linux has that
        return None
    with suppress(OSError):
        packed = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        uid: int = _CREDENTIALS.unpack(packed)[1]
        return uid
    return None


def _is_loopback(sock: socket.socket | None) -> bool:
    """Return whether a socket was accepted on an address of this machine alone."""
    if sock is None:
        return False
    with suppress(OSError, ValueError, IndexError):
        here = ipaddress.ip_address(sock.getsockname()[0].partition("%")[0])
        return (getattr(here, "ipv4_mapped", None) or here).is_loopback
    return False
